/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Messages for tasks that wait in a ready queue (SDCA, Monito Alg. 2): told by
 * the socket, done by the dispatch of the task's CPU.
 *
 * Dispatch runs with the CPU's rq lock held and interrupts off, so its work is
 * bounded, however long the queue is and however many messages came. A task is
 * looked for among the last LOOKS of the queue only; one further ahead stays
 * where it is, and is counted. One dispatch handles one message. If others wait, it
 * interrupts the task to which it gives the CPU, and the next dispatch comes at once.
 * Nor does the end of a quantum, which may ask the whole queue, or the opening of a gap
 * share a dispatch with a message: they have the one that follows. A quantum's end waits
 * for as many messages as there are slots, and then goes first.
 */
#ifndef MESSAGE_BPF_H
#define MESSAGE_BPF_H

#include "epoch.bpf.h"

#define MSG_MARGIN	8	/* free slots below which the running task is interrupted for them */

/* Let the queued task @p rise from its place. Returns whether it takes the CPU. */
__noinline int rise(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull, s32 cpu)
{
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = knobs_of(rq);
	struct placing *w;
	enum insert_plan plan;
	bool preempt = false;

	if (k->trace)
		record_begin(cpu, p->pid);
	w = prepare(p, tctx, cpu, CAUSE_MESSAGE, k, false);
	w->key = p->scx.dsq_vtime;
	plan = make_plan(p, w, rq, cpu, k);
	if (plan == PLAN_TOP) {
		place_head(rq, w, cpu);
		tctx->in_order = 0;
	} else if (plan == PLAN_WALK) {
		walk_queue(cpu, tctx->job, p->pid);
		if (!w->seen) {
			stats_of(cpu, k->rule)[STAT_FAR]++;
			return 0;	/* nothing is decided, so nothing is recorded */
		}
		place_walked(rq, w, p->pid);
	}
	if (w->head)
		preempt = displace_running(p, tctx, cpu, plan != PLAN_TOP);
	count_insertion(w, stats_of(cpu, k->rule), plan);
	stats_of(cpu, k->rule)[STAT_MESSAGE]++;
	if (w->key != p->scx.dsq_vtime)
		move_queued(p, cpu, cpu, w->key, 0);
	if (k->trace)
		record_end(cpu, preempt);
	return preempt;
}

/* A message arrived for the task @tid while it was queued here. */
__noinline int reinsert(u32 tid, s32 cpu)
{
	struct task_struct *p = bpf_task_from_pid(tid);
	struct task_ctx *tctx;
	int preempt = 0;
	bool waited;

	if (!p)
		return 0;
	tctx = ctx_of(p);
	if (tctx) {
		waited = tctx->waiting;
		tctx->msg_pending = 0;
		tctx->waiting = 0;
		if (scx_bpf_task_cpu(p) == cpu && is_parallel(tctx, knobs_of(rq_of(cpu)))) {
			if (in_ready_queue(p))
				preempt = rise(p, tctx, cpu);
			else if (waited && in_expired(p, cpu))
				preempt = come_back(p, tctx, cpu, CAUSE_WAKE) > 0;
		}
	}
	bpf_task_release(p);
	return preempt;
}

/* The rest of @prev's quantum, ns, if a message took it off the CPU; else 0. */
static __always_inline u64 rest_of_interrupted(const struct rq_ctx *rq, struct task_struct *prev)
{
	struct task_ctx *tctx;
	s64 rest;

	if (!prev || !is_queued_or_runs(prev) || rq->rest_tid != prev->pid)
		return 0;
	tctx = rq->lent ? ctx_of(prev) : NULL;
	if (tctx && borrows(tctx, knobs_of(rq)))
		return 0;
	rest = rq->quantum_end - prev->se.sum_exec_runtime;
	return rest > 0 ? rest : 0;
}

/* @curr is to be interrupted: keep aside when its quantum ends. */
static __always_inline void keep_rest(struct rq_ctx *rq, const struct task_struct *curr, u64 rest)
{
	rq->quantum_end = curr->se.sum_exec_runtime + rest;
	rq->rest_tid = curr->pid;
}

/* The next message's task; 0: none, or its slot is counted but not written yet: the kick for it comes. */
static __always_inline u32 next_message(struct rq_ctx *rq, s32 cpu, u32 w)
{
	u32 tid;

	if (w - rq->msg_r > MSG_SLOTS) {
		stats_of(cpu, knobs_of(rq)->rule)[STAT_MSG_LOST] += w - rq->msg_r - MSG_SLOTS;
		rq->msg_r = w - MSG_SLOTS;
	}
	tid = __sync_lock_test_and_set(&rq->msg_tid[rq->msg_r & (MSG_SLOTS - 1)], 0);
	if (tid)
		rq->msg_r++;
	return tid;
}

/* Other messages wait: whoever leaves the queue now is interrupted for them, and keeps its quantum. */
static __always_inline void interrupt_next(struct rq_ctx *rq, s32 cpu)
{
	struct task_struct *head = scx_bpf_dsq_peek(cpu);

	if (head)
		keep_rest(rq, head, head->scx.slice);
	interrupt(cpu);
}

/* Handle one message for a queued task. Returns whether @prev, which it interrupted, has the CPU until the next dispatch. */
static __noinline int handle_message(s32 cpu, struct task_struct *prev)
{
	struct rq_ctx *rq = rq_of(cpu);
	u64 rest = rest_of_interrupted(rq, prev);
	u32 w = rq->msg_w, tid;
	bool displaced;

	rq->rest_tid = 0;
	if (rq->msg_late == MSG_SLOTS) {
		/* other CPUs send faster than this one handles */
		stats_of(cpu, knobs_of(rq)->rule)[STAT_MSG_LATE]++;
		rq->msg_late = 0;
		return false;
	}
	tid = next_message(rq, cpu, w);
	if (rest)
		scx_bpf_task_set_slice(prev, rest);
	rq->w.looked = 0;
	displaced = tid && reinsert(tid, cpu);
	if (displaced || !prev || !is_queued_or_runs(prev)) {
		rq->msg_late = 0;
		if (displaced && rest)
			scx_bpf_task_set_slice(prev, 0);
		if (tid && rq->msg_r != w)
			interrupt_next(rq, cpu);
		return false;
	}
	if (!tid || (rest && rq->msg_r == w))
		return rest > 0;
	rq->msg_late += !rest;
	/* for the next message, or for the end of its quantum; interrupts have their turn before that dispatch */
	interrupt(cpu);
	if (rest)
		keep_rest(rq, prev, rest);
	scx_bpf_task_set_slice(prev, rest ? rest : MIN_SLICE_NS);
	return true;
}

/*
 * Data reached a socket. If its owner waits in a ready queue, tell that CPU: it
 * is interrupted, or its running task, which has sent the data, goes on for a while
 * (is_by_running), and dispatch re-inserts the task. When the quantum of the task
 * that is interrupted ends is kept aside; dispatch gives it back its rest.
 */
SEC("fentry/sock_def_readable")
int BPF_PROG(on_arrival, struct sock *sk)
{
	const struct knobs *k = knobs_now();
	struct sock_obs *so;
	struct task_struct *p, *curr;
	struct task_ctx *tctx;
	struct rq_ctx *rq;
	u32 slot, tid;
	s32 cpu;

	if (!k->reinsert || !any_parallel(k) || !rule_has(k->rule, R_REINSERTS))
		return 0;
	if (!sk->sk_bpf_storage)
		return 0;
	so = bpf_sk_storage_get(&socks, sk, 0, 0);
	if (!so || !(tid = sock_tid(so)))
		return 0;
	p = bpf_task_from_pid(tid);
	if (!p)
		return 0;
	tctx = ctx_of(p);
	if (!tctx || !is_parallel(tctx, k) || tctx->msg_pending)
		goto out;
	cpu = scx_bpf_task_cpu(p);
	if (!in_ready_queue(p) && !(tctx->waiting && in_expired(p, cpu)))
		goto out;
	/*
	 * spin-block wakes blocked tasks and leaves ready ones in place (Monito
	 * sec. 1); prio and order do not ask for messages
	 */
	if (rule_has(k->rule, R_WAITERS_ONLY) && !tctx->waiting &&
	    !(rule_has(k->rule, R_POLLERS_WAIT) && was_polling(p, tctx)))
		goto out;
	tctx->msg_pending = 1;
	rq = rq_of(cpu);
	slot = __sync_fetch_and_add(&rq->msg_w, 1);
	rq->msg_tid[slot & (MSG_SLOTS - 1)] = tid;
	curr = scx_bpf_cpu_curr(cpu);
	if (curr && curr->scx.slice && is_queued_or_runs(curr))
		keep_rest(rq, curr, curr->scx.slice);
	/* the sensor, whose program comes after this one, counts the message: an interrupt in here would be too early */
	if (slot - rq->msg_r >= MSG_SLOTS - MSG_MARGIN || !is_by_running(cpu))
		interrupt(cpu);
out:
	bpf_task_release(p);
	return 0;
}

#endif /* MESSAGE_BPF_H */
