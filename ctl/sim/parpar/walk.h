/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The program of the experiments: a fractal random walk over an array (ParPar sec. 4.1, F. 4, read as B-PP-1), and its
 * memory references.
 *
 * A jump X has P(X > u) = u^-theta, u >= 1: the inverse of a uniform r is
 * r^(-1/theta) = e^(E/theta), E exponential. Both signs are equally likely.
 *
 * Under LRU a page is resident iff fewer other pages than fit were touched
 * since its last touch, so one pass that counts these, the stack distance,
 * gives the part of accesses that miss for every size at once (Mattson et al.,
 * IBM Systems Journal 9, 1970).
 */
#ifndef SIM_WALK_H
#define SIM_WALK_H

#include "state.h"

struct walk {
	uint64_t	stream;
	double		at, range, theta;
};

static struct walk walk_of(double theta, uint64_t range, uint64_t seed, uint64_t number)
{
	log_tables();
	return (struct walk){ stream_of(seed, number, 0, DRAW_PAGE), 0, (double)range, theta };
}

static inline double jump(struct walk *w)
{
	return exponent(exponential(&w->stream) / w->theta);
}

/* Jump, and return the place in the array. */
static inline uint64_t walk_on(struct walk *w)
{
	double by = jump(w);

	w->at += draw(&w->stream) & 1 ? -by : by;
	if (w->at >= w->range || w->at < 0) {
		w->at -= w->range * (double)(int64_t)(w->at / w->range);
		if (w->at < 0)
			w->at += w->range;
		if (w->at >= w->range)	/* -tiny + range */
			w->at = 0;
	}
	return (uint64_t)w->at;
}

/* --- stack distances: a Fenwick tree over the times of last touches --- */

#define TOUCHES (1U << 16)

struct stack {
	uint32_t	tree[TOUCHES + 1];	/* 1 where some page's last touch is */
	uint32_t	*last;			/* time of each page's last touch, 1 to TOUCHES */
	uint32_t	*order;
	uint32_t	pages, now;
};

static inline void stack_add(struct stack *k, uint32_t at, uint32_t by)
{
	for (; at <= TOUCHES; at += at & -at)
		k->tree[at] += by;
}

static inline uint32_t stack_sum(const struct stack *k, uint32_t at)
{
	uint32_t sum = 0;

	for (; at; at &= at - 1)
		sum += k->tree[at];
	return sum;
}

/* Time has run out: number the pages' last touches anew, in their order. */
static void stack_renumber(struct stack *k)
{
	uint32_t rank = 0;

	memset(k->order, 0xff, (TOUCHES + 1) * sizeof(*k->order));
	for (uint32_t p = 0; p < k->pages; p++)
		k->order[k->last[p]] = p;
	memset(k->tree, 0, sizeof(k->tree));
	for (uint32_t at = 1; at <= TOUCHES; at++)
		if (k->order[at] != NIL) {
			k->last[k->order[at]] = ++rank;
			stack_add(k, rank, 1);
		}
	k->now = rank;
}

/* Touch a page; returns how many others were touched since its last touch. */
static uint32_t stack_touch(struct stack *k, uint32_t page)
{
	uint32_t distance;

	if (k->last[page] == k->now)
		return 0;
	if (k->now == TOUCHES)
		stack_renumber(k);
	distance = k->pages - stack_sum(k, k->last[page]);
	stack_add(k, k->last[page], UINT32_MAX);
	k->last[page] = ++k->now;
	stack_add(k, k->now, 1);
	return distance;
}

static struct stack *stack_new(uint32_t pages)
{
	struct stack *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->pages = pages;
	k->last = calloc(pages, sizeof(*k->last));
	k->order = malloc((TOUCHES + 1) * sizeof(*k->order));
	return k;
}

static void stack_free(struct stack *k)
{
	free(k->last);
	free(k->order);
	free(k);
}

void sim_jumps(double theta, uint64_t seed, double *out, uint32_t n)
{
	struct walk w = walk_of(theta, 1, seed, 0);

	for (uint32_t i = 0; i < n; i++)
		out[i] = jump(&w);
}

/* How many pages so many accesses touch. */
uint32_t sim_coverage(double theta, uint64_t range, uint32_t per_page, uint64_t seed, uint64_t accesses)
{
	struct walk w = walk_of(theta, range, seed, 0);
	uint8_t *seen = calloc(range / per_page + 1, 1);
	uint32_t touched = 0;

	for (uint64_t i = 0; seen && i < accesses; i++) {
		uint64_t page = walk_on(&w) / per_page;

		touched += !seen[page];
		seen[page] = 1;
	}
	free(seen);
	return touched;
}

/*
 * miss[r]: the part of accesses to a page that is not among the r last touched,
 * r = 0 to the array's pages, over walks that begin when each page has been
 * touched once in order (B-PP-3). Returns -1 if there is no memory for it, or
 * more pages than the tree has times.
 */
int sim_miss(double theta, uint64_t range, uint32_t per_page, uint64_t seed, uint32_t walks, uint64_t accesses,
	     double *miss)
{
	uint32_t pages = (uint32_t)((range + per_page - 1) / per_page);
	uint64_t *hits = calloc(pages + 1, sizeof(*hits)), misses = 0;
	int status = -1;

	for (uint32_t n = 0; hits && pages <= TOUCHES / 2 && n < walks; n++) {
		struct walk w = walk_of(theta, range, seed, n);
		struct stack *k = stack_new(pages);

		if (!k || !k->last || !k->order)
			break;
		for (uint32_t p = 0; p < pages; p++) {
			k->last[p] = ++k->now;
			stack_add(k, k->now, 1);
		}
		for (uint64_t i = 0; i < accesses; i++)
			hits[stack_touch(k, (uint32_t)(walk_on(&w) / per_page))]++;
		stack_free(k);
		status = n + 1 == walks ? 0 : -1;
	}
	for (uint32_t r = pages + 1; !status && r-- > 0;) {	/* hits[r]: r others between, so r + 1 are needed */
		misses += hits[r];
		miss[r] = (double)misses / (double)(walks * accesses);
	}
	free(hits);
	return status;
}

#endif /* SIM_WALK_H */
