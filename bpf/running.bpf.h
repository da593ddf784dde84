/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * RQ[0], the running task: how it is found, how it is displaced and how it comes
 * back; and the CPUs that wait for work.
 */
#ifndef RUNNING_BPF_H
#define RUNNING_BPF_H

#include "queue.bpf.h"

/* The kernel waits for these: they go ahead of everything and are not displaced. */
static __always_inline bool is_percpu_kthread(const struct task_struct *p)
{
	return (p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1;
}

/*
 * Does p go ahead of everything? Kernel threads of one CPU do when they wake, and
 * under prio all kernel threads: jobs need their work (RCU, write-back), and they
 * belong to no local user. A kernel thread that uses up its quantum is like local
 * tasks until it sleeps: ahead of them, it had two turns for each of theirs.
 */
static __always_inline bool is_ahead_of_all(const struct task_struct *p, const struct knobs *k,
					    bool woke)
{
	return woke && (is_percpu_kthread(p) ||
			((p->flags & PF_KTHREAD) && any_parallel(k) && rule_has(k->rule, R_BY_CLASS)));
}

/*
 * RQ[0] of @cpu: our task that runs there and is not on its way out, else NULL. A task
 * that used its quantum and runs because the CPU would idle is none: all go before it.
 */
static __always_inline struct task_struct *running_on(s32 cpu, struct task_ctx **cctx)
{
	const struct knobs *k = knobs_of(rq_of(cpu));
	struct task_struct *curr = scx_bpf_cpu_curr(cpu);

	if (!curr || !is_queued_or_runs(curr) || !curr->scx.slice || is_ahead_of_all(curr, k, true))
		return NULL;
	*cctx = ctx_of(curr);
	if (!*cctx || rq_of(cpu)->resume_tid == curr->pid || borrows(*cctx, k))
		return NULL;
	return curr;
}

/*
 * Take the CPU from @curr. It goes right behind the task that displaced it, with
 * the rest of its quantum.
 */
static __always_inline void displace(const struct task_struct *curr, struct rq_ctx *rq, u64 key,
				     u64 limit)
{
	rq->resume_tid = curr->pid;
	rq->resume_key = key + (limit - key) / 2;
	rq->resume_slice = curr->scx.slice;	/* as of resume_exec: what it ran since goes off later */
	rq->resume_exec = curr->se.sum_exec_runtime;
}

/* Take @cpu from its running task: now, or where no interrupt may be raised, at the tick. */
static __always_inline void interrupt(s32 cpu)
{
	struct task_struct *curr;

	if (may_raise_irq_work()) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return;
	}
	curr = scx_bpf_cpu_curr(cpu);
	if (curr)
		scx_bpf_task_set_slice(curr, 0);
}

/*
 * Is it the running task of @cpu itself, by a system call and not by an interrupt, that
 * has just woken another or sent it a message? Then it goes on, for it may have more to
 * say: until it waits, at most to the tick (ops.tick).
 */
static __always_inline bool is_by_running(s32 cpu)
{
	const int *count;

	if (!bpf_ksym_exists(&__preempt_count) || bpf_get_smp_processor_id() != cpu)
		return false;
	count = bpf_this_cpu_ptr(&__preempt_count);
	return !(*count & IN_INTERRUPT);
}

/*
 * p, which the running task of @cpu woke, displaces it: does that one go on for now? Not
 * if one of the two woke the other the last time as well. Of tasks that answer each
 * other, the one displaced finds its answer when it comes back, and need not sleep.
 */
static __always_inline bool stays_as_waker(const struct task_struct *p, struct rq_ctx *rq, s32 cpu,
					   const struct knobs *k)
{
	u32 pair;

	if (!k->waker_stays || !is_by_running(cpu))
		return false;
	pair = p->pid ^ bpf_get_current_task_btf()->pid;
	if (pair == rq->woken_pair)
		return false;
	rq->woken_pair = pair;
	return true;
}

/* A wake-up on a busy CPU was preceded by a search for an idle one; other insertions were not. */
static __always_inline void wake_idle_cpu(const struct task_struct *p, struct rq_ctx *rq)
{
	s32 idle;

	if (cfg.nr_cpus < 2 || !may_raise_irq_work())
		return;
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, 0);
}

static __always_inline void insert_args(struct scx_bpf_dsq_insert_vtime_args *args, struct rq_ctx *rq, s32 cpu,
					u64 slice, u64 key, u64 enq_flags)
{
	args->dsq_id = cpu;
	args->slice = slice;
	args->vtime = key;
	args->enq_flags = enq_flags;
	rq->ordered = 1;
	mark_busy(rq);
}

static __always_inline void insert(struct task_struct *p, struct rq_ctx *rq, s32 cpu, u64 slice,
				   u64 key, u64 enq_flags)
{
	struct scx_bpf_dsq_insert_vtime_args args;

	insert_args(&args, rq, cpu, slice, key, enq_flags);
	__scx_bpf_dsq_insert_vtime(p, &args);
}

/* Insert p right behind the queued task @tid, whose key it has: of kernels that can do this. */
static __always_inline void insert_behind(struct task_struct *p, u32 tid, struct rq_ctx *rq, s32 cpu,
					  u64 slice, u64 key, u64 enq_flags)
{
	struct task_struct *near = bpf_task_from_pid(tid);
	struct scx_bpf_dsq_insert_vtime_args args;

	insert_args(&args, rq, cpu, slice, key, enq_flags);
	if (near && bpf_ksym_exists(scx_bpf_dsq_insert_vtime_beside))
		scx_bpf_dsq_insert_vtime_beside(p, near, &args);
	else
		__scx_bpf_dsq_insert_vtime(p, &args);
	if (near)
		bpf_task_release(near);
}

/*
 * Does p come back from the CPU because it was displaced? Returns the rest of its
 * quantum, ns; 0: p is a fresh arrival.
 */
static __always_inline u64 was_displaced(const struct task_struct *p, struct rq_ctx *rq, bool woke)
{
	u64 ran;

	if (rq->resume_tid != p->pid)
		return 0;
	rq->resume_tid = 0;
	ran = p->se.sum_exec_runtime - rq->resume_exec;
	return !woke && ran < rq->resume_slice ? rq->resume_slice - ran : 0;
}

/* A displaced task goes back to position 1, behind the task that displaced it (B-CSM-4). */
static __always_inline void put_back(struct task_struct *p, struct rq_ctx *rq, s32 cpu, u64 slice,
				     bool quiet, u64 enq_flags)
{
	if (quiet) {	/* the task that displaced it is being picked, and leaves the head, unless a kernel thread is */
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice,
				   rq->late_tid == p->pid ? enq_flags : enq_flags | SCX_ENQ_HEAD);
		rq->late_tid = 0;
		return;
	}
	if (knobs_of(rq)->trace)
		record_put_back(p, cpu, rq->resume_key);
	note_key(rq, p->pid, rq->resume_key);
	if ((s64)(rq->resume_key - rq->credit_key) >= 0 && (s64)(rq->credit_limit - rq->resume_key) > 0)
		rq->credit_limit = rq->resume_key;	/* the next on credit goes ahead of it */
	insert(p, rq, cpu, slice, rq->resume_key, enq_flags);
}

/* A kthread that is_ahead_of_all(). The running task comes back to the head of the queue. */
__noinline int insert_kthread(struct task_struct *p __arg_trusted, s32 cpu, u64 enq_flags)
{
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = knobs_of(rq);
	struct task_struct *curr;
	struct task_ctx *cctx;

	stats_of(cpu, k->rule)[STAT_DIRECT]++;
	rq->late_tid = rq->resume_tid;
	curr = running_on(cpu, &cctx);
	if (curr && curr->pid != p->pid) {
		struct task_struct *head = scx_bpf_dsq_peek(cpu);
		u64 limit = head ? head->scx.dsq_vtime : rq->tail_key + 2 * spacing();

		displace(curr, rq, limit - spacing(), limit);	/* who comes to the head meanwhile is ahead of it */
	}
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, k->quantum_ns, enq_flags | SCX_ENQ_PREEMPT);
	return 0;
}

/* Charges and displaces the running task if it may be overtaken, or if not @ask. */
static __always_inline bool displace_running(struct task_struct *p, struct task_ctx *tctx, s32 cpu,
					     bool ask)
{
	const struct knobs *k = knobs_of(rq_of(cpu));
	struct placing *w = &rq_of(cpu)->w;
	u64 *st = stats_of(cpu, k->rule);
	struct task_struct *curr;
	struct task_ctx *cctx;

	curr = running_on(cpu, &cctx);
	if (!curr || curr->pid == p->pid)
		return false;
	if (ask) {
		fill_task(&w->running, curr, cctx, k, w->with_obs);
		note_running(k, curr, w);
		if (!may_pass(&w->env, &w->running, &w->h))
			return false;
		if (charges(&w->env)) {
			charge(cctx, tctx->job, st);
			note_overtaken(k, curr->pid);
		}
	}
	st[STAT_PREEMPT]++;
	displace(curr, rq_of(cpu), w->key, w->limit);
	if (rule_has(w->env.rule, R_DISPLACED_LAST) && w->env.cause != CAUSE_CREDIT)
		rq_of(cpu)->resume_slice = 0;	/* to the bottom (B-MO-3) */
	return true;
}

/* The running task as the record and R_SEES_RUNNING want it. */
static __always_inline void see_running(struct task_struct *p, s32 cpu, const struct knobs *k)
{
	struct placing *w = &rq_of(cpu)->w;
	struct task_struct *curr;
	struct task_ctx *cctx;

	curr = running_on(cpu, &cctx);
	if (!curr || curr->pid == p->pid)
		return;
	w->has_running = 1;
	fill_task(&w->running, curr, cctx, k, w->with_obs);
	note_running(k, curr, w);
}

#endif /* RUNNING_BPF_H */
