/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory of nodes that are all alike, under global least recently used replacement (CSM sec. 3.2, eq. 3, 4, 7). */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include "state.h"

static inline struct task *least_recent(struct sim *s, const struct node *n, const struct task *t);
static inline uint32_t missing(const struct task *t);

/* CSM eq. 3, corrected (B-CSM-1) or as printed; in 1/65536 */
static inline uint32_t fault_probability(const struct sim *s, const struct task *t)
{
	if (s->par.eq3_printed)
		return t->wrk < t->res ? 0 : ((uint64_t)t->res << 16) / t->wrk;
	return missing(t);
}

/* CSM eq. 4: do the node's tasks ask for more than it has? */
static inline int overloaded(const struct sim *s, const struct node *n)
{
	return n->mem > s->par.memory;
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

static inline struct task *victim(struct sim *s, const struct node *n, const struct task *t)
{
	return least_recent(s, n, t);
}

#include "frames.h"

#endif /* SIM_MEMORY_H */
