/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The quantum of a task: the policy's, Set_Quantum's where that module is on, and
 * nice; and what is left of it in an epoch.
 */
#ifndef QUANTUM_BPF_H
#define QUANTUM_BPF_H

#include "set_quantum.h"
#include "rq.bpf.h"
#include "task.bpf.h"
#include "nice.bpf.h"

/* State(T) = LOCAL (CCS sec. 3.2): does a node far away want this job slowed down? */
static __always_inline bool is_slowed(u64 job)
{
	u32 *state = bpf_map_lookup_elem(&job_states, &job);

	return state && *state == JOB_SLOWED;
}

/*
 * Is p a job's, and does a local user hold it back, here or on another node of
 * the job? The cheap questions come first: most nodes have no user who objects.
 */
static __always_inline bool is_held_back(struct task_struct *p, const struct knobs *k)
{
	struct task_ctx *tctx;

	if (!any_parallel(k) || !(k->local_user || k->slowed_jobs))
		return false;
	tctx = ctx_of(p);
	if (!tctx || !is_parallel(tctx, k))
		return false;
	return k->local_user || is_slowed(tctx->job);
}

/* The quantum of p, ns, where a local user holds it back or does not. */
static __always_inline u64 quantum_if(struct task_struct *p, const struct knobs *k, bool held_back)
{
	struct task_ctx *tctx;
	u64 q = k->quantum_ns;

	if (k->set_quantum)
		q = set_quantum(q, k->stretch, k->share_l, held_back);
	if (nice_is_neutral(p))
		return q;
	if (any_parallel(k)) {
		tctx = ctx_of(p);
		if (tctx && is_parallel(tctx, k))
			return q;
	}
	return nice_quantum(p, q);
}

static __always_inline u64 slice_of(struct task_struct *p, const struct knobs *k)
{
	return quantum_if(p, k, k->set_quantum && is_held_back(p, k));
}

#define SHARED_MOST	8	/* quanta: what one task of a job may have where jobs share L */

/* What p may use in an epoch of this ready queue, ns. */
static __always_inline u64 epoch_quantum(struct task_struct *p, const struct task_ctx *tctx,
					 const struct rq_ctx *rq, const struct knobs *k)
{
	if (k->epochs == EPOCHS_JOBS && is_parallel(tctx, k) && is_held_back(p, k))
		return shared_quantum(rq->local_was, k->share_l, rq->jobs_was,
				      SHARED_MOST * quantum_if(p, k, false));
	return slice_of(p, k);
}

/*
 * Account p's CPU time, and the epochs that ended since it was seen last. Returns
 * what is left of its quantum in the epoch of @cpu, ns. On another CPU than before,
 * the epochs of the one it was on count.
 */
__noinline s64 settle_quantum(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull,
			      s32 cpu)
{
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = knobs_of(rq);
	u64 exec = p->se.sum_exec_runtime, ran = exec - tctx->exec_at_left;
	u64 quantum = epoch_quantum(p, tctx, rq, k);
	bool seen = tctx->epoch_jobs == job_epoch + 1;
	u32 missed = seen ? rq_of(tctx->epoch_cpu)->epoch - tctx->epoch : 1;
	s64 left;

	if (!seen || tctx->borrows)
		ran = 0;	/* nobody else wanted that time */
	left = seen ? tctx->left - (s64)ran : 0;
	if (left < 0)	/* what it ran on for makes the epoch longer */
		rq->epoch_sum += ran < -left ? ran : -left;
	if (!is_parallel(tctx, k))
		rq->local_ns += ran;
	else if (missed)
		rq->jobs_now++;
	if (missed) {
		left = quantum < MIN_SLICE_NS ? saved_quantum(left, quantum, missed)
					      : next_quantum(left, quantum, missed);
		if (left >= (s64)MIN_SLICE_NS)
			rq->epoch_sum += left;
	}
	tctx->borrows = 0;
	tctx->left = left;
	tctx->exec_at_left = exec;
	tctx->epoch = rq->epoch;
	tctx->epoch_cpu = cpu;
	tctx->epoch_jobs = job_epoch + 1;
	return left;
}

/* The slice of p, ns, whose quantum is settled: no turn is longer than a quantum that nobody cuts. */
static __always_inline u64 turn_of(struct task_struct *p, const struct task_ctx *tctx,
				   const struct knobs *k)
{
	u64 most, left;

	if (!has_epochs(k))
		return slice_of(p, k);
	most = quantum_if(p, k, false);
	left = tctx->left < (s64)MIN_SLICE_NS ? MIN_SLICE_NS : tctx->left;
	return left < most ? left : most;
}

#endif /* QUANTUM_BPF_H */
