/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A process that is moved into a job of Slurm is announced, so that the agent
 * need not look for jobs. The process connector tells of the forks of members.
 * Under contract=class every move into a job or out of it is announced: the
 * agent changes the scheduling class. And so is a CPU limit that somebody sets:
 * it is the fair class's, and void under contract=queue.
 */
#ifndef JOINS_BPF_H
#define JOINS_BPF_H

#include "maps.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 << 10);
} joins SEC(".maps");

/* Tell the agent that a task of a job asked for a scheduling class and was refused. */
static __always_inline void announce_refusal(struct task_struct *asker, u64 job, u32 class)
{
	struct join *join = bpf_ringbuf_reserve(&joins, sizeof(*join), 0);

	if (!join) {
		stats_of(bpf_get_smp_processor_id(), knobs_now()->rule)[STAT_JOIN_LOST]++;
		return;
	}
	join->job = job;
	join->pid = asker->tgid;
	join->asked = 1 + class;
	__builtin_memcpy(join->comm, asker->comm, COMM_LEN);
	bpf_ringbuf_submit(join, 0);
}

/* Tell the agent that this process has been moved into a job, within it, or (job 0) out of it. */
static __always_inline void announce_join(struct task_struct *p, u64 job)
{
	struct join *join;

	if (p->pid != p->tgid)
		return;
	join = bpf_ringbuf_reserve(&joins, sizeof(*join), 0);
	if (!join) {
		stats_of(scx_bpf_task_cpu(p), knobs_now()->rule)[STAT_JOIN_LOST]++;
		return;
	}
	join->job = job;
	join->pid = p->pid;
	join->asked = 0;
	bpf_ringbuf_submit(join, 0);
}

/* Tell the agent that a cgroup has another CPU limit or weight. */
static __always_inline void announce_limit(struct cgroup *cgrp)
{
	struct join *join = bpf_ringbuf_reserve(&joins, sizeof(*join), 0);

	if (!join) {
		stats_of(bpf_get_smp_processor_id(), knobs_now()->rule)[STAT_JOIN_LOST]++;
		return;
	}
	join->job = BPF_CORE_READ(cgrp, kn, id);
	join->pid = 0;
	join->asked = 0;
	bpf_ringbuf_submit(join, 0);
}

#endif /* JOINS_BPF_H */
