/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * insert_RQ: the papers' ordering rules, as pure C. No kernel, no libc: the
 * BPF scheduler, the unit tests and the simulator compile the same text.
 *
 * The ready queue RQ is a list; RQ[0] is the task on the CPU, the others wait.
 * A task h that becomes ready starts at the tail and looks at the task ahead
 * of it: may it be overtaken? If so its de grows by one and h looks at the
 * next; if not, h goes right behind it (B-CSM-2). Past the head of the queue
 * stands the running task: if that one may be overtaken too it is preempted
 * (B-CSM-4, B-CCS-3). The three questions a caller asks, in this order:
 *
 *	insert_plan()	how is h to be placed: at the tail, on top, by walk?
 *	may_overtake()	on the walk, may h pass this one?
 *	charges()	does passing it cost it a de?
 *
 * Two rules are modes of Monito's rather than algorithms. implicit leaves the
 * order of arrival alone but for who waited for a message and has it. prio puts
 * tasks of jobs ahead of all local ones, whatever de says: MNO would make it
 * another rule, so what bounds it is time (TASK_STARVED), for the kernel's
 * watchdog and not for fairness (B-MO-14).
 *
 * Example, rule pred, MNO 2, queue head first, mes in brackets:
 *
 *	RQ[0] A(5) | B(4) de=0 | C(1) de=2 | D(0, local) de=1     h = E(3)
 *
 * E passes D (0 < 3, de 1 < MNOL; now 2), stops at C (de = MNOD), and goes
 * between C and D: A | B C E D. The next E finds C and D protected and stays
 * at the tail, which is how nobody is overtaken more than MNO times.
 *
 * Ids such as B-CSM-5 name the reading taken of an ambiguity in the papers.
 */
#ifndef INSERT_RQ_H
#define INSERT_RQ_H

#include "cosched.h"

#ifndef IRQ_INLINE
#define IRQ_INLINE static inline __attribute__((always_inline))
#endif

enum insert_plan {
	PLAN_TAIL,	/* behind everybody, no questions asked */
	PLAN_TOP,	/* ahead of everybody, the running task displaced, nobody charged */
	PLAN_WALK,	/* from the tail on, while may_overtake() */
};

/* The state of a decision that is the same for the whole walk. */
struct insert_env {
	unsigned int		rule;		/* enum insert_rule */
	unsigned int		cause;		/* enum insert_cause */
	unsigned int		overloaded;	/* N_k.mem > M */
	unsigned int		mnol, mnod;
	unsigned long long	share_ns;	/* RULE_DYNAMIC */
};

/* CSM Alg. 1 lines 22-26: may this one suffer one more overtake? */
IRQ_INLINE int starv_cond(const struct insert_env *env, const struct rq_task *q)
{
	if (q->flags & TASK_PARALLEL)
		return q->de < env->mnod;
	return q->de < env->mnol;
}

/*
 * RULE_PRIO: who goes ahead of whom. A task of a job that waits for a message
 * would block, were it PVM's; credit decides among local tasks only.
 */
IRQ_INLINE unsigned int prio_rank(const struct rq_task *t)
{
	if (t->flags & TASK_PARALLEL)
		return t->flags & TASK_WAITING ? 0 : 2;
	return t->flags & TASK_CREDIT ? 1 : 0;
}

/* CSM Alg. 1 lines 15-21, and its counterparts in the other papers. */
IRQ_INLINE int sched_cond(const struct insert_env *env, const struct rq_task *q,
			  const struct rq_task *h)
{
	switch (env->rule) {
	case RULE_PRED:
		return q->mes < h->mes;
	case RULE_SDCA:
		return q->rec < h->rec;
	case RULE_CSM:
		return env->overloaded ? q->flt > h->flt : q->mes < h->mes;
	case RULE_CSM_BOUNDED:
		if (!env->overloaded)
			return q->mes < h->mes;
		/* Dynamic mode: rec != 0 leads up, as far as de allows (B-CSM-5) */
		return h->rec || q->flt > h->flt;
	case RULE_CSM_FIRST:
		if (!env->overloaded)
			return q->mes < h->mes;
		/* line 17 before line 5: received messages decide between equals (B-CSM-6) */
		return q->flt > h->flt || (q->flt == h->flt && q->rec < h->rec);
	case RULE_CCS:
		return env->overloaded ? q->flt > h->flt : q->com < h->com;
	default:
		return 0;
	}
}

/*
 * How is h to be placed? @running is RQ[0], NULL when the CPU is idle or runs
 * a task of another scheduling class; only RULE_DYNAMIC looks at it.
 */
IRQ_INLINE enum insert_plan insert_plan(const struct insert_env *env,
					const struct rq_task *h,
					const struct rq_task *running)
{
	if (env->cause == CAUSE_CREDIT)
		return PLAN_WALK;
	if (!(h->flags & TASK_PARALLEL))
		return PLAN_TAIL;	/* CSM line 4, B-CCS-1 */
	if (h->flags & TASK_WAITING)
		return PLAN_TAIL;	/* it would block, were it PVM's (Monito sec. 2.2) */

	switch (env->rule) {
	case RULE_PRED:
	case RULE_CCS:
	case RULE_CSM_BOUNDED:
	case RULE_CSM_FIRST:
	case RULE_PRIO:
		return PLAN_WALK;
	case RULE_IMPLICIT:
		/* a message counts for one that slept or, with the cause message, was queued as waiting */
		if (env->cause != CAUSE_WAKE && env->cause != CAUSE_MESSAGE)
			return PLAN_TAIL;
		return h->rec ? PLAN_TOP : PLAN_TAIL;
	case RULE_DYN:
		return h->rec ? PLAN_TOP : PLAN_TAIL;
	case RULE_CSM:
		return h->rec && env->overloaded ? PLAN_TOP : PLAN_WALK;
	case RULE_SDCA:
		/* only a receive moves it up; one that leaves the CPU goes to the bottom */
		if (env->cause != CAUSE_WAKE && env->cause != CAUSE_MESSAGE)
			return PLAN_TAIL;
		return h->rec ? PLAN_WALK : PLAN_TAIL;
	case RULE_DYNAMIC:
		if (env->cause != CAUSE_WAKE && env->cause != CAUSE_MESSAGE)
			return PLAN_TAIL;
		if (h->rec && running && h->cpu_ns + env->share_ns < running->cpu_ns)
			return PLAN_TOP;
		return PLAN_TAIL;
	default:
		return PLAN_TAIL;
	}
}

/* Can a task whose quantum ended come ahead of anybody under this rule, by a walk or at the top? */
IRQ_INLINE int rises_on_expiry(unsigned int rule)
{
	return rule == RULE_PRED || rule == RULE_DYN || rule == RULE_CSM || rule == RULE_CSM_BOUNDED ||
	       rule == RULE_CSM_FIRST || rule == RULE_CCS || rule == RULE_PRIO;
}

/*
 * May h pass q, a queued task or the running one?
 *
 * A local task with sleeper credit passes all but its like: its claim is
 * bounded by the sleep it has behind it, not by de (B-CCS-31). Under prio that
 * claim is one among local tasks.
 */
IRQ_INLINE int may_overtake(const struct insert_env *env, const struct rq_task *q,
			    const struct rq_task *h)
{
	if (env->rule == RULE_PRIO)
		return !(q->flags & TASK_STARVED) && prio_rank(q) < prio_rank(h);
	if (env->cause == CAUSE_CREDIT)
		return !(q->flags & TASK_CREDIT);
	return starv_cond(env, q) && sched_cond(env, q, h);
}

/* Does being passed count against q? Only where the cause is coscheduling, and de a bound. */
IRQ_INLINE int charges(const struct insert_env *env)
{
	return env->cause != CAUSE_CREDIT && env->rule != RULE_PRIO;
}

/*
 * Is the place of one on credit found by a walk? Else it is known: behind the
 * last of its like, at the head where there is none; and it displaces a running
 * task without credit even if its like are ahead of it.
 */
IRQ_INLINE int credit_walks(unsigned int rule)
{
	return rule == RULE_PRIO;
}

/* Which mode of CSM decided (CSM sec. 4.2), for the statistics. */
IRQ_INLINE unsigned int decided_by(const struct insert_env *env, const struct rq_task *h)
{
	switch (env->rule) {
	case RULE_PRED:
		return STAT_MODE_PRED;
	case RULE_DYN:
	case RULE_SDCA:
	case RULE_DYNAMIC:
	case RULE_IMPLICIT:
		return STAT_MODE_DYN;
	case RULE_CSM:
	case RULE_CSM_BOUNDED:
		if (!env->overloaded)
			return STAT_MODE_PRED;
		return h->rec ? STAT_MODE_DYN : STAT_MODE_CSM;
	case RULE_CSM_FIRST:
	case RULE_CCS:
		return env->overloaded ? STAT_MODE_CSM : STAT_MODE_PRED;
	default:
		return NR_COSCHED_STATS;
	}
}

/* CSM eq. 2, once per insertion (B-CSM-8): mes := P*mes + (1-P)*COM. More messages than fit count as many as do. */
IRQ_INLINE unsigned int mes_update(unsigned int mes, unsigned int com, unsigned int p)
{
	const unsigned long long one = 1ULL << MES_SHIFT;
	const unsigned int most = ~0U >> MES_SHIFT;

	if (com > most)
		com = most;
	return (p * (unsigned long long)mes + (one - p) * ((unsigned long long)com << MES_SHIFT))
		>> MES_SHIFT;
}

#endif /* INSERT_RQ_H */
