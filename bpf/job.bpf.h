/* SPDX-License-Identifier: GPL-2.0-only */
/* Jobs: membership of tasks, and how often tasks of one job passed those of others. */
#ifndef JOB_BPF_H
#define JOB_BPF_H

#include "task.bpf.h"

static __always_inline struct job_stat *job_stat_of(u64 job)
{
	struct job_stat *js = NULL, zero = {};

	if (!job)
		return NULL;
	js = bpf_map_lookup_elem(&jobs, &job);
	if (!js) {
		bpf_map_update_elem(&jobs, &job, &zero, BPF_NOEXIST);
		js = bpf_map_lookup_elem(&jobs, &job);
	}
	return js;
}

/* A task of job @q (0: a local one) was passed by one of job @h. */
__noinline int count_overtake(u64 q, u64 h)
{
	struct job_stat *js;

	js = job_stat_of(q);
	if (js)
		__sync_fetch_and_add(&js->overtakes_suffered, 1);
	js = job_stat_of(h);
	if (js)
		__sync_fetch_and_add(&js->overtakes_given, 1);
	return 0;
}

/* q was passed by a task of @h_job for a coscheduling cause. */
static __always_inline void charge(struct task_ctx *q, u64 h_job, u64 *st)
{
	if (q->de_epoch != job_epoch) {
		q->de_epoch = job_epoch;
		q->de = 0;
	}
	q->de++;
	st[STAT_OVERTAKE]++;
	count_overtake(q->job, h_job);
}

/* The job a cgroup belongs to: its ancestor right under the parent of all jobs. */
static __always_inline u64 job_of(struct cgroup *cgrp)
{
	u32 level = cfg.jobs_level;
	struct cgroup *parent = NULL, *job = NULL;

	if (!cgrp || BPF_CORE_READ(cgrp, level) <= level || level > 16)
		return 0;
	bpf_core_read(&parent, sizeof(parent), &cgrp->ancestors[level]);
	bpf_core_read(&job, sizeof(job), &cgrp->ancestors[level + 1]);
	if (!parent || !job || BPF_CORE_READ(parent, kn, id) != cfg.jobs_cgid)
		return 0;
	return BPF_CORE_READ(job, kn, id);
}

/* A task of the job has come (@n 1) or goes (-1). */
static __always_inline void count_task(u64 job, s64 n)
{
	struct job_here none = {}, *here;

	if (!job)
		return;
	here = bpf_map_lookup_elem(&jobs_here, &job);
	if (!here && n > 0) {
		bpf_map_update_elem(&jobs_here, &job, &none, BPF_NOEXIST);
		here = bpf_map_lookup_elem(&jobs_here, &job);
	}
	if (here)
		__sync_fetch_and_add(&here->tasks, n);
}

static __always_inline void join_job(struct task_ctx *tctx, u64 job)
{
	if (!tctx->job && job) {
		if (!__sync_fetch_and_add(&nr_parallel, 1))
			job_epoch++;
	}
	if (tctx->job && !job)
		__sync_fetch_and_sub(&nr_parallel, 1);
	count_task(tctx->job, -1);
	count_task(job, 1);
	tctx->job = job;
	tctx->credited = 0;
	tctx->credit = 0;
}

#endif /* JOB_BPF_H */
