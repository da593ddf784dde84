/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rules whose bound is time: jobs ahead of local tasks by class (R_BY_CLASS),
 * jobs in the order of their queue (R_BY_ORDER). How long a queued task has been
 * passed, when a local task last had its turn, and the places of jobs.
 */
#ifndef BY_CLASS_BPF_H
#define BY_CLASS_BPF_H

#include "rq.bpf.h"
#include "task.bpf.h"

/*
 * The stay of a task in RQ begins. Other rules never read the time: a task that
 * is queued while the rule becomes prio counts as passed for long, once.
 */
static __always_inline void note_queued(struct task_ctx *tctx, const struct knobs *k)
{
	if (rule_has(k->rule, R_BY_CLASS | R_BY_ORDER))
		tctx->queued_at = scx_bpf_now();
}

/*
 * Has this queued task been passed for long enough? By class, yes after starve_ms
 * in which jobs had the CPU for themselves; while other local tasks have turns,
 * the task waits for these. By order, yes after starve_ms. The kernel's watchdog
 * counts from the same moment, whatever the task waits for: after a quarter of
 * the watchdog's limit the task is passed no more, which leaves time for the
 * tasks already ahead of it.
 */
static __always_inline bool is_starved(const struct task_struct *p, const struct task_ctx *tctx,
				       const struct knobs *k)
{
	s64 most = cfg.watchdog_ms / 4 * NSEC_PER_MSEC, limit = k->starve_ms * NSEC_PER_MSEC;
	s64 queued;
	u64 now;

	if (!in_ready_queue(p))
		return false;
	now = scx_bpf_now();
	queued = now - tctx->queued_at;
	if (queued > most)
		return true;
	return queued > limit && (rule_has(k->rule, R_BY_ORDER) ||
				  (s64)(now - rq_of(scx_bpf_task_cpu(p))->local_until) > limit);
}

/* Rule order: the place of a job in the queue of jobs. */
static __always_inline u32 place_of(u64 job)
{
	u32 *place = bpf_map_lookup_elem(&job_places, &job);

	return place && *place < PLACES ? *place : PLACES - 1;
}

/* What these rules compare of a task: TASK_STARVED, and the place of its job. */
static __always_inline u32 timed_flags(const struct task_struct *p, const struct task_ctx *tctx,
				       const struct knobs *k)
{
	u32 flags = is_starved(p, tctx, k) ? TASK_STARVED : 0;

	if (rule_has(k->rule, R_BY_ORDER) && tctx->job)
		flags |= place_of(tctx->job) << TASK_PLACE_SHIFT;
	return flags;
}

/* The head of the queue is about to run. Is it a local task's turn? */
static __always_inline void note_turn(s32 cpu, const struct knobs *k)
{
	struct task_struct *head = scx_bpf_dsq_peek(cpu);
	struct task_ctx *tctx = head ? ctx_of(head) : NULL;

	if (tctx && !is_parallel(tctx, k))
		rq_of(cpu)->local_until = scx_bpf_now() + head->scx.slice;
}

#endif /* BY_CLASS_BPF_H */
