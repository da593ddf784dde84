/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Balance: all tasks that compute get the same part of the CPUs that they may use.
 *
 * Asked when a quantum ends, and then of a few other CPUs. A CPU in order takes the head
 * of a queue that is longer than its own. A quiet CPU, which is not asked for the next
 * task while it has one, gives the task whose quantum ended to a quiet CPU with a shorter
 * queue. Where queues differ by one, tasks so change places once in a quantum: of three
 * on two CPUs each has two thirds of a CPU, which no distribution that stays can give.
 * The papers say nothing of this: their nodes have one CPU each.
 */
#ifndef BALANCE_BPF_H
#define BALANCE_BPF_H

#include "quiet.bpf.h"

#define BALANCE_LOOKS	4	/* CPUs that are asked when a quantum ends, */
#define STEAL_LOOKS	16	/* and by a CPU without work; the next search goes on behind them */

static __always_inline u32 nr_looks(u32 most)
{
	return cfg.nr_cpus - 1 < most ? cfg.nr_cpus - 1 : most;
}

/* The i-th CPU of a search: the next CPUs first, which are near in most machines. */
static __always_inline s32 neighbour(s32 cpu, const struct rq_ctx *rq, u32 i)
{
	return (cpu + 1 + (rq->steal_at + i) % (cfg.nr_cpus - 1)) % cfg.nr_cpus;
}

static __always_inline void end_search(struct rq_ctx *rq, u32 looks)
{
	rq->steal_at = (rq->steal_at + looks) % (cfg.nr_cpus - 1);
}

/* @cpu has no work: take a task that waits elsewhere. */
__noinline bool steal(s32 cpu)
{
	struct rq_ctx *rq = rq_of(cpu);
	u32 i, looks = nr_looks(STEAL_LOOKS);

	bpf_for(i, 0, looks) {
		s32 victim = neighbour(cpu, rq, i);

		if (!rq_of(victim)->busy)
			continue;
		if (nr_waiting(victim) >= 1 &&
		    (scx_bpf_dsq_move_to_local(victim) || scx_bpf_dsq_move_to_local(EXPIRED(victim)))) {
			stats_of(cpu, knobs_of(rq)->rule)[STAT_STEAL]++;
			return true;
		}
		/* a quiet CPU: ask it to put its tasks where they can be taken */
		if (scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | victim) >= 1)
			leave_quiet(victim);
	}
	if (looks < cfg.nr_cpus - 1) {
		end_search(rq, looks);
		stats_of(cpu, knobs_of(rq)->rule)[STAT_STEAL_BOUNDED]++;
	}
	return false;
}

/*
 * The quantum of @cpu's task has ended, and its queue is in order: the head of a longer
 * queue goes first. Not static, see fill_obs().
 */
__noinline bool pull(s32 cpu)
{
	struct rq_ctx *rq = rq_of(cpu);
	s32 other, most = nr_waiting(cpu), waiting, longest = -1;
	u32 i, looks = nr_looks(BALANCE_LOOKS);

	bpf_for(i, 0, looks) {
		other = neighbour(cpu, rq, i);
		waiting = nr_waiting(other);
		if (waiting > most) {
			most = waiting;
			longest = other;
		} else if (scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | other) > most) {
			leave_quiet(other);	/* it shall put its tasks where they can be taken */
		}
	}
	end_search(rq, looks);
	if (longest < 0 || !scx_bpf_dsq_move_to_local(longest))
		return false;
	stats_of(cpu, knobs_of(rq)->rule)[STAT_STEAL]++;
	return true;
}

/* The quantum of p has ended on a quiet CPU. Returns the quiet one with the shortest queue. */
__noinline s32 push_to(struct task_struct *p __arg_trusted, s32 cpu)
{
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = knobs_of(rq);
	s32 other, least = scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu), waiting, shortest = cpu;
	u32 i, looks = nr_looks(BALANCE_LOOKS);

	if (!least || p->nr_cpus_allowed == 1 ||
	    p->migration_disabled > (p == bpf_get_current_task_btf()))	/* this program counts for one */
		return cpu;
	bpf_for(i, 0, looks) {
		other = neighbour(cpu, rq, i);
		waiting = scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | other);
		if (waiting < least && !rq_of(other)->inactive && is_quiet(rq_of(other), other, k) &&
		    bpf_cpumask_test_cpu(other, p->cpus_ptr)) {
			least = waiting;
			shortest = other;
		}
	}
	end_search(rq, looks);
	return shortest;
}

#endif /* BALANCE_BPF_H */
