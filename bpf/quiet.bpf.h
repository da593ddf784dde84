/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Quiet mode. No job on the node: every rule is a FIFO, and the CPU's local DSQ
 * is the ready queue. That DSQ needs no dispatch, but no task can be placed in
 * its middle or stolen from it. Quiet mode therefore ends with the first parallel
 * task, with the first record, and when an idle CPU asks for a task; it begins
 * again once the vtime queue is empty.
 */
#ifndef QUIET_BPF_H
#define QUIET_BPF_H

#include "credit.bpf.h"
#include "quantum.bpf.h"
#include "running.bpf.h"

static __always_inline bool may_be_quiet(const struct knobs *k)
{
	return !any_parallel(k) && !k->trace;
}

static __always_inline bool is_quiet(const struct rq_ctx *rq, const struct knobs *k)
{
	return may_be_quiet(k) && !rq->ordered;
}

#define QUIET_BATCH	32		/* tasks moved in one dispatch */
#define QUIET_PAUSE	(100 * NSEC_PER_MSEC)	/* after an idle CPU asked: let it take them */

/*
 * The last job has gone, but tasks that never sleep would keep the vtime queue
 * in use: move its tasks to the local DSQ, in their order. New arrivals go behind
 * them until all have been moved. Returns whether there is a task to run.
 */
static __noinline int become_quiet(s32 cpu)
{
	struct rq_ctx *rq = rq_of(cpu);
	int i, moved = 0;

	bpf_for(i, 0, QUIET_BATCH) {
		if (!scx_bpf_dsq_move_to_local(cpu)) {
			rq->ordered = 0;
			break;
		}
		moved = 1;
	}
	return moved;
}

/* is_quiet(): the local DSQ is the queue. Credit goes to its head. */
static __always_inline void enqueue_quiet(struct task_struct *p, struct rq_ctx *rq, s32 cpu,
					  const struct knobs *k, u64 enq_flags)
{
	bool woke = enq_flags & SCX_ENQ_WAKEUP;
	u64 *st = stats_of(cpu, k->rule);
	struct task_struct *curr;
	struct task_ctx *tctx, *cctx;

	st[STAT_INSERT]++;
	tctx = woke || rq->streak ? ctx_of(p) : NULL;
	if (tctx) {
		if (tctx->in_order)
			rq->streak = 0;
		tctx->fresh = 0;
		tctx->credited = woke && has_credit(p, tctx, rq, k, SCX_DSQ_LOCAL_ON | cpu);
		tctx->in_order = !tctx->credited;
		if (tctx->credited) {
			st[STAT_CREDIT]++;
			enq_flags |= SCX_ENQ_HEAD;
			curr = running_on(cpu, &cctx);
			if (curr && !(cctx->credited && credit_left(curr, cctx) > 0)) {
				st[STAT_PREEMPT]++;
				displace(curr, rq, 0, 0);
				enq_flags |= SCX_ENQ_PREEMPT;
			}
		}
	}
	if (!(enq_flags & SCX_ENQ_HEAD))
		st[STAT_APPEND]++;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_of(p, k), enq_flags);
	mark_busy(rq);
}

#endif /* QUIET_BPF_H */
