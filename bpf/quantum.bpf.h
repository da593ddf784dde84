/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The quantum of a task: the policy's, Set_Quantum's where that module is on, and
 * nice.
 */
#ifndef QUANTUM_BPF_H
#define QUANTUM_BPF_H

#include "set_quantum.h"
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

/* The quantum of p, ns. */
static __always_inline u64 slice_of(struct task_struct *p, const struct knobs *k)
{
	struct task_ctx *tctx;
	u64 q = k->quantum_ns;

	if (k->set_quantum)
		q = set_quantum(q, k->stretch, k->share_l, is_held_back(p, k));
	if (nice_is_neutral(p))
		return q;
	if (any_parallel(k)) {
		tctx = ctx_of(p);
		if (tctx && is_parallel(tctx, k))
			return q;
	}
	return nice_quantum(p, q);
}

#endif /* QUANTUM_BPF_H */
