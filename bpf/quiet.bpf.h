/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Quiet mode. No job on the node: every rule is a FIFO, and the CPU's local DSQ
 * is the ready queue. That DSQ needs no dispatch, but no task can be placed in
 * its middle or stolen from it. Quiet mode therefore ends with the first parallel
 * task, with the first record, when an idle CPU asks for a task, and when a second
 * task comes on credit before the first one ran; it begins again once the vtime
 * queue is empty.
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

/* Does the last task that came on credit still wait in the local DSQ of @cpu? */
static __always_inline bool credit_waits(const struct rq_ctx *rq, s32 cpu)
{
	struct task_struct *q = bpf_task_from_pid(rq->credit_tid);
	struct scx_dispatch_q *dsq;
	struct task_ctx *qctx;
	bool waits = false;

	if (!q)
		return false;
	dsq = q->scx.dsq;
	if (dsq && BPF_CORE_READ(dsq, id) == SCX_DSQ_LOCAL && scx_bpf_task_cpu(q) == cpu) {
		qctx = ctx_of(q);
		waits = qctx && qctx->credited;
	}
	bpf_task_release(q);
	return waits;
}

/* p, on credit, goes to the head of the local DSQ, and takes the CPU from a task that has none. */
static __always_inline u64 go_to_head(const struct task_struct *p, struct rq_ctx *rq, s32 cpu,
				      const struct knobs *k)
{
	struct task_struct *curr;
	struct task_ctx *cctx;

	rq->credit_tid = p->pid;
	curr = running_on(cpu, &cctx);
	if (!curr || (cctx->credited && credit_left(curr, cctx) > 0))
		return SCX_ENQ_HEAD;
	stats_of(cpu, k->rule)[STAT_PREEMPT]++;
	/* behind the first on credit, should the queue be in order when it comes back */
	displace(curr, rq, rq->tail_key + spacing(), rq->tail_key + 2 * spacing());
	return SCX_ENQ_HEAD | SCX_ENQ_PREEMPT;
}

/* Have the tasks of the local DSQ enqueued again: where they can be taken, or placed in order. */
static __always_inline void leave_quiet(s32 cpu)
{
	scx_bpf_dsq_reenq(SCX_DSQ_LOCAL_ON | cpu, 0);
}

/* is_quiet(): the local DSQ is the queue. Credit goes to its head, behind others on credit only with all in order. */
static __always_inline void enqueue_quiet(struct task_struct *p, struct rq_ctx *rq, s32 cpu,
					  const struct knobs *k, u64 enq_flags)
{
	bool woke = enq_flags & SCX_ENQ_WAKEUP;
	u64 *st = stats_of(cpu, k->rule);
	struct task_ctx *tctx;

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
			if (!credit_waits(rq, cpu))
				enq_flags |= go_to_head(p, rq, cpu, k);
			else
				leave_quiet(cpu);
		}
	}
	if (!tctx || !tctx->credited)
		st[STAT_APPEND]++;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_of(p, k), enq_flags);
	mark_busy(rq);
}

#endif /* QUIET_BPF_H */
