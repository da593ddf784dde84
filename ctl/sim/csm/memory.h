/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A node's memory (CSM sec. 3.2, eq. 3, 4, 7): M frames, demand paging, global
 * least recently used replacement.
 *
 * Of a task's pages only the number that is resident is known. Running touches
 * all of them, so the least recently used page of the node belongs to the task
 * that has not run for longest, and of those that run it is taken last. The
 * node is told by its first CPU, its home. Frames freed stay free until a fault takes
 * them.
 */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include "state.h"

/* CSM eq. 3, corrected (B-CSM-1) or as printed; in 1/65536 */
static inline uint32_t fault_probability(const struct sim *s, const struct task *t)
{
	if (s->par.eq3_printed)
		return t->wrk < t->res ? 0 : ((uint64_t)t->res << 16) / t->wrk;
	return t->wrk <= t->res ? 0 : ((uint64_t)(t->wrk - t->res) << 16) / t->wrk;
}

/* CSM eq. 4: do the node's tasks ask for more than it has? */
static inline int overloaded(struct sim *s, const struct node *n)
{
	return home(s, n)->mem > s->par.memory;
}

static inline void check_memory(struct sim *s, const struct node *n)
{
#ifdef SIM_CHECK
	uint64_t mem = 0, resident = 0;

	for (uint32_t i = n->tasks; i != NIL; i = s->tasks[i].neighbour) {
		mem += s->tasks[i].vir;
		resident += s->tasks[i].res;
		CHECK(s, s->tasks[i].res <= s->tasks[i].vir, "a task has more pages resident than it has pages");
		CHECK(s, s->tasks[i].rq.flt == fault_probability(s, &s->tasks[i]), "a fault probability is out of date");
	}
	CHECK(s, mem == n->mem && resident == n->resident, "a node's memory does not add up");
	CHECK(s, resident <= s->par.memory, "more pages are resident than the node has frames");
#else
	(void)s, (void)n;
#endif
}

/* CSM eq. 7: what a new task has at once; the others shrink alike if there is no room for it,
 * or it has to do with what is free. */
static void memory_enter(struct sim *s, struct node *n, uint32_t index)
{
	struct task *t = &s->tasks[index];
	uint64_t room = s->par.memory, others = n->resident;

	n->mem += t->vir;
	t->res = n->mem < room ? t->vir : (uint64_t)t->vir * room / n->mem;
	if (s->par.enter_free && others + t->res > room)
		t->res = room - others;
	if (others + t->res > room) {
		n->resident = 0;
		for (uint32_t i = n->tasks; i != NIL; i = s->tasks[i].neighbour) {
			struct task *q = &s->tasks[i];

			q->res = (uint64_t)q->res * (room - t->res) / others;
			q->rq.flt = fault_probability(s, q);
			n->resident += q->res;
		}
	}
	n->resident += t->res;
	t->rq.flt = fault_probability(s, t);
	t->neighbour = n->tasks;
	t->behind = NIL;
	if (n->tasks != NIL)
		s->tasks[n->tasks].behind = index;
	n->tasks = index;
	n->nr_tasks++;
	check_memory(s, n);
}

static void memory_leave(struct sim *s, struct node *n, uint32_t index)
{
	struct task *t = &s->tasks[index];

	n->mem -= t->vir;
	n->resident -= t->res;
	if (t->behind != NIL)
		s->tasks[t->behind].neighbour = t->neighbour;
	else
		n->tasks = t->neighbour;
	if (t->neighbour != NIL)
		s->tasks[t->neighbour].behind = t->behind;
	n->nr_tasks--;
	check_memory(s, n);
}

/* One of the pages a task refers to when it is dispatched: uniform over its working set. */
static inline int refers_to_missing(struct sim *s, struct task *t)
{
	if (LIKELY(t->wrk <= t->res))
		return 0;
	for (uint32_t i = 0; i < s->par.refs; i++)
		if (below(&t->pages, t->wrk) >= t->res)
			return 1;
	return 0;
}

/* A page of the task is taken away, and its frame is free. */
static void memory_lose(struct sim *s, struct node *n, struct task *t)
{
	t->res--;
	t->rq.flt = fault_probability(s, t);
	n->resident--;
	check_memory(s, n);
}

/* Is a page of a, which loses one, to be kept rather than one of b? */
static inline int used_later(const struct task *a, const struct task *b)
{
	if ((a->state == TASK_RUNNING) != (b->state == TASK_RUNNING))
		return a->state == TASK_RUNNING;
	return a->last_run > b->last_run;
}

/* A page has come: into a free frame, else into that of the least recently used page. */
static void memory_load(struct sim *s, struct node *n, struct task *t)
{
	if (t->res >= t->vir)
		return;
	if (n->resident >= s->par.memory) {
		struct task *victim = NULL;

		for (uint32_t i = n->tasks; i != NIL; i = s->tasks[i].neighbour) {
			struct task *q = &s->tasks[i];

			if (q != t && q->res && (!victim || used_later(victim, q)))
				victim = q;
		}
		if (!victim)
			return;		/* all of memory is its own: one page in, one page out */
		victim->res--;
		victim->rq.flt = fault_probability(s, victim);
		n->resident--;
	}
	t->res++;
	t->rq.flt = fault_probability(s, t);
	n->resident++;
	check_memory(s, n);
}

#endif /* SIM_MEMORY_H */
