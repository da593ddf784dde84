/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory of different nodes, in two pools (CCS eq. 5, Alg. 3): the victims of page faults, FLT, and the inputs of
 * insert_RQ.
 *
 * A stopped task's pages go first, because no task misses them. Then, without Set_Memory, the least recently used one.
 * With Set_Memory, the swaptask loses a page: the largest local task while the parallel tasks ask for less than M_Paral
 * (B-CCS-7), else the largest parallel task.
 */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include "events.h"

static inline struct task *least_recent(struct sim *s, const struct node *n, const struct task *t);

static inline uint64_t frames(const struct sim *s, const struct node *n)
{
	(void)s;
	return n->frames;
}

/* Do the tasks that are not stopped ask for more than there is? */
static inline int overloaded(const struct sim *s, const struct node *n)
{
	(void)s;
	return n->mem - n->mem_held > n->frames;
}

static inline void resident_changed(const struct sim *s, const struct task *t)
{
	(void)s, (void)t;
}

static inline int up_to_date(const struct sim *s, const struct task *t)
{
	(void)s, (void)t;
	return 1;
}

/* The task of a class (or any stopped one) with the largest RMS. */
static struct task *largest(struct sim *s, const struct node *n, int class_, int held)
{
	struct task *found = NULL;

	for (uint32_t i = n->tasks; i != NIL; i = s->tasks[i].neighbour) {
		struct task *q = &s->tasks[i];

		if (!q->res || (held ? !q->held : q->class_ != class_))
			continue;
		if (!found || q->res > found->res)
			found = q;
	}
	return found;
}

static struct task *victim(struct sim *s, const struct node *n, const struct task *t)
{
	struct task *v = NULL;

	if (n->mem_held)
		v = largest(s, n, 0, 1);
	if (!v && s->par.set_memory) {
		int within = n->paral - n->mem_held < pool_of(s);

		v = largest(s, n, within ? CLASS_LOCAL : CLASS_PARALLEL, 0);
		if (v == t)
			return NULL;	/* the swaptask itself: one page in, one out */
	}
	return v ? v : least_recent(s, n, t);
}

#include "frames.h"

/* FLT: faults of the last second, in windows (CCS sec. 3.2, B-CCS-26). */
static uint32_t flt_of(const struct sim *s, struct task *t)
{
	uint64_t at = s->now >> FLT_SHIFT, gone = at - t->flt_at;
	uint32_t sum = 0;

	for (uint64_t k = 1; k <= gone && k <= SIM_WINDOWS; k++)
		t->flt[(t->flt_at + k) % SIM_WINDOWS] = 0;
	t->flt_at = at;
	for (int k = 0; k < SIM_WINDOWS; k++)
		sum += t->flt[k];
	return sum;
}

static void count_fault(struct sim *s, struct node *n, struct task *t)
{
	flt_of(s, t);
	t->flt[t->flt_at % SIM_WINDOWS]++;
	t->faults++;
	n->epoch_faults++;
	s->stats.faults++;
}

/* Update the inputs of the rules: eq. 2 of CSM once per insertion, FLT before comparisons. */
static inline void observe(struct sim *s, struct node *n, struct task *h)
{
	h->rq.de = 0;
	if (parallel(h)) {
		h->rq.mes = mes_update(h->rq.mes, h->rq.com + h->fresh, s->par.p);
		h->fresh = 0;
	}
	if (!overloaded(s, n))
		return;
	for (uint32_t i = n->tasks; i != NIL; i = s->tasks[i].neighbour)
		s->tasks[i].rq.flt = flt_of(s, &s->tasks[i]);
}

/* RQ[0] */
static inline struct task *in_turn(struct sim *s, const struct node *n)
{
	return n->running == NIL ? NULL : &s->tasks[n->running];
}

#include "ready_queue.h"

#endif /* SIM_MEMORY_H */
