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
 *	passes_nobody()	would a walk end where it begins, whoever stands there?
 *	may_overtake()	on the walk, may h pass this one?
 *	charges()	does passing it cost it a de?
 *
 * Two rules are modes of Monito's rather than algorithms. implicit keeps the
 * order of arrival, except for a task that waited for a message and has it. prio
 * puts tasks of jobs ahead of all local ones, whatever de says. MNO would make
 * prio another rule, so time bounds it (TASK_STARVED): for the kernel's watchdog,
 * not for fairness (B-MO-14).
 *
 * order is ours: among tasks of jobs those go first whose job is first in the
 * queue of jobs. All nodes have the same queue, so ranks of one job run on all
 * of them at once. Time bounds it, too. Local tasks are passed by nobody.
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

/*
 * The differences between rules beyond sched_cond(): one row a rule. A new rule is a row
 * here, its value in enum insert_rule, and its condition in sched_cond() (or,
 * if a message leads it to the top on a condition, in top_cond()).
 */
enum rule_trait {
	R_WALKS			= 1 << 0,	/* a task of a job walks from the tail on */
	R_REC_WALKS		= 1 << 1,	/* the same, if it has a received message */
	R_TOPS			= 1 << 2,	/* a received message leads to the top */
	R_OVERLOADED_TOPS	= 1 << 3,	/* the same, once memory does not fit */
	R_ON_MESSAGE		= 1 << 4,	/* only a wake-up or a message moves a task up, expiry and fork do not */
	R_RISES			= 1 << 5,	/* a task whose quantum ended may come ahead of others */
	R_CHARGES		= 1 << 6,	/* on a walk, de of a task that is passed grows */
	R_BY_CLASS		= 1 << 7,	/* jobs ahead of local tasks, whatever de: prio_rank() */
	R_CREDIT_WALKS		= 1 << 8,	/* sleeper credit, too, finds its place by a walk */
	R_SEES_RUNNING		= 1 << 9,	/* compares with the running task before it plans */
	R_DISPLACED_LAST	= 1 << 10,	/* the displaced task goes to the tail (B-MO-3) */
	R_OBSERVES		= 1 << 11,	/* compares messages or faults of queued tasks */
	R_OVERLOADED_OBSERVES	= 1 << 12,	/* the same, once memory does not fit */
	R_REINSERTS		= 1 << 13,	/* a message for a queued task inserts it anew */
	R_WAITERS_ONLY		= 1 << 14,	/* the same, if it waits for one */
	R_POLLERS_WAIT		= 1 << 15,	/* the same, if it was polling when it left the CPU */
	R_BY_ORDER		= 1 << 16,	/* jobs in the order of their queue, whatever de: job_place() */
};

struct rule_row {
	unsigned int	traits;
	unsigned char	fits, overloaded, received;	/* the mode it counts as: enum cosched_stat */
};

#define MODES(fits, overloaded, received)	STAT_MODE_##fits, STAT_MODE_##overloaded, STAT_MODE_##received
#define NO_MODE					NR_COSCHED_STATS, NR_COSCHED_STATS, NR_COSCHED_STATS

static const struct rule_row rule_rows[MAX_RULES] = {
	/* round robin (CSM sec. 4.1) */
	[RULE_FIFO]	   = { 0, NO_MODE },
	/* predictive: by mes (CSM sec. 4.2) */
	[RULE_PRED]	   = { R_WALKS | R_RISES | R_CHARGES | R_REINSERTS, MODES(PRED, PRED, PRED) },
	/* dynamic coscheduling (CSM sec. 5.1) */
	[RULE_DYN]	   = { R_TOPS | R_RISES | R_REINSERTS, MODES(DYN, DYN, DYN) },
	/* by pending received messages (Monito Alg. 2, B-MO-1) */
	[RULE_SDCA]	   = { R_REC_WALKS | R_ON_MESSAGE | R_CHARGES | R_DISPLACED_LAST | R_OBSERVES | R_REINSERTS,
			       MODES(DYN, DYN, DYN) },
	/* by accumulated CPU time (Monito sec. 5.3, B-MO-7) */
	[RULE_DYNAMIC]	   = { R_TOPS | R_ON_MESSAGE | R_SEES_RUNNING | R_REINSERTS, MODES(DYN, DYN, DYN) },
	/* CSM Alg. 1 as printed */
	[RULE_CSM]	   = { R_WALKS | R_OVERLOADED_TOPS | R_RISES | R_CHARGES | R_OVERLOADED_OBSERVES | R_REINSERTS,
			       MODES(PRED, CSM, DYN) },
	/* its Dynamic mode bounded by de (B-CSM-5) */
	[RULE_CSM_BOUNDED] = { R_WALKS | R_RISES | R_CHARGES | R_OVERLOADED_OBSERVES | R_REINSERTS,
			       MODES(PRED, CSM, DYN) },
	/* faults asked before messages (B-CSM-6) */
	[RULE_CSM_FIRST]   = { R_WALKS | R_RISES | R_CHARGES | R_OVERLOADED_OBSERVES | R_REINSERTS,
			       MODES(PRED, CSM, CSM) },
	/* CCS Alg. 1 (B-CCS-1, B-CCS-3) */
	[RULE_CCS]	   = { R_WALKS | R_RISES | R_CHARGES | R_OBSERVES | R_REINSERTS, MODES(PRED, CSM, CSM) },
	/* Monito sec. 5.2 (B-MO-14) */
	[RULE_PRIO]	   = { R_WALKS | R_RISES | R_BY_CLASS | R_CREDIT_WALKS | R_REINSERTS | R_WAITERS_ONLY, NO_MODE },
	/* spin-block (Monito sec. 2.2): a ready task stays where it is */
	[RULE_IMPLICIT]	   = { R_TOPS | R_ON_MESSAGE | R_REINSERTS | R_WAITERS_ONLY | R_POLLERS_WAIT,
			       MODES(DYN, DYN, DYN) },
	/* jobs in one order on all nodes (policy fit) */
	[RULE_ORDER]	   = { R_WALKS | R_RISES | R_BY_ORDER | R_REINSERTS | R_WAITERS_ONLY, NO_MODE },
};

IRQ_INLINE const struct rule_row *rule_row(unsigned int rule)
{
	return &rule_rows[rule & (MAX_RULES - 1)];
}

IRQ_INLINE int rule_has(unsigned int rule, unsigned int trait)
{
	return rule_row(rule)->traits & trait;
}

/* The state of a decision that is the same for the whole walk. */
struct insert_env {
	unsigned int		rule;		/* enum insert_rule */
	unsigned int		cause;		/* enum insert_cause */
	unsigned int		overloaded;	/* N_k.mem > M */
	unsigned int		mnol, mnod;
	unsigned long long	share_ns;	/* RULE_DYNAMIC: top_cond() */
};

/* CSM Alg. 1 lines 22-26: may this one suffer one more overtake? */
IRQ_INLINE int starv_cond(const struct insert_env *env, const struct rq_task *q)
{
	if (q->flags & TASK_PARALLEL)
		return q->de < env->mnod;
	return q->de < env->mnol;
}

/*
 * R_BY_CLASS: the order of classes. A task of a job that waits for a message
 * would block, were it PVM's; credit decides among local tasks only.
 */
IRQ_INLINE unsigned int prio_rank(const struct rq_task *t)
{
	if (t->flags & TASK_PARALLEL)
		return t->flags & TASK_WAITING ? 0 : 2;
	return t->flags & TASK_CREDIT ? 1 : 0;
}

/* R_BY_ORDER: the place of its job in the queue of jobs. A task that waits for a message would block: behind all. */
IRQ_INLINE unsigned int job_place(const struct rq_task *t)
{
	return t->flags & TASK_WAITING ? PLACES : t->flags >> TASK_PLACE_SHIFT & (PLACES - 1);
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

/* Does h's message lead to the top on no further condition, or is the condition met? */
IRQ_INLINE int top_cond(const struct insert_env *env, const struct rq_task *h,
			const struct rq_task *running)
{
	if (env->rule == RULE_DYNAMIC)
		return running && h->cpu_ns + env->share_ns < running->cpu_ns;
	return 1;
}

/*
 * How is h to be placed? @running is RQ[0], NULL when the CPU is idle or runs
 * a task of another scheduling class; only R_SEES_RUNNING looks at it.
 */
IRQ_INLINE enum insert_plan insert_plan(const struct insert_env *env,
					const struct rq_task *h,
					const struct rq_task *running)
{
	unsigned int tops = env->overloaded ? R_TOPS | R_OVERLOADED_TOPS : R_TOPS;
	unsigned int walks = h->rec ? R_WALKS | R_REC_WALKS : R_WALKS;

	if (env->cause == CAUSE_CREDIT)
		return PLAN_WALK;
	if (!(h->flags & TASK_PARALLEL))
		return PLAN_TAIL;	/* CSM line 4, B-CCS-1 */
	if (h->flags & TASK_WAITING)
		return PLAN_TAIL;	/* it would block, were it PVM's (Monito sec. 2.2) */
	/* a message counts for a task that slept or, with the cause message, was queued */
	if (rule_has(env->rule, R_ON_MESSAGE) && env->cause != CAUSE_WAKE && env->cause != CAUSE_MESSAGE)
		return PLAN_TAIL;
	if (h->rec && rule_has(env->rule, tops) && top_cond(env, h, running))
		return PLAN_TOP;
	return rule_has(env->rule, walks) ? PLAN_WALK : PLAN_TAIL;
}

/* Can a task whose quantum ended come ahead of anybody under this rule, by a walk or at the top? */
IRQ_INLINE int rises_on_expiry(unsigned int rule)
{
	return rule_has(rule, R_RISES) != 0;
}

/* Does this decision look at messages or faults of the tasks it compares? */
IRQ_INLINE int compares_obs(const struct insert_env *env)
{
	return rule_has(env->rule, env->overloaded ? R_OBSERVES | R_OVERLOADED_OBSERVES : R_OBSERVES) != 0;
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
	if (rule_has(env->rule, R_BY_CLASS))
		return !(q->flags & TASK_STARVED) && prio_rank(q) < prio_rank(h);
	if (env->cause == CAUSE_CREDIT)
		return !(q->flags & TASK_CREDIT);
	if (rule_has(env->rule, R_BY_ORDER))
		return (q->flags & TASK_PARALLEL) && !(q->flags & TASK_STARVED) && job_place(h) < job_place(q);
	return starv_cond(env, q) && sched_cond(env, q, h);
}

/*
 * Is h's claim so small that it may pass nobody, whoever is queued? It is if h could
 * not pass a task that has communicated nothing and faults more than any other.
 */
IRQ_INLINE int passes_nobody(const struct insert_env *env, const struct rq_task *h)
{
	const struct rq_task least = { .flt = ~0U };

	if (rule_has(env->rule, R_BY_CLASS | R_BY_ORDER) || env->cause == CAUSE_CREDIT)
		return 0;
	return !sched_cond(env, &least, h);
}

/* Does being passed count against q? Only where the cause is coscheduling, and de a bound. */
IRQ_INLINE int charges(const struct insert_env *env)
{
	return env->cause != CAUSE_CREDIT && rule_has(env->rule, R_CHARGES);
}

/*
 * Does a task on credit find its place by a walk? Else the place is known: behind the
 * last of its like, at the head where there is none; and it displaces a running
 * task without credit even if its like are ahead of it.
 */
IRQ_INLINE int credit_walks(unsigned int rule)
{
	return rule_has(rule, R_CREDIT_WALKS) != 0;
}

/* Which mode of CSM decided (CSM sec. 4.2), for the statistics. */
IRQ_INLINE unsigned int decided_by(const struct insert_env *env, const struct rq_task *h)
{
	const struct rule_row *row = rule_row(env->rule);

	if (!env->overloaded)
		return row->fits;
	return h->rec ? row->received : row->overloaded;
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
