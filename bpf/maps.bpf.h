/* SPDX-License-Identifier: GPL-2.0-only */
/* The maps and sections shared with user space: settings, counters, observations, jobs. */
#ifndef MAPS_BPF_H
#define MAPS_BPF_H

#include "scx.bpf.h"
#include "observed.bpf.h"

const volatile struct config cfg SEC(".rodata.config");
struct knob_sets knob_sets SEC(".data.knobs");
u64 stats[MAX_CPUS][MAX_RULES][NR_COSCHED_STATS] SEC(".bss.stats");
struct exit_record exit_record SEC(".bss.exit");
struct snapshot snap SEC(".bss.snap");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct job_stat);
} jobs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, u32);
} job_states SEC(".maps");

/* Rule order: the place of a job in the queue of jobs. No entry: the last. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, u32);
} job_places SEC(".maps");

struct job_here {
	u64	worked;		/* when a task of it was last seen to do more than look for a message */
	u64	tasks;		/* on this node */
};

/* What windows need to know of a job. No entry: it has no tasks here. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct job_here);
} jobs_here SEC(".maps");

static __always_inline const struct knobs *knobs_now(void)
{
	return &knob_sets.set[knob_sets.active & 1];
}

_Static_assert(!(MAX_CPUS & (MAX_CPUS - 1)) && !(MAX_RULES & (MAX_RULES - 1)),
	       "masks bound the indexes below");
_Static_assert(NR_RULES <= MAX_RULES, "each rule has its statistics");

static __always_inline u64 *stats_of(s32 cpu, u32 rule)
{
	return stats[cpu & (MAX_CPUS - 1)][rule & (MAX_RULES - 1)];
}

#endif /* MAPS_BPF_H */
