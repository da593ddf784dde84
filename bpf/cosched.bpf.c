/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cosched: the papers' coscheduling policies as a sched_ext scheduler.
 *
 * Guarantees
 *   Each CPU has one ready queue, RQ, in the order the papers' insert_RQ gives
 *   it (insert_rq.h). The running task is RQ[0]. A task that reaches RQ is
 *   placed behind the first task, seen from the tail, that it may not
 *   overtake; walks overtake no task more than MNO times per stay. Tops and
 *   credit charge nobody: top_ms bounds how long they keep others waiting.
 *   Tasks leave from the head only.
 *
 * The life of a task
 *   wakes or is forked -> select_cpu: an idle CPU takes it at once (RQ was
 *     empty), else
 *   -> enqueue: insert_RQ into the queue of its CPU. If it may overtake the
 *     running task as well, that one is displaced: it goes to position 1 with
 *     the rest of its quantum and its de (B-CSM-4, B-CSM-12).
 *   -> dispatch: the head moves to the CPU. A task whose quantum ended and
 *     that may overtake the whole queue, or belongs on top of it, keeps the
 *     CPU, and every task that it overtook is charged: the same as inserting it
 *     first and dispatching then.
 *   -> blocks, or its quantum ends, or it is seen to wait (waiting.bpf.h)
 *     -> enqueue; its quantum of this epoch used up, it waits there for the next
 *     epoch, and then comes back through insert_RQ.
 *   A message that arrives for a queued task (on_arrival) interrupts the CPU;
 *   dispatch then lets the task rise from its place (SDCA, Monito Alg. 2).
 *
 * Local tasks
 *   Append at the tail, as printed. With the knob credit on, a local task that
 *   slept more than it ran, or left much of its turn, goes behind its like and
 *   ahead of all others, and displaces a running task that has no credit (CCS
 *   sec. 4.4, B-CCS-31). nice scales the quantum of a local task by its weight
 *   (within 1/16 and 8 times), but never below Def_Q for a kernel thread.
 *
 * Several CPUs
 *   When a quantum ends, the head of a longer queue goes first, or the task goes to
 *   a shorter one (balance.bpf.h). An idle CPU takes what waits.
 *
 * Rule prio
 *   Tasks of jobs go ahead of all local ones, first come, first served among
 *   themselves, and displace a local task that runs. After starve_ms without a
 *   turn of a local task, the queued local tasks are passed no more: they run
 *   after the tasks ahead of them at that time. Nor is a local task passed that
 *   has been queued for a quarter of the watchdog's limit, so that the watchdog
 *   does not end the scheduler. Kernel threads that wake go ahead of everything.
 *
 * Rule order
 *   Among tasks of jobs, those go first whose job is first in the queue of jobs,
 *   as the agent says (policy fit); they displace a task of a later job. A task
 *   that has been queued for starve_ms is passed no more. Local tasks are passed
 *   by nobody.
 *
 * The social contract
 *   With set_quantum, a quantum is Def_Q / W, and that times L for the tasks of
 *   a job while a local user is present here or on another node that holds the
 *   job (CCS Alg. 2). The agent says whether a user is present, and where.
 *   With epochs, a task has one quantum in each epoch of its ready queue, and
 *   waits for the next one beside the queue once that is used (epoch.bpf.h).
 *
 *   There are two contracts. contract=queue, the papers': all tasks are
 *   sched_ext tasks and stand in one ready queue. contract=class: the scheduler
 *   is loaded in partial mode, and only tasks of jobs are sched_ext tasks. Local
 *   tasks stay on the kernel's own scheduler, which runs them first; the
 *   kernel's deadline server leaves jobs L of each CPU (class.bpf.h,
 *   ctl/kernel/ext_server.py).
 *
 * Example: csm, memory fits, MNO 2, mes in brackets, queue head first:
 *   A(9) runs | B(4) C(0 local, de=1)    E(6) wakes: passes C (de=2), passes B
 *   (de=1), may not pass A:   A | E B C. The next F(7) passes nobody: C is
 *   protected, F stays behind it.
 *
 * Limits
 *   The scheduler never holds back a runnable task: the freezer stops jobs. Tops
 *   and credits that follow each other without end would starve the other tasks
 *   and call the kernel's watchdog; after top_ms they take the tail until a task
 *   from the queue's regular order has run, and each such denial is counted.
 */
#include "balance.bpf.h"
#include "class.bpf.h"
#include "insert.bpf.h"
#include "joins.bpf.h"
#include "message.bpf.h"
#include "quiet.bpf.h"
#include "slurm.bpf.h"
#include "waiting.bpf.h"
#include "window.bpf.h"

char LICENSE[] SEC("license") = "GPL";

s32 SCX_OP(cosched_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);

	if (idle) {
		const struct knobs *k = knobs_now();
		struct task_ctx *tctx = any_parallel(k) ? ctx_of(p) : NULL;

		if (tctx) {
			begin_turn(tctx);
			update_mes(p, tctx, k);
		}
		stats_of(cpu, k->rule)[STAT_DIRECT]++;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_of(p, k), 0);
	}
	return cpu;
}

/* Back from the CPU, which another task took: to its place, with @rest ns of its quantum and its de (B-CSM-12). */
static __always_inline void resume(struct task_struct *p, struct task_ctx *tctx, s32 cpu,
				   const struct knobs *k, u64 rest, bool quiet, u64 enq_flags)
{
	tctx->credited = 0;
	tctx->waiting = has_given_up(p, tctx);
	tctx->exec_at_queue = p->se.sum_exec_runtime;
	note_queued(tctx, k);
	put_back(p, rq_of(cpu), cpu, rest, quiet, enq_flags);
}

/*
 * A stay in RQ begins on a wake-up and when p comes from the CPU (B-CSM-12); so may a
 * turn. p keeps the credit on which it came if it comes from quiet mode's queue.
 */
static __always_inline void account(struct task_struct *p, struct task_ctx *tctx,
				    const struct knobs *k, bool woke, u64 enq_flags)
{
	if (woke || tctx->exec_at_queue != p->se.sum_exec_runtime) {
		tctx->de = 0;
		tctx->de_epoch = job_epoch;
		note_queued(tctx, k);
	}
	tctx->exec_at_queue = p->se.sum_exec_runtime;
	if (woke || !has_given_up(p, tctx) || was_answered(p, tctx))
		begin_turn(tctx);
	if (!(enq_flags & SCX_ENQ_REENQ))
		tctx->credited = 0;
	tctx->msg_pending = 0;
}

/* Why does p reach RQ? Sleeper credit is a cause of its own. */
static __always_inline u32 classify(struct task_struct *p, struct task_ctx *tctx, s32 cpu,
				    const struct knobs *k, bool woke)
{
	if (tctx->fresh) {
		tctx->fresh = 0;
		return CAUSE_FORK;
	}
	if (!woke)
		return tctx->credited && credit_left(p, tctx) > 0 ? CAUSE_CREDIT : CAUSE_EXPIRE;
	if (is_parallel(tctx, k) || !has_credit(p, tctx, rq_of(cpu), k, cpu))
		return CAUSE_WAKE;
	tctx->credited = 1;
	return CAUSE_CREDIT;
}

/* Dispatch asked already: p may not pass the tail, which is still the same. */
static __always_inline bool stays_behind(const struct task_struct *p, struct rq_ctx *rq, u32 cause)
{
	if (rq->behind_tid != p->pid)
		return false;
	rq->behind_tid = 0;
	return cause == CAUSE_EXPIRE && rq->behind_key == rq->tail_key;
}

/* insert_RQ, or the plain append of a local task that nobody records. */
static __always_inline void place(struct task_struct *p, struct task_ctx *tctx, s32 cpu,
				  const struct knobs *k, u32 cause, u64 enq_flags)
{
	struct rq_ctx *rq = rq_of(cpu);
	bool behind = stays_behind(p, rq, cause);
	u64 *st, key;

	if (!behind && (tctx->job || tctx->credited || k->trace || k->classify == CLASSIFY_MES)) {
		insert_rq(p, tctx, cpu, cause, enq_flags);
		return;
	}
	st = stats_of(cpu, k->rule);
	st[STAT_INSERT]++;
	st[STAT_APPEND]++;
	tctx->in_order = 1;
	rq->tail_key = key = rq->tail_key + spacing();
	rq->tail_tid = p->pid;
	insert(p, rq, cpu, turn_of(p, tctx, k), key, enq_flags);
}

void SCX_OP(cosched_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = begin_decision(rq);
	bool woke = enq_flags & SCX_ENQ_WAKEUP, quiet = is_quiet(rq, cpu, k);
	struct task_ctx *tctx;
	bool came;
	u64 rest;

	if (is_ahead_of_all(p, k, woke)) {
		insert_kthread(p, cpu, enq_flags);
		return;
	}
	rest = was_displaced(p, rq, woke);
	if (enq_flags & SCX_ENQ_REENQ)
		stay_in_order(rq);
	if (quiet && !rest && !(enq_flags & SCX_ENQ_REENQ)) {
		tctx = any_parallel(k) || woke || rq->streak ? ctx_of(p) : NULL;
		if (!any_parallel(k) || !meets_job(tctx, cpu, woke)) {
			bool ended = cfg.nr_cpus > 1 && !woke && !p->scx.slice;

			enqueue_quiet(p, tctx, rq, cpu, ended ? push_to(p, cpu) : cpu, k, enq_flags);
			goto out;
		}
		if (end_quiet(p, tctx, rq, cpu, k, enq_flags))
			goto out;
	}
	tctx = ctx_of(p);
	if (!tctx) {
		scx_fail("no task storage for task %d: load again", p->pid);
		return;
	}
	if (tctx->in_order)
		rq->streak = 0;
	if (enq_flags & SCX_ENQ_REENQ)
		woke = tctx->woke;
	tctx->woke = 0;
	came = woke || tctx->fresh;
	if (rest) {
		resume(p, tctx, cpu, k, rest, quiet, enq_flags);
	} else {
		account(p, tctx, k, woke, enq_flags);
		if (waits_for_epoch(p, tctx, rq, cpu, k, woke)) {
			expire(p, tctx, rq, cpu, k, enq_flags, woke && !is_parallel(tctx, k));
		} else {
			place(p, tctx, cpu, k, classify(p, tctx, cpu, k, woke), enq_flags);
			end_borrowing(rq, cpu);
			if (came && has_gangs(k))
				gang_arrival(p, tctx, cpu);
		}
	}
out:
	if (!woke)
		wake_idle_cpu(p, rq);
}

void SCX_OP(cosched_dispatch, s32 cpu, struct task_struct *prev)
{
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = begin_decision(rq);
	bool goes = prev && is_queued_or_runs(prev), yields = goes && rq->yielded == prev->pid;

	rq->yielded = 0;
	/* a displaced task comes here first; if another does, it blocked before it could be put back */
	if (rq->resume_tid && !(prev && prev->pid == rq->resume_tid && is_queued_or_runs(prev)))
		rq->resume_tid = 0;
	if (rq->msg_r != rq->msg_w) {
		if (handle_message(cpu, prev))
			return;
	} else {
		rq->msg_late = 0;
		if (rq->gap && !rq->resume_tid)
			open_gap(cpu);
	}
	if (rq->expired)
		roll_over(prev, cpu);
	if (has_gangs(k) && choose_by_window(goes ? prev : NULL, cpu, yields))
		return;
	if (prev && any_parallel(k) && is_queued_or_runs(prev) && goes_on(prev, cpu))
		return;
	/* one who yields would ask other CPUs again and again */
	if (cfg.nr_cpus > 1 && goes && !yields && !prev->scx.slice && busy.nr && pull(cpu))
		return;
	if (rq->ordered && may_become_quiet(prev, rq, cpu, k)) {
		if (become_quiet(cpu, any_parallel(k) ? QUIET_BATCH : QUIET_CROWD))
			return;
	} else if (rq->ordered) {
		if (rule_has(k->rule, R_BY_CLASS))
			note_turn(cpu, k);
		if (scx_bpf_dsq_move_to_local(cpu))
			return;
		rq->ordered = rq->expired;
	}
	if ((rq->expired || has_epochs(k)) && fill_cpu(prev, cpu) && rq->expired)
		return;
	if (cfg.nr_cpus < 2)
		return;
	mark_empty(rq);
	/* one whose only task goes on has asked as its quantum ended */
	if (busy.nr && !(prev && is_queued_or_runs(prev)))
		steal(cpu);
}

/*
 * Did p displace itself, by a wake-up or a message, and go on (is_by_running)? Then it
 * is over now. A task that may be in a BPF program, however, goes on until the next tick:
 * where it leaves the CPU there, the kernel passes the program over for all others.
 */
void SCX_OP(cosched_tick, struct task_struct *p)
{
	struct rq_ctx *rq = rq_of(bpf_get_smp_processor_id());
	const struct knobs *k = knobs_now();
	struct task_ctx *tctx = k->sensors && has_gangs(k) ? ctx_of(p) : NULL;

	if (tctx && tctx->job)
		note_work(tctx, exec_now(p));
	if (p->scx.slice && rq->resume_tid != p->pid && rq->msg_r == rq->msg_w)
		return;
	/* this program counts for one */
	scx_bpf_task_set_slice(p, p->migration_disabled > 1 ? MIN_SLICE_NS : 0);
}

/* sched_yield() by @from: without this op, and for all others, its slice would be over. */
bool SCX_OP(cosched_yield, struct task_struct *from, struct task_struct *to)
{
	const struct knobs *k = knobs_now();
	s32 cpu = scx_bpf_task_cpu(from);
	struct task_ctx *tctx;
	struct obs *o;
	u32 tid = from->pid;
	u64 exec;

	if (to)
		return false;
	tctx = seen_waiting(from, k);
	o = tctx ? bpf_map_lookup_elem(&obs, &tid) : NULL;
	if (tctx && tctx->job && has_gangs(k))
		note_work(tctx, exec_now(from));
	if (tctx && o && o->socks && nr_waiting(cpu) && !(has_gangs(k) && waits_for_sibling(tctx, o))) {
		exec = exec_now(from);
		if (!is_still(tctx, o, exec, k) || ++tctx->yields < YIELDS) {
			tctx->waiting = 0;
			return false;
		}
		give_up(tctx, exec, cpu, k);
	}
	rq_of(cpu)->yielded = tid;
	rq_of(cpu)->rest_tid = 0;	/* a message that has interrupted it gives it back nothing */
	scx_bpf_task_set_slice(from, 0);
	return false;
}

s32 SCX_OP(cosched_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *tctx;
	u64 job;

	tctx = bpf_task_storage_get(&task_ctxs, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!tctx)
		return -ENOMEM;
	/* the object may have been attached before, when the task lived, too */
	__builtin_memset(tctx, 0, sizeof(*tctx));
	tctx->fresh = 1;
	tctx->in_order = 1;
	tctx->exec_at_credit = p->se.sum_exec_runtime;
	if (args->fork)
		share_quantum(p, tctx, knobs_now());
	job = job_of(args->cgroup);
	join_job(tctx, job ? job : slurm_job_of(args->cgroup));
	return 0;
}

void SCX_OP(cosched_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_ctx *tctx = ctx_of(p);

	if (tctx) {
		return_quantum(p, tctx, knobs_now());
		join_job(tctx, 0);
	}
}

void SCX_OP(cosched_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct task_ctx *tctx = ctx_of(p);
	u64 job = job_of(to);
	bool ours = job;

	if (!ours)
		job = slurm_job_of(to);
	/* under contract=class the agent changes the class of tasks that come and of those that go */
	if ((job && !ours) || (cfg.partial && tctx && (job || tctx->job)))
		announce_join(p, job);
	if (tctx)
		join_job(tctx, job);
}

void SCX_OP(cosched_cgroup_exit, struct cgroup *cgrp)
{
	u64 id = BPF_CORE_READ(cgrp, kn, id);

	bpf_map_delete_elem(&jobs, &id);
	bpf_map_delete_elem(&job_states, &id);
	bpf_map_delete_elem(&job_places, &id);
	bpf_map_delete_elem(&jobs_here, &id);
}

/* Limits and weights are the fair class's. Nothing is done about them here; people are told. */
void SCX_OP(cosched_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	announce_limit(cgrp);
}

void SCX_OP(cosched_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us, u64 burst_us)
{
	announce_limit(cgrp);
}

void SCX_OP(cosched_cgroup_set_idle, struct cgroup *cgrp, bool idle)
{
	announce_limit(cgrp);
}

/* Hotplug: the kernel empties the queue of a CPU that goes. */
void SCX_OP(cosched_cpu_online, s32 cpu)
{
	rq_of(cpu)->inactive = 0;
}

void SCX_OP(cosched_cpu_offline, s32 cpu)
{
	rq_of(cpu)->inactive = 1;
	mark_empty(rq_of(cpu));
}

s32 SCX_OP_SLEEPABLE(cosched_init)
{
	u32 cpu, n = cfg.nr_cpus;
	s32 err = 0;

	bpf_for(cpu, 0, n) {
		err = scx_bpf_create_dsq(cpu, -1);
		if (!err)
			err = scx_bpf_create_dsq(EXPIRED(cpu), -1);
		if (err)
			break;
	}
	return err;
}

void SCX_OP(cosched_exit, struct scx_exit_info *ei)
{
	exit_record.kind = ei->kind;
	exit_record.code = ei->exit_code;
	bpf_probe_read_kernel_str(exit_record.reason, sizeof(exit_record.reason), ei->reason);
	bpf_probe_read_kernel_str(exit_record.msg, sizeof(exit_record.msg), ei->msg);
	bpf_probe_read_kernel_str(exit_record.dump, sizeof(exit_record.dump), ei->dump);
	exit_record.recorded = 1;
}

SEC(".struct_ops.link")
struct sched_ext_ops cosched = {
	.select_cpu	= (void *)cosched_select_cpu,
	.enqueue	= (void *)cosched_enqueue,
	.dispatch	= (void *)cosched_dispatch,
	.yield		= (void *)cosched_yield,
	.tick		= (void *)cosched_tick,
	.running	= (void *)cosched_running,	/* contract=class only: the loader takes it out else */
	.init_task	= (void *)cosched_init_task,
	.exit_task	= (void *)cosched_exit_task,
	.cgroup_move	= (void *)cosched_cgroup_move,
	.cgroup_exit	= (void *)cosched_cgroup_exit,
	.cgroup_set_weight = (void *)cosched_cgroup_set_weight,
	.cgroup_set_bandwidth = (void *)cosched_cgroup_set_bandwidth,
	.cgroup_set_idle = (void *)cosched_cgroup_set_idle,
	.cpu_online	= (void *)cosched_cpu_online,
	.cpu_offline	= (void *)cosched_cpu_offline,
	.init		= (void *)cosched_init,
	.exit		= (void *)cosched_exit,
	.timeout_ms	= 30000,
	.exit_dump_len	= 32768,
	.name		= "cosched",
};
