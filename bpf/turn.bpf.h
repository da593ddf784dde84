/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Several jobs take turns at the windows of gangs, as the rows of Ousterhout's matrix
 * (Scheduling Techniques for Concurrent Systems, 1982), a period each. In its turn a job
 * goes ahead of the others, whose tasks fill the CPUs that it leaves free.
 *
 *   Turns are for jobs with two tasks or more on the node, and where two such jobs are
 *   ready: one task alone gains nothing from them. The jobs that are ready follow each
 *   other in the order of their cgroup ids.
 *
 *   While memory is overloaded there are none: page faults then say who goes first.
 */
#ifndef TURN_BPF_H
#define TURN_BPF_H

#include "gang.bpf.h"

#define TURN_TASKS	2	/* of a job on the node */

/* The search: the jobs that were seen, next to the one that has the turn, and at both ends. */
static u64 next_job, least_job, most_job;

static __always_inline void see_job(const struct task_ctx *tctx)
{
	u64 job = tctx->job;
	struct job_here *here;

	if (!job)
		return;
	here = bpf_map_lookup_elem(&jobs_here, &job);
	if (!here || here->tasks < TURN_TASKS)
		return;
	if (job > window.turn && (!next_job || job < next_job))
		next_job = job;
	if (!least_job || job < least_job)
		least_job = job;
	if (job > most_job)
		most_job = job;
}

/* The jobs of the tasks that run, or are among the first of a queue. */
__noinline int see_jobs(s32 cpu)
{
	struct task_struct *q;
	struct task_ctx *qctx;
	u32 looked = 0;

	if (running_on(cpu, &qctx))
		see_job(qctx);
	bpf_for_each(scx_dsq, q, cpu, 0) {
		if (++looked > GANG_LOOKS)
			break;
		qctx = ctx_of(q);
		if (qctx)
			see_job(qctx);
	}
	return 0;
}

/* A period begins: the turn goes to the next job. The timer alone calls it. */
static __always_inline void choose_turn(void)
{
	const struct knobs *k = knobs_now();
	s32 cpu, n = cfg.nr_cpus;

	next_job = least_job = most_job = 0;
	bpf_for(cpu, 0, n) {
		see_jobs(cpu);
	}
	if (least_job == most_job || is_overloaded(k))
		window.turn = 0;
	else
		window.turn = next_job ?: least_job;
}

#endif /* TURN_BPF_H */
