/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Balance: all tasks that compute get the same part of the CPUs that they may use.
 *
 * Asked when a quantum ends, and then of a few other CPUs. A CPU in order takes the head
 * of a queue that is longer than its own. A quiet CPU, which is not asked for the next
 * task while it has one, gives the task whose quantum ended to a quiet CPU with a shorter
 * queue. Where queues differ by one, tasks so change places once in a quantum: of three
 * on two CPUs each has two thirds of a CPU, which no distribution that stays can give.
 */
#ifndef BALANCE_BPF_H
#define BALANCE_BPF_H

#include "quiet.bpf.h"

#define BALANCE_LOOKS	4	/* CPUs that are asked when a quantum ends; the next time goes on behind them */

/* The CPU that is to be asked next, after so many. */
static __always_inline s32 neighbour(s32 cpu, const struct rq_ctx *rq, u32 i)
{
	return (cpu + 1 + (rq->balance_at + i) % (cfg.nr_cpus - 1)) % cfg.nr_cpus;
}

static __always_inline u32 balance_looks(void)
{
	return cfg.nr_cpus - 1 < BALANCE_LOOKS ? cfg.nr_cpus - 1 : BALANCE_LOOKS;
}

static __always_inline void end_balance(struct rq_ctx *rq, u32 looks)
{
	rq->balance_at = (rq->balance_at + looks) % (cfg.nr_cpus - 1);
}

/*
 * The quantum of @cpu's task has ended, and its queue is in order: the head of a longer
 * queue goes first. Not static, see fill_obs().
 */
__noinline bool pull(s32 cpu)
{
	struct rq_ctx *rq = rq_of(cpu);
	s32 other, most = nr_waiting(cpu), waiting, longest = -1;
	u32 i, looks = balance_looks();

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
	end_balance(rq, looks);
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
	u32 i, looks = balance_looks();

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
	end_balance(rq, looks);
	return shortest;
}

#endif /* BALANCE_BPF_H */
