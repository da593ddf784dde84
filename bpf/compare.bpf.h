/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The values of tasks that insert_RQ compares: messages, faults, sleeper credit,
 * CPU time, and for how long others have passed them.
 */
#ifndef COMPARE_BPF_H
#define COMPARE_BPF_H

#include "observe.h"
#include "by_class.bpf.h"
#include "credit.bpf.h"

/*
 * Not static: the verifier looks at such a function once instead of at each call.
 * Returns how many messages were ever queued by and for the thread, low bits.
 */
__noinline int fill_obs(struct rq_task *t, u32 tid)
{
	struct obs *o = bpf_map_lookup_elem(&obs, &tid);

	if (!o || !t)
		return 0;
	t->rec = obs_rec(o);
	t->com = obs_com(o);
	t->flt = obs_flt(o, bpf_ktime_get_ns());
	return o->arrived + o->sent;
}

/*
 * The fault probability 1 - res/wrk (CSM eq. 3, B-CSM-1), per mille: the part
 * of the pages that its process uses which is on swap. The kernel keeps these
 * counts per CPU in batches; a few dozen pages off are nothing here.
 */
static __noinline u32 fault_probability(const struct task_struct *p)
{
	struct mm_struct *mm = BPF_CORE_READ(p, mm);
	s64 res, swapped;

	if (!mm)
		return 0;
	res = BPF_CORE_READ(mm, rss_stat[MM_FILEPAGES].count) +
	      BPF_CORE_READ(mm, rss_stat[MM_ANONPAGES].count) +
	      BPF_CORE_READ(mm, rss_stat[MM_SHMEMPAGES].count);
	swapped = BPF_CORE_READ(mm, rss_stat[MM_SWAPENTS].count);
	if (swapped <= 0)
		return 0;
	return res <= 0 ? 1000 : 1000 * (u64)swapped / (u64)(res + swapped);
}

/* insert_RQ's question, asked of a queued task or of the running one. */
__noinline int may_pass(const struct insert_env *env, const struct rq_task *q,
			const struct rq_task *h)
{
	if (!env || !q || !h)
		return 0;
	return may_overtake(env, q, h);
}

/* The values of a task that insert_RQ compares, as of now. Returns what fill_obs() does. */
static __always_inline u32 fill_task(struct rq_task *t, const struct task_struct *p,
				      const struct task_ctx *tctx, const struct knobs *k,
				      bool with_obs)
{
	u32 flow;

	t->flags = is_parallel(tctx, k) ? TASK_PARALLEL : 0;
	if (tctx->waiting)
		t->flags |= TASK_WAITING;
	if (tctx->credited && credit_left(p, tctx) > 0)
		t->flags |= TASK_CREDIT;
	if (rule_has(k->rule, R_BY_CLASS | R_BY_ORDER))
		t->flags |= timed_flags(p, tctx, k);
	t->de = tctx->de_epoch == job_epoch ? tctx->de : 0;
	t->mes = tctx->mes;
	t->com = t->rec = t->flt = 0;
	t->cpu_ns = p->se.sum_exec_runtime;
	if (!with_obs)
		return 0;
	flow = fill_obs(t, p->pid);
	if (k->flt == FLT_PROBABILITY)
		t->flt = fault_probability(p);
	return flow;
}

/* Does p have a mes of its own? While it waits for a message, mes stays as it is. */
static __always_inline bool has_mes(const struct task_ctx *tctx, const struct knobs *k)
{
	return (tctx->job || k->classify == CLASSIFY_MES) && !tctx->waiting;
}

/* The messages that count for mes: @com are queued now; @flow were ever queued, which begins anew with the sensor. */
static __always_inline u32 c_mes(const struct task_ctx *tctx, u32 com, u32 flow, const struct knobs *k)
{
	s32 fresh = flow - tctx->flow;

	return k->c_mes == C_MES_FLOW && fresh > 0 ? com + fresh : com;
}

/* p goes to an idle CPU and not through RQ: mes of this turn (CSM eq. 2, B-CSM-8). */
static __always_inline void update_mes(const struct task_struct *p, struct task_ctx *tctx,
				       const struct knobs *k)
{
	u32 tid = p->pid, flow;
	struct obs *o;

	if (!has_mes(tctx, k))
		return;
	o = k->sensors ? bpf_map_lookup_elem(&obs, &tid) : NULL;
	flow = o ? o->arrived + o->sent : 0;
	tctx->mes = mes_update(tctx->mes, c_mes(tctx, o ? obs_com(o) : 0, flow, k), k->p);
	tctx->flow = flow;
}

static __always_inline void fill_env(struct insert_env *env, const struct knobs *k, u32 cause)
{
	env->rule = k->rule;
	env->cause = cause;
	env->overloaded = is_overloaded(k);
	env->mnol = k->mnol;
	env->mnod = k->mnod;
	env->share_ns = k->share_ns;
}

#endif /* COMPARE_BPF_H */
