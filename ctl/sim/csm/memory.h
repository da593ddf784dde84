/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory of nodes that are all alike, under global least recently used replacement (CSM sec. 3.2, eq. 3, 4, 7). The
 * first CPU of a node, its home, stands for the node.
 */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include "state.h"

static inline uint32_t missing(const struct task *t);

/* CSM eq. 3, corrected (B-CSM-1) or as printed; in 1/65536 */
static inline uint32_t fault_probability(const struct sim *s, const struct task *t)
{
	if (s->par.eq3_printed)
		return t->wrk < t->res ? 0 : ((uint64_t)t->res << 16) / t->wrk;
	return missing(t);
}

/* CSM eq. 4: do the node's tasks ask for more than it has? */
static inline int overloaded(struct sim *s, const struct node *n)
{
	return home(s, n)->mem > s->par.memory;
}

static inline uint64_t frames(const struct sim *s, const struct node *n)
{
	(void)n;
	return s->par.memory;
}

static inline void resident_changed(const struct sim *s, struct task *t)
{
	t->rq.flt = fault_probability(s, t);
}

static inline int up_to_date(const struct sim *s, const struct task *t)
{
	return t->rq.flt == fault_probability(s, t);
}

/* Whether to keep a page of a rather than a page of b. A running task, on any CPU, touches all its pages. */
static inline int used_later(const struct task *a, const struct task *b)
{
	if ((a->state == TASK_RUNNING) != (b->state == TASK_RUNNING))
		return a->state == TASK_RUNNING;
	return a->last_run > b->last_run;
}

static inline struct task *victim(struct sim *s, const struct node *n, const struct task *t)
{
	struct task *found = NULL;

	for (uint32_t i = n->tasks; i != NIL; i = s->tasks[i].neighbour) {
		struct task *q = &s->tasks[i];

		if (q != t && q->res && (!found || used_later(found, q)))
			found = q;
	}
	return found;
}

#include "frames.h"

/* A page of the task is taken away, and its frame is free. */
static void memory_lose(struct sim *s, struct node *n, struct task *t)
{
	t->res--;
	resident_changed(s, t);
	n->resident--;
	check_memory(s, n);
}

#endif /* SIM_MEMORY_H */
