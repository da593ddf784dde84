/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Quiet mode. Where only local tasks are, every rule is a FIFO, and the CPU's
 * local DSQ is the ready queue. That DSQ needs no dispatch, but no task can be
 * placed in its middle or stolen from it. Quiet mode therefore ends when a task of
 * a job comes, with the first record, when an idle CPU asks for a task, and when a
 * second task comes on credit before the first one ran.
 *
 * With no job on the node it begins again once the vtime queue is empty. With one,
 * whose tasks sleep or run elsewhere, the queue must also be short, and no task of
 * a job may have been here for a while: a task that ends quiet mode has all others
 * enqueued again, for it may belong ahead of them.
 */
#ifndef QUIET_BPF_H
#define QUIET_BPF_H

#include "credit.bpf.h"
#include "quantum.bpf.h"
#include "running.bpf.h"

#define QUIET_BATCH	16		/* tasks moved in one dispatch, */
#define QUIET_CROWD	256		/* and where no job is on the node: those that ran come back to the old queue's end */
#define QUIET_MOST	QUIET_BATCH	/* tasks of a quiet CPU, where there is a job */
#define QUIET_PAUSE	25		/* jiffies, which cost no call to read: 100 ms at Debian's 250 Hz */

/* An idle CPU asked: let it take tasks. Or a task of a job was here, and may come again; or there was a crowd. */
static __always_inline void stay_in_order(struct rq_ctx *rq)
{
	rq->order_until = bpf_jiffies64() + QUIET_PAUSE;
}

static __always_inline bool stays_in_order(const struct rq_ctx *rq)
{
	return bpf_jiffies64() < rq->order_until;
}

/* Beside jobs that are not here: do local tasks need no more than their order of arrival? */
static __always_inline bool locals_are_fifo(const struct knobs *k)
{
	return k->classify != CLASSIFY_MES && !k->epochs;
}

/* Is the local DSQ of @cpu the queue? */
static __always_inline bool is_quiet(const struct rq_ctx *rq, s32 cpu, const struct knobs *k)
{
	if (k->trace || rq->ordered)
		return false;
	return !any_parallel(k) ||
	       (locals_are_fifo(k) && !stays_in_order(rq) &&
		scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) < QUIET_MOST);
}

/* Does a task of a job wait in the vtime queue of @cpu? Not static, see fill_obs(). */
__noinline bool has_job_queued(s32 cpu)
{
	struct task_struct *q;
	struct task_ctx *qctx;

	bpf_for_each(scx_dsq, q, cpu, 0) {
		qctx = ctx_of(q);
		if (qctx && qctx->job)
			return true;
	}
	return false;
}

/* The vtime queue of @cpu is in use. May its tasks go to the local DSQ? */
static __always_inline bool may_become_quiet(struct task_struct *prev, struct rq_ctx *rq, s32 cpu,
					     const struct knobs *k)
{
	struct task_ctx *tctx;

	if (k->trace || rq->expired || stays_in_order(rq))
		return false;
	if (!any_parallel(k))
		return true;
	tctx = prev ? ctx_of(prev) : NULL;
	if ((tctx && tctx->job) || !locals_are_fifo(k) || scx_bpf_dsq_nr_queued(cpu) >= QUIET_MOST ||
	    has_job_queued(cpu)) {
		stay_in_order(rq);	/* and do not ask again at each dispatch */
		return false;
	}
	return true;
}

/*
 * No task of a job is here any more, but tasks that never sleep would keep the vtime
 * queue in use: move its tasks to the local DSQ, in their order. New arrivals go behind
 * them until all have been moved. Returns whether there is a task to run.
 */
static __noinline int become_quiet(s32 cpu, u32 most)
{
	struct rq_ctx *rq = rq_of(cpu);
	int i, moved = 0;

	bpf_for(i, 0, most) {
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
	return stays_as_waker(p, rq, cpu, k) ? SCX_ENQ_HEAD : SCX_ENQ_HEAD | SCX_ENQ_PREEMPT;
}

/* Have the tasks of the local DSQ enqueued again: where they can be taken, or placed in order. */
static __always_inline void leave_quiet(s32 cpu)
{
	scx_bpf_dsq_reenq(SCX_DSQ_LOCAL_ON | cpu, 0);
}

/* Is the task of a job, or the one that it meets on the CPU? Then quiet mode is over. */
static __always_inline bool meets_job(const struct task_ctx *tctx, s32 cpu, bool woke)
{
	struct task_struct *curr;

	if (tctx && tctx->job)
		return true;
	if (!woke)
		return false;	/* the task itself was on the CPU */
	curr = scx_bpf_cpu_curr(cpu);
	tctx = curr ? ctx_of(curr) : NULL;
	return tctx && tctx->job;
}

/*
 * Quiet mode is over. The tasks in the local DSQ get their places in the vtime queue
 * at once, in their order, and p after them, as it would have had they been there
 * all along. Returns whether p was put behind them; else nobody, or a crowd from
 * before the first job came, waits there and runs before the vtime queue.
 */
static __always_inline bool end_quiet(struct task_struct *p, struct task_ctx *tctx, struct rq_ctx *rq,
				      s32 cpu, const struct knobs *k, u64 enq_flags)
{
	s32 nr = scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu);

	stay_in_order(rq);
	rq->local_until = scx_bpf_now();
	stats_of(cpu, k->rule)[STAT_LEFT_QUIET]++;
	if (!tctx || !nr || nr > QUIET_MOST)
		return false;
	tctx->woke = !!(enq_flags & SCX_ENQ_WAKEUP);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_of(p, k), enq_flags);
	leave_quiet(cpu);
	return true;
}

/*
 * is_quiet(): the local DSQ is the queue. Credit goes to its head, behind others on
 * credit only with all in order. Without @tctx, p appends and there is nothing to note.
 * @to: the CPU whose queue it is to be, another one only for a task that does not wake.
 */
static __always_inline void enqueue_quiet(struct task_struct *p, struct task_ctx *tctx, struct rq_ctx *rq,
					  s32 cpu, s32 to, const struct knobs *k, u64 enq_flags)
{
	bool woke = enq_flags & SCX_ENQ_WAKEUP;
	u64 *st = stats_of(cpu, k->rule);

	st[STAT_INSERT]++;
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
	if (to != cpu) {
		st[STAT_STEAL]++;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | to, slice_of(p, k), enq_flags);
		return;
	}
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_of(p, k), enq_flags);
	mark_busy(rq);
}

#endif /* QUIET_BPF_H */
