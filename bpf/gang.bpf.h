/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Gangs: all tasks of jobs have the CPUs of the node at the same time.
 *
 * Tasks of a job that share memory wait for each other, and the kernel sees nothing of
 * it. Where one of them waits in a ready queue behind a local task, all others spin, or
 * sleep, for a quantum. So time is divided into windows, by the clock, on all CPUs and
 * nodes at once: in the first L of each period the tasks of jobs go first, in the rest
 * the local tasks. Who goes first
 *
 *   is taken from the queue in the queue's order, which insert_RQ has made, past those
 *     whose window it is not;
 *   is taken from another CPU's queue if none waits here: so the tasks of a job spread
 *     over the CPUs, as local tasks do in their windows;
 *   takes the CPU as it comes, from a task whose window it is not: that one keeps its
 *     place and the rest of its quantum;
 *   keeps the CPU when it yields and none of its kind waits here.
 *
 * A CPU on which nobody wants the window is free for everybody. In the jobs' window
 * three kinds of local tasks go ahead of jobs as ever: kernel threads, those on sleeper
 * credit, so that whoever is at the keyboard waits for no window, and those that were
 * passed MNO times. To be passed in a window is to be overtaken once.
 *
 * Several jobs take turns, a period each, as in Ousterhout's matrix (1982): where the
 * tasks of one leave a CPU free, the others fill it (turn.bpf.h).
 *
 * The papers' nodes have one CPU each, so this is ours.
 */
#ifndef GANG_BPF_H
#define GANG_BPF_H

#include "balance.bpf.h"
#include "waiting.bpf.h"

#define FAR_MESSAGES	64		/* more than a rank has for its start alone */
#define WORKED_LATELY	(8 * NSEC_PER_MSEC)	/* two ticks at 250 Hz */
#define GANG_LOOKS	16		/* tasks of a queue that are asked */

/* A task of a job leaves the CPU or yields: has it worked since it yielded last, or only looked for a message? */
static __always_inline void note_work(struct task_ctx *tctx, u64 exec)
{
	struct job_here *here;

	if (exec - tctx->yielded > POLL_PAUSE) {
		here = bpf_map_lookup_elem(&jobs_here, &tctx->job);
		if (here)
			here->worked = scx_bpf_now();
	}
	tctx->yielded = exec;
}

/*
 * Does a task that yields wait for a sibling, which runs beside it, rather than for another node? Of messages
 * through shared memory the kernel sees nothing. So it does if it has had too few through sockets to have ranks
 * elsewhere, or if a sibling on this node has worked just now.
 */
static __always_inline bool waits_for_sibling(const struct task_ctx *tctx, const struct obs *o)
{
	struct job_here *here;

	if (o->moved < FAR_MESSAGES)
		return true;
	here = bpf_map_lookup_elem(&jobs_here, &tctx->job);
	return here && scx_bpf_now() - here->worked < WORKED_LATELY;
}

/* Has the task unused sleeper credit on which it was queued? */
static __always_inline bool is_on_credit(const struct task_struct *p, const struct task_ctx *tctx)
{
	return tctx->credited && credit_left(p, tctx) > 0;
}

/* Was it passed MNO times, this window's not counted? Then nobody passes it any more. */
static __always_inline bool is_protected(const struct task_ctx *tctx, const struct knobs *k, u32 now)
{
	return tctx->de_epoch == job_epoch && tctx->de >= (tctx->job ? k->mnod : k->mnol) && tctx->passed_in != now;
}

/* Who goes first in a window? */
enum window_rank {
	RANK_LAST,	/* it is another's */
	RANK_FILL,	/* it fills what the first leave free: where jobs take turns */
	RANK_FIRST,
};

/* Of a task, in the window @now and the turn of the job @turn. */
static __always_inline u32 rank_of(const struct task_struct *p, const struct task_ctx *tctx, const struct knobs *k,
				   u32 now, u64 turn)
{
	bool jobs = is_jobs(now);

	if (is_protected(tctx, k, now))
		return RANK_FIRST;
	if (!tctx->job)
		return !jobs || is_on_credit(p, tctx) ? RANK_FIRST : RANK_LAST;
	if (has_given_up(p, tctx))
		return RANK_LAST;
	if (!turn)
		return jobs ? RANK_FIRST : RANK_LAST;
	return (jobs ? RANK_FILL : RANK_LAST) + has_turn(tctx, turn);
}

static __always_inline u32 rank_here(const struct task_struct *p, const struct task_ctx *tctx, const struct rq_ctx *rq)
{
	return rank_of(p, tctx, knobs_of(rq), rq->window, rq->turn);
}

static __always_inline bool may_run_on(const struct task_struct *p, s32 cpu)
{
	return p->nr_cpus_allowed > 1 && !p->migration_disabled && bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/* The first of the queue of @cpu of the highest rank, @least or more, of tasks that may run on @on: its tid, or 0. */
__noinline u32 find_first(s32 cpu, s32 on, u32 least)
{
	u32 looked = 0, rank, found = 0;
	struct task_struct *q;
	struct task_ctx *qctx;

	bpf_for_each(scx_dsq, q, cpu, 0) {
		if (++looked > GANG_LOOKS)
			break;
		qctx = ctx_of(q);
		if (!qctx || (cpu != on && !may_run_on(q, on)))
			continue;
		rank = rank_here(q, qctx, rq_of(on));
		if (rank >= least) {
			found = q->pid;
			least = rank + 1;
		}
		if (rank == RANK_FIRST)
			break;
	}
	return found;
}

/* Those of the queue of @cpu that are ahead of the task @tid of the job @job are passed: once in a window each. */
__noinline int charge_window(u32 tid, u64 job, s32 cpu)
{
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = knobs_of(rq);
	struct task_struct *q;
	struct task_ctx *qctx;
	u32 looked = 0;

	bpf_for_each(scx_dsq, q, cpu, 0) {
		if (q->pid == tid || ++looked > GANG_LOOKS)
			break;
		qctx = ctx_of(q);
		if (!qctx || qctx->passed_in == rq->window)
			continue;
		qctx->passed_in = rq->window;
		charge(qctx, job, stats_of(cpu, k->rule));
		note_overtaken(k, q->pid);
	}
	return 0;
}

/* The queued task @tid goes first here: those ahead of it are charged, and it is recorded. */
static __always_inline void pass(u32 tid, s32 cpu)
{
	struct task_struct *p = bpf_task_from_pid(tid);
	const struct knobs *k = knobs_of(rq_of(cpu));
	struct task_ctx *tctx;

	if (!p)
		return;
	if (k->trace)
		record_begin(cpu, tid);
	tctx = ctx_of(p);
	if (tctx)
		charge_window(tid, tctx->job, cpu);
	if (k->trace)
		record_window(p, cpu);
	bpf_task_release(p);
}

/* How many of the queue of @cpu are of the rank @least or more, among those that are asked? */
__noinline int nr_first(s32 cpu, u32 now, u64 turn, u32 least)
{
	const struct knobs *k = knobs_now();
	struct task_struct *q;
	struct task_ctx *qctx;
	u32 looked = 0;
	int found = 0;

	bpf_for_each(scx_dsq, q, cpu, 0) {
		if (++looked > GANG_LOOKS)
			break;
		qctx = ctx_of(q);
		found += qctx && rank_of(q, qctx, k, now, turn) >= least;
	}
	return found;
}

static __always_inline int nr_here(s32 cpu, const struct rq_ctx *rq, u32 least)
{
	return nr_first(cpu, rq->window, rq->turn, least);
}

/*
 * Take the first of the queue of @from of the rank @least or more to the CPU @cpu. Tasks of jobs that share a CPU in
 * their window, with the one that leaves it or with others that wait, change at each tick: one may spin for another.
 */
__noinline int take_first(s32 from, s32 cpu, u32 least, bool shared)
{
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = knobs_of(rq);
	u32 tid = find_first(from, cpu, least), looked = 0;
	struct task_struct *q;
	struct task_ctx *qctx;

	if (!tid)
		return 0;
	shared = (is_jobs(rq->window) || rq->turn) && (shared || nr_here(cpu, rq, least) > 1);
	if (from == cpu)
		pass(tid, cpu);
	bpf_for_each(scx_dsq, q, from, 0) {
		if (++looked > GANG_LOOKS)
			break;
		if (q->pid != tid)
			continue;
		qctx = ctx_of(q);
		if (shared && qctx && qctx->job)	/* a local one, on credit, has its whole turn */
			scx_bpf_dsq_move_set_slice(&___it, MIN_SLICE_NS);
		if (!scx_bpf_dsq_move(&___it, q, SCX_DSQ_LOCAL, 0))
			continue;
		stats_of(cpu, k->rule)[from == cpu ? STAT_GANG : STAT_STEAL]++;
		return 1;
	}
	return 0;
}

/* From the other CPU, of a few, on which most wait that have the rank, if they are more than @most. */
__noinline int take_first_elsewhere(s32 cpu, u32 least, s32 most)
{
	struct rq_ctx *rq = rq_of(cpu);
	u32 i, looks = nr_looks(BALANCE_LOOKS);
	s32 other, longest = -1, found;

	bpf_for(i, 0, looks) {
		other = neighbour(cpu, rq, i);
		if (scx_bpf_dsq_nr_queued(other) <= most)
			continue;
		found = nr_here(other, rq, least);
		if (found > most) {
			most = found;
			longest = other;
		}
	}
	end_search(rq, looks);
	return longest >= 0 && take_first(longest, cpu, least, false);
}

/* The rank that a task must have to take the CPU, where one of the rank @rank may keep it. */
static __always_inline u32 rank_for(const struct rq_ctx *rq, u32 rank)
{
	return rank == RANK_LAST && rq->turn ? RANK_FILL : rank ?: RANK_FIRST;
}

/* Is it the window of tasks of its kind, or does it fill one? */
static __always_inline bool is_own(const struct task_ctx *tctx, const struct rq_ctx *rq)
{
	return !!tctx->job == is_jobs(rq->window) || has_turn(tctx, rq->turn);
}

/* @prev can go on: who goes first here? Returns whether a task was moved to the CPU, or @prev keeps it. */
__noinline int goes_on_by_window(struct task_struct *prev __arg_trusted, s32 cpu, bool yields)
{
	struct rq_ctx *rq = rq_of(cpu);
	struct task_ctx *tctx = ctx_of(prev);
	u32 rank;

	if (!tctx)
		return 0;
	rank = rq->resume_tid == prev->pid ? RANK_LAST : rank_here(prev, tctx, rq);
	if (!yields && cfg.nr_cpus > 1 && take_first_elsewhere(cpu, RANK_FIRST, nr_here(cpu, rq, RANK_FIRST)))
		return 1;
	if (take_first(cpu, cpu, rank_for(rq, rank), rank && tctx->job))
		return 1;
	/* what one on credit, or passed too often, goes ahead with is over with its quantum */
	if (!rank || !is_own(tctx, rq))
		return 0;
	if (tctx->in_order)
		rq->streak = 0;
	scx_bpf_task_set_slice(prev, slice_of(prev, knobs_of(rq)));
	return 1;
}

/* Nobody goes on. First come those whose window it is, from here or elsewhere. */
__noinline int choose_first(s32 cpu)
{
	u32 least = RANK_FIRST, last = rank_for(rq_of(cpu), RANK_LAST);

	if (take_first(cpu, cpu, least, false) || (cfg.nr_cpus > 1 && take_first_elsewhere(cpu, least, 0)))
		return 1;
	if (last == least)
		return 0;
	return take_first(cpu, cpu, last, false) || (cfg.nr_cpus > 1 && take_first_elsewhere(cpu, last, 0));
}

/* The task that runs on @cpu, if it has to leave when one of the rank @rank comes; else NULL. */
static __always_inline struct task_struct *gives_way(s32 cpu, const struct knobs *k, u32 now, u64 turn, u32 rank)
{
	struct task_ctx *cctx;
	struct task_struct *curr = running_on(cpu, &cctx);

	return curr && rank_of(curr, cctx, k, now, turn) < rank ? curr : NULL;
}

/* Another CPU shall take a task from here: one of a few, on which a task of a lower rank runs. */
__noinline int call_another(struct task_struct *p __arg_trusted, s32 cpu, u32 rank)
{
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = knobs_of(rq);
	u32 i, looks = nr_looks(BALANCE_LOOKS);
	s32 other;

	bpf_for(i, 0, looks) {
		other = neighbour(cpu, rq, i);
		if (!may_run_on(p, other) || !gives_way(other, k, rq->window, rq->turn, rank))
			continue;
		if (!rq_of(other)->ordered)
			leave_quiet(other);
		interrupt(other);
		return 1;
	}
	return 0;
}

#endif /* GANG_BPF_H */
