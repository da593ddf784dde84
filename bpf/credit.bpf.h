/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sleeper credit (CCS sec. 4.4, B-CCS-31): a local task that slept more than it
 * ran, or left much of its turn, goes ahead of all tasks without credit.
 */
#ifndef CREDIT_BPF_H
#define CREDIT_BPF_H

#include "task.bpf.h"
#include "top.bpf.h"

#define CREDIT_MIN	(1 * NSEC_PER_MSEC)	/* less is no credit: two tasks that answer each other */

/* Sleeper credit still unused now, ns. */
static __always_inline s64 credit_left(const struct task_struct *p, const struct task_ctx *tctx)
{
	return tctx->credit - (s64)(p->se.sum_exec_runtime - tctx->exec_at_credit);
}

/*
 * p woke (B-CCS-31). Its credit shrinks by the CPU time since it was settled
 * last. It grows by the sleep (the kernel accounted p last when p left the CPU:
 * exec_start) and by half of the quantum that p left unused, if p had waited for
 * that turn. Without the half, a task that sleeps briefly but often, for a page,
 * would wait for all others each time, however little it runs.
 */
static __always_inline void settle_credit(const struct task_struct *p, struct task_ctx *tctx,
					  const struct knobs *k)
{
	s64 max = k->credit_max_ns, credit = credit_left(p, tctx);
	s64 slept = scx_bpf_now() - p->se.exec_start;

	if (slept > 0)
		credit += slept < 2 * max ? slept : 2 * max;
	if (tctx->in_order)
		credit += p->scx.slice / 2;
	tctx->credit = credit > max ? max : credit < -max ? -max : credit;
	tctx->exec_at_credit = p->se.sum_exec_runtime;
}

/* Has it sleeper credit to go ahead on? Settles the account of a local task that woke. */
static __always_inline bool has_credit(struct task_struct *p, struct task_ctx *tctx,
				       struct rq_ctx *rq, const struct knobs *k, u64 dsq)
{
	if (!k->credit)
		return false;
	settle_credit(p, tctx, k);
	return tctx->credit >= (s64)CREDIT_MIN && !top_denied(rq, k, dsq);
}

#endif /* CREDIT_BPF_H */
