/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Epochs of a ready queue (CCS sec. 3.1). Each task has one quantum in an epoch,
 * however often it blocks. A task that has used it waits in a queue of its own
 * until all that can run have used theirs, or until the epoch has lasted for
 * epoch_ms. Then the tasks come back through insert_RQ, in the order in which they
 * went. A task that polls for a message would block, were it PVM's: it waits there,
 * too, whatever it has left, and comes back when the message does.
 *
 * Dispatch takes tasks back in portions, so that its work is bounded. A CPU that
 * would idle does not wait for an epoch: a task whose quantum is used borrows it.
 * That costs the task nothing, and any task of the epoch that wakes takes the CPU.
 * So does a local task that wakes with its quantum used: the time is nobody's, and
 * the person at the keyboard comes first. A job's task waits its turn behind the
 * borrower. A task that another CPU takes away is charged there.
 *
 * In CCS an epoch ends when all tasks of the queue have used their quanta, so a task
 * that sleeps for a moment loses what it has left. Here an epoch is as long as its
 * tasks' quanta together, also if some sleep in between (a reading of ours, without
 * an id). epochs=jobs departs from Alg. 2 (B-CCS-15), see set_quantum.h.
 *
 * A child has half of what its parent has left, and the parent the other half; a
 * child that ends leaves the parent what it did not use. So it was in Linux 2.4: a
 * program that forks without end cannot keep an epoch from ending.
 */
#ifndef EPOCH_BPF_H
#define EPOCH_BPF_H

#include "waiting.bpf.h"

/* A queued task of @cpu that waits for the next epoch? */
static __always_inline bool in_expired(const struct task_struct *p, s32 cpu)
{
	struct scx_dispatch_q *dsq = p->scx.dsq;

	return dsq && BPF_CORE_READ(dsq, id) == EXPIRED(cpu);
}

static __always_inline void begin_epoch(struct rq_ctx *rq, u64 now)
{
	rq->epoch++;
	rq->epoch_began = now;
	rq->epoch_sum = 0;
	rq->local_was = (rq->local_was + rq->local_ns) / 2;
	rq->jobs_was = rq->jobs_now;
	rq->local_ns = 0;
	rq->jobs_now = 0;
}

/* How long this epoch would go on, ns, if all its tasks ran. Not for long enough to run: 0. */
static __always_inline u64 rest_of_epoch(const struct rq_ctx *rq, const struct knobs *k, u64 now)
{
	u64 sum = rq->epoch_sum < k->epoch_ns ? rq->epoch_sum : k->epoch_ns;
	s64 rest = sum - (now - rq->epoch_began);

	return rest < (s64)MIN_SLICE_NS ? 0 : rest;
}

/*
 * Is the quantum of p, which comes from the CPU or woke, used up, or does p poll for
 * a message? Nobody sees an epoch end on a CPU that idles, so it may be over here.
 */
static __always_inline bool waits_for_epoch(struct task_struct *p, struct task_ctx *tctx,
					    struct rq_ctx *rq, s32 cpu, const struct knobs *k, bool woke)
{
	u64 now;

	if (!has_epochs(k))
		return false;
	if (tctx->waiting && !woke) {
		settle_quantum(p, tctx, cpu);
		return true;
	}
	if (settle_quantum(p, tctx, cpu) >= (s64)MIN_SLICE_NS)
		return false;
	now = scx_bpf_now();
	if (rq->expired || rest_of_epoch(rq, k, now))
		return true;
	begin_epoch(rq, now);
	return settle_quantum(p, tctx, cpu) < (s64)MIN_SLICE_NS;
}

/* A task came that goes before those that borrow the CPU: the borrower, if one runs, leaves it. */
static __always_inline void end_borrowing(struct rq_ctx *rq, s32 cpu)
{
	struct task_struct *curr;
	struct task_ctx *cctx;

	if (!rq->lent)
		return;
	rq->lent = 0;
	curr = scx_bpf_cpu_curr(cpu);
	cctx = curr ? ctx_of(curr) : NULL;
	if (cctx && borrows(cctx, knobs_of(rq)))
		interrupt(cpu);
}

/* p waits for the next epoch, unless it may borrow the CPU at once, as a @local task that woke may. */
static __always_inline void expire(struct task_struct *p, struct task_ctx *tctx, struct rq_ctx *rq,
				   s32 cpu, const struct knobs *k, u64 enq_flags, bool local)
{
	stats_of(cpu, k->rule)[STAT_EXPIRE]++;
	tctx->in_order = 1;
	tctx->fresh = 0;
	if (local && rq->lent)
		enq_flags |= SCX_ENQ_HEAD;
	scx_bpf_dsq_insert(p, EXPIRED(cpu), slice_of(p, k), enq_flags);
	rq->ordered = 1;
	rq->expired = 1;
	mark_busy(rq);
	if (local)
		end_borrowing(rq, cpu);
}

#define WAITS_ON	(-1)

/*
 * insert_RQ for a task that waited for an epoch: the next has begun, or, with
 * CAUSE_WAKE, its message has come. Returns whether it takes the CPU, or WAITS_ON.
 */
__noinline int come_back(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull,
			 s32 cpu, u32 cause)
{
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = knobs_of(rq);
	enum insert_plan plan;
	struct placing *w;
	bool preempt = false;

	if (has_epochs(k) && settle_quantum(p, tctx, cpu) < (s64)MIN_SLICE_NS)
		return WAITS_ON;	/* it ran on for so long, or has so little, that another epoch passes */
	note_queued(tctx, k);
	if (k->trace)
		record_begin(cpu, 0);
	w = prepare(p, tctx, cpu, cause, k, false);
	w->moves = 1;
	plan = find_place(p, tctx, cpu, cause);
	if (cause != CAUSE_EXPIRE && w->head)
		preempt = displace_running(p, tctx, cpu, plan != PLAN_TOP);
	note_key(rq, w->tid, w->key);
	if (k->trace)
		record_end(cpu, preempt);	/* of the queue without p */
	move_queued(p, EXPIRED(cpu), cpu, w->key, turn_of(p, tctx, k));
	return preempt;
}

#define BACK_LOOKS	8	/* what a task that comes back costs beside its walk, in looks at a task */
#define STAY_LOOKS	2	/* and one that has to wait on */
#define BACK_MOST	64	/* looks in one dispatch: eight tasks that pass nobody, or 32 that wait on */

/*
 * Take tasks back, as many as one dispatch may. Those that wait on go to the tail,
 * or the next dispatch would find them at the head again, and never the tasks behind.
 */
__noinline int take_back(s32 cpu)
{
	struct rq_ctx *rq = rq_of(cpu);
	struct task_struct *p;
	struct task_ctx *tctx;
	u32 looks = 0;

	bpf_for_each(scx_dsq, p, EXPIRED(cpu), 0) {
		if (!rq->returning || looks >= BACK_MOST)
			break;
		rq->returning--;
		rq->w.looked = 0;
		tctx = ctx_of(p);
		if (tctx && come_back(p, tctx, cpu, CAUSE_EXPIRE) == WAITS_ON) {
			scx_bpf_dsq_move(&___it, p, EXPIRED(cpu), 0);
			looks += STAY_LOOKS;
		} else {
			looks += BACK_LOOKS + rq->w.looked;
		}
	}
	return 0;
}

/* Can @prev, which comes from the CPU, go on in this epoch? */
static __always_inline bool has_quantum(struct task_struct *prev, s32 cpu)
{
	struct task_ctx *tctx = prev && is_queued_or_runs(prev) ? ctx_of(prev) : NULL;

	return tctx && !has_given_up(prev, tctx) && settle_quantum(prev, tctx, cpu) >= (s64)MIN_SLICE_NS;
}

static __always_inline bool epoch_goes_on(struct task_struct *prev, struct rq_ctx *rq, s32 cpu)
{
	return scx_bpf_dsq_nr_queued(cpu) || rq->resume_tid || has_quantum(prev, cpu);
}

/*
 * Is the epoch over? It is when all that can run have used their quanta, but not
 * while tasks that sleep could still use theirs: a task that sleeps for a moment
 * would lose its part. Nor does it last longer than epoch_ms.
 */
static __always_inline bool is_over(struct task_struct *prev, struct rq_ctx *rq, s32 cpu,
				    const struct knobs *k, u64 now)
{
	if (!has_epochs(k))
		return true;	/* the last job has gone */
	if (!epoch_goes_on(prev, rq, cpu))
		return !rest_of_epoch(rq, k, now);
	if (now - rq->epoch_began < k->epoch_ns)
		return false;
	stats_of(cpu, k->rule)[STAT_EPOCH_LONG]++;
	return true;
}

#define ROLLS	8	/* epochs that one dispatch may end, where all tasks owe time */

/* Tasks wait for the next epoch. If this one is over, they come back. */
static __noinline int roll_over(struct task_struct *prev, s32 cpu)
{
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = knobs_of(rq);
	u64 now = scx_bpf_now();
	int i;

	bpf_for(i, 0, ROLLS) {
		if (!rq->returning) {
			u32 nr = scx_bpf_dsq_nr_queued(EXPIRED(cpu));

			if (!nr)
				rq->expired = 0;
			if (!nr || !is_over(prev, rq, cpu, k, now))
				break;
			stats_of(cpu, k->rule)[STAT_EPOCH]++;
			begin_epoch(rq, now);
			rq->returning = nr;
		}
		take_back(cpu);
		if (rq->returning || scx_bpf_dsq_nr_queued(cpu))
			break;
	}
	return 0;
}

/* A task whose quantum is used runs until another one wants the CPU. */
static __always_inline void lend(struct task_ctx *tctx, struct rq_ctx *rq)
{
	tctx->borrows = 1;
	rq->lent = 1;
}

/* A task that waits for the next epoch has the CPU now. Returns whether there is one. */
static __always_inline bool run_expired(struct rq_ctx *rq, s32 cpu)
{
	struct task_struct *p = scx_bpf_dsq_peek(EXPIRED(cpu));
	struct task_ctx *tctx = p ? ctx_of(p) : NULL;

	if (!scx_bpf_dsq_move_to_local(EXPIRED(cpu)))
		return false;
	if (tctx && tctx->left < (s64)MIN_SLICE_NS)
		lend(tctx, rq);
	return true;
}

/*
 * Nobody waits for the CPU in this epoch. A @prev that can go on does so, with what
 * it has left; a task that waits for the next epoch borrows the CPU; so does a @prev
 * whose quantum is used, until the epoch is over. Returns whether a task has the CPU.
 */
static __noinline bool fill_cpu(struct task_struct *prev, s32 cpu)
{
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = knobs_of(rq);
	struct task_ctx *tctx = NULL;
	u64 now, rest;

	if (has_epochs(k) && prev && is_queued_or_runs(prev))
		tctx = ctx_of(prev);
	if (tctx && has_quantum(prev, cpu)) {
		scx_bpf_task_set_slice(prev, turn_of(prev, tctx, k));
		return true;
	}
	if (rq->expired && run_expired(rq, cpu))
		return true;
	if (!tctx)
		return false;
	now = scx_bpf_now();
	rest = rest_of_epoch(rq, k, now);
	if (rest) {
		lend(tctx, rq);
		scx_bpf_task_set_slice(prev, rest);
	} else {
		begin_epoch(rq, now);
		settle_quantum(prev, tctx, cpu);
		scx_bpf_task_set_slice(prev, turn_of(prev, tctx, k));
	}
	return true;
}

/* What is left of p's quantum, as of the CPU time that the kernel has accounted. */
static __always_inline s64 left_now(const struct task_struct *p, const struct task_ctx *tctx)
{
	return tctx->left - (s64)(p->se.sum_exec_runtime - tctx->exec_at_left);
}

/* The child p of the running task shares what that has left. */
static __always_inline void share_quantum(struct task_struct *p, struct task_ctx *tctx,
					  const struct knobs *k)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task_ctx *pctx = has_epochs(k) ? ctx_of(parent) : NULL;
	s64 half;

	if (!pctx || pctx->epoch_jobs != job_epoch + 1)
		return;
	half = left_now(parent, pctx) / 2;
	tctx->left = half;
	tctx->exec_at_left = p->se.sum_exec_runtime;
	tctx->epoch = pctx->epoch;
	tctx->epoch_cpu = pctx->epoch_cpu;
	tctx->epoch_jobs = pctx->epoch_jobs;
	if (half > 0)
		pctx->left -= half;
}

/* p ends. What it has left of this epoch is its parent's: a shell would lose half of its quantum to each command. */
static __always_inline void return_quantum(struct task_struct *p, const struct task_ctx *tctx,
					   const struct knobs *k)
{
	struct task_ctx *pctx = has_epochs(k) ? ctx_of(p->real_parent) : NULL;
	s64 left;

	if (!pctx || pctx->epoch_jobs != tctx->epoch_jobs || pctx->epoch_cpu != tctx->epoch_cpu ||
	    pctx->epoch != tctx->epoch)
		return;
	left = left_now(p, tctx);
	if (left > 0)
		pctx->left += left;
}

#endif /* EPOCH_BPF_H */
