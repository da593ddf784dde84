/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * insert_RQ in the kernel: a task that woke, was forked or whose quantum ended
 * is given its values, a plan, a place.
 */
#ifndef INSERT_BPF_H
#define INSERT_BPF_H

#include "quantum.bpf.h"
#include "running.bpf.h"
#include "top.bpf.h"

/* The mes that the decision has computed is the task's. */
static __always_inline void keep_mes(struct task_ctx *tctx, const struct placing *w)
{
	tctx->mes = w->h.mes;
	tctx->flow = w->flow;
}

/* Start a decision on p: its values, with mes once per insertion (B-CSM-8). */
static __always_inline struct placing *prepare(struct task_struct *p, struct task_ctx *tctx,
					       s32 cpu, u32 cause, const struct knobs *k, bool dry)
{
	struct placing *w = &rq_of(cpu)->w;

	fill_env(&w->env, k, cause);
	w->tid = p->pid;
	w->with_obs = k->sensors && (k->trace || compares_obs(&w->env));
	w->passed = 0;
	w->has_running = w->head = w->bounded = w->gap = 0;
	w->near_tid = w->moves = 0;
	w->dry = dry;
	w->flow = fill_task(&w->h, p, tctx, k, k->sensors);
	if (has_mes(tctx, k)) {
		w->h.mes = mes_update(tctx->mes, c_mes(tctx, w->h.com, w->flow, k), k->p);
		if (!dry)
			keep_mes(tctx, w);
		if (k->classify == CLASSIFY_MES)
			w->h.flags = w->h.mes >= MES_LOCAL ? TASK_PARALLEL : 0;
	}
	if (cause == CAUSE_CREDIT)
		w->h.flags |= TASK_CREDIT;
	if (k->trace)
		__builtin_memcpy(w->comm, p->comm, COMM_LEN);
	return w;
}

static __always_inline void count_mode(const struct placing *w, u64 *st)
{
	u32 mode = decided_by(&w->env, &w->h);

	if ((w->h.flags & TASK_PARALLEL) && mode < NR_COSCHED_STATS)
		st[mode]++;
}

static __always_inline void count_insertion(const struct placing *w, u64 *st, enum insert_plan plan)
{
	st[STAT_INSERT]++;
	if (w->bounded)
		st[STAT_BOUNDED]++;
	if (w->gap)
		st[STAT_GAP]++;
	if (plan == PLAN_TOP)
		st[STAT_TOP]++;
	else if (w->env.cause == CAUSE_CREDIT)
		st[STAT_CREDIT]++;
	else if (!w->passed)
		st[STAT_APPEND]++;
	count_mode(w, st);
}

/* Tail, top or walk? On expiry the next task is already chosen: the CPU is between two. */
static __always_inline enum insert_plan make_plan(struct task_struct *p, struct placing *w,
						  struct rq_ctx *rq, s32 cpu, const struct knobs *k)
{
	enum insert_plan plan;

	if (w->env.cause != CAUSE_EXPIRE && (k->trace || rule_has(w->env.rule, R_SEES_RUNNING)))
		see_running(p, cpu, k);
	plan = insert_plan(&w->env, &w->h, w->has_running ? &w->running : NULL);
	if (plan == PLAN_TOP && top_denied(rq, k, cpu)) {
		plan = PLAN_TAIL;
		w->bounded = 1;
	}
	return plan;
}

/* insert_RQ: where does the task go whose values prepare() has taken? The key is w->key. */
static __always_inline enum insert_plan find_place(struct task_struct *p, struct task_ctx *tctx, s32 cpu,
						   u32 cause)
{
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = knobs_of(rq);
	struct placing *w = &rq->w;
	enum insert_plan plan = make_plan(p, w, rq, cpu, k);

	tctx->in_order = plan != PLAN_TOP && cause != CAUSE_CREDIT;
	if (plan == PLAN_TOP) {
		place_head(rq, w, cpu);
	} else if (cause == CAUSE_CREDIT && !credit_walks(k->rule)) {
		place_credit(rq, w, cpu);
	} else if (plan == PLAN_TAIL || stays_behind_tail(cpu)) {
		place_tail(rq, w);
	} else if (!scx_bpf_dsq_peek(cpu)) {
		place_tail(rq, w);
		w->head = 1;
	} else {
		stats_of(cpu, k->rule)[STAT_WALK]++;
		walk_queue(cpu, tctx->job, 0);
		place_walked(rq, w, 0);
	}
	if (cause == CAUSE_CREDIT)
		note_credit(rq, w);
	count_insertion(w, stats_of(cpu, k->rule), plan);
	return plan;
}

/* insert_RQ for everything but the plain append of a local task. */
__noinline int insert_rq(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull,
			 s32 cpu, u32 cause, u64 enq_flags)
{
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = knobs_of(rq);
	struct placing *w;
	enum insert_plan plan;
	bool preempt = false;

	if (k->trace)
		record_begin(cpu, 0);
	w = prepare(p, tctx, cpu, cause, k, false);
	plan = find_place(p, tctx, cpu, cause);
	if (cause != CAUSE_EXPIRE && (w->head || (cause == CAUSE_CREDIT && !credit_walks(k->rule))))
		preempt = displace_running(p, tctx, cpu, plan != PLAN_TOP);

	note_key(rq, w->tid, w->key);
	if (w->near_tid)
		insert_behind(p, w->near_tid, rq, cpu, turn_of(p, tctx, k), w->key, enq_flags);
	else
		insert(p, rq, cpu, turn_of(p, tctx, k), w->key, enq_flags);
	if (preempt && !stays_as_waker(p, rq, cpu, k))
		interrupt(cpu);
	if (k->trace)
		record_end(cpu, preempt);
	return 0;
}

/* Would walking lead @prev, which still runs, ahead of the whole queue? Nothing is charged yet. */
static __always_inline bool walks_to_head(struct task_struct *prev, struct task_ctx *tctx, s32 cpu,
					  const struct knobs *k)
{
	struct rq_ctx *rq = rq_of(cpu);
	struct placing *w = &rq->w;

	if (stays_behind_tail(cpu)) {
		/* it is enqueued next, under this rq lock: no need to ask again */
		if (!k->trace) {
			rq->behind_tid = prev->pid;
			rq->behind_key = rq->tail_key;
			keep_mes(tctx, w);
			count_mode(w, stats_of(cpu, k->rule));
		}
		return false;
	}
	walk_queue(cpu, tctx->job, 0);
	return w->head;
}

/* @prev's walk led to the head of the queue: everybody it passed is charged. */
__noinline int charge_passed(s32 cpu, u64 job)
{
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = knobs_of(rq);
	struct placing *w = &rq->w;
	u64 *st = stats_of(cpu, k->rule);
	struct task_struct *q;
	struct task_ctx *qctx;

	if (!charges(&w->env))
		return 0;
	bpf_for_each(scx_dsq, q, cpu, SCX_DSQ_ITER_REV) {
		qctx = ctx_of(q);
		if (!qctx)
			continue;
		charge(qctx, job, st);
		note_overtaken(k, q->pid);
	}
	return 0;
}

/*
 * @prev's quantum ended. Would insert_RQ put it ahead of the whole queue? Then
 * it keeps the CPU, and everybody it passed is charged for it. Observations
 * change at any time, so each is read once: asked again, the walk might end
 * elsewhere.
 */
__noinline int keeps_cpu(struct task_struct *prev __arg_trusted, struct task_ctx *tctx __arg_nonnull,
			 s32 cpu)
{
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = knobs_of(rq);
	struct placing *w;
	enum insert_plan plan;

	if (!scx_bpf_dsq_peek(cpu))
		return 0;
	if (tctx->in_order)
		rq->streak = 0;
	if (k->trace)
		record_begin(cpu, 0);
	w = prepare(prev, tctx, cpu, CAUSE_EXPIRE, k, true);
	plan = make_plan(prev, w, rq, cpu, k);
	if (plan == PLAN_TAIL || (plan == PLAN_WALK && !walks_to_head(prev, tctx, cpu, k)))
		return 0;

	if (has_mes(tctx, k))
		keep_mes(tctx, w);
	if (plan == PLAN_WALK) {
		charge_passed(cpu, tctx->job);
		stats_of(cpu, k->rule)[STAT_WALK]++;
		rq->streak = 0;
	}
	w->head = 1;
	count_insertion(w, stats_of(cpu, k->rule), plan);
	tctx->de = 0;
	tctx->in_order = plan == PLAN_WALK;
	scx_bpf_task_set_slice(prev, turn_of(prev, tctx, k));
	if (k->trace)
		record_end(cpu, false);
	return 1;
}

#endif /* INSERT_BPF_H */
