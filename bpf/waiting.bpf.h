/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ranks that spin. The papers' tasks block when there is no message (Monito
 * sec. 2.2, spin-block). Ranks of today's MPI libraries poll and yield until one
 * comes, and would use up a quantum each time. A task of a job
 * waits, as far as we are concerned, when it has sent and received nothing for
 * spin_ms of its CPU time, others want the CPU, and it
 *
 *   yields: sched_yield() says that it has nothing to do. Before those spin_ms
 *     are over, and before it has said so YIELDS times in a turn, it is not
 *     believed: UCX yields between reading a request and sending the answer; or
 *   has polled that long (epoll, poll, select, to no avail) without computing
 *     in between: a poll every POLL_PAUSE in the mean. One that computes and
 *     looks now and then does not wait.
 *
 * It then gives up the rest of its quantum and goes to the tail, overtakes
 * nobody, and keeps its mes: nothing was sampled that a blocked task would
 * have been sampled for. At its next turn the first poll, or the next YIELDS
 * yields, decide again. A message ends it: in the ready queue by re-insertion
 * (SDCA, where the rule and the knob reinsert have that), on the CPU because
 * its levels move, and between the two because they have moved since its last
 * poll (was_answered()). Of a task that has no socket, or without the sensor, nothing
 * is known: its yields are what they are everywhere, and its polls too.
 *
 * The papers' sp is one or two context switches, 10 us (B-MO-10, B-CCS-25); a
 * task that blocks wakes as soon, but ours comes back with a turn: 2 ms.
 *
 * Ranks of one node talk through shared memory: no message is seen and their
 * levels do not move, so they wait as soon as they yield YIELDS times.
 */
#ifndef WAITING_BPF_H
#define WAITING_BPF_H

#include "insert.bpf.h"

#define YIELDS		3			/* one or two may come between a request and its answer */
#define POLL_PAUSE_MAX	(1 * NSEC_PER_MSEC)	/* CPU time between two polls of one wait, at most */
#define POLL_PAUSE	(50 * 1000ULL)		/* ns of CPU time between two polls of one wait, in the mean */
#define KICK_AFTER	(100 * 1000ULL)		/* ns until a task that waits is taken off its CPU; emulators need as much */

/* CPU time of the running task, as of now. */
static __always_inline u64 exec_now(const struct task_struct *curr)
{
	s64 ran = scx_bpf_now() - curr->se.exec_start;

	return curr->se.sum_exec_runtime + (ran > 0 ? ran : 0);
}

/* The context of a task whose waiting can be seen, else NULL. */
static __always_inline struct task_ctx *seen_waiting(struct task_struct *p, const struct knobs *k)
{
	struct task_ctx *tctx;

	if (!k->sensors || !k->spin_ns || !any_parallel(k))
		return NULL;
	tctx = ctx_of(p);
	return tctx && is_parallel(tctx, k) ? tctx : NULL;
}

/* Nothing sent, nothing received since spin_ns of its CPU time? */
static __always_inline bool is_still(struct task_ctx *tctx, const struct obs *o, u64 exec,
				     const struct knobs *k)
{
	if (o->moved != tctx->moved) {
		tctx->moved = o->moved;
		tctx->still_since = exec;
	}
	return exec - tctx->still_since >= k->spin_ns;
}

/* The task gives up its quantum: until it is inserted, gave_up says so. */
static __always_inline void give_up(struct task_ctx *tctx, u64 exec, s32 cpu, const struct knobs *k)
{
	tctx->waiting = 1;
	tctx->gave_up = exec;
	tctx->yields = 0;
	stats_of(cpu, k->rule)[STAT_WAIT]++;
}

/* The task slept, or used up its quantum: from now on it must be seen waiting anew. */
static __always_inline void begin_turn(struct task_ctx *tctx)
{
	tctx->waiting = 0;
	tctx->yields = 0;
}

/* Did p give its quantum up just now, rather than use it up? */
static __always_inline bool has_given_up(const struct task_struct *p, const struct task_ctx *tctx)
{
	return tctx->waiting && p->se.sum_exec_runtime < tctx->gave_up + POLL_PAUSE_MAX;
}

/* Was a vain poll the last that this task did? Then it was taken off the CPU before it was seen to wait. */
static __always_inline bool was_polling(const struct task_struct *p, const struct task_ctx *tctx)
{
	return tctx->polled && (s64)(p->se.sum_exec_runtime - tctx->polled) < (s64)POLL_PAUSE_MAX;
}

/* Has a message come since p was seen to wait? on_arrival does not tell: p was not queued yet. */
static __always_inline bool was_answered(const struct task_struct *p, const struct task_ctx *tctx)
{
	u32 tid = p->pid;
	struct obs *o = bpf_map_lookup_elem(&obs, &tid);

	return o && o->moved != tctx->moved;
}

/* Dispatch asks of a task that ran and can go on: does it keep the CPU? */
__noinline int goes_on(struct task_struct *prev __arg_trusted, s32 cpu)
{
	const struct knobs *k = knobs_of(rq_of(cpu));
	struct task_ctx *tctx = ctx_of(prev);

	if (!tctx || !is_parallel(tctx, k) || rq_of(cpu)->resume_tid == prev->pid)
		return 0;
	if (has_given_up(prev, tctx))
		return 0;
	if (has_epochs(k) && settle_quantum(prev, tctx, cpu) < (s64)MIN_SLICE_NS)
		return 0;
	begin_turn(tctx);
	return rises_on_expiry(k->rule) && keeps_cpu(prev, tctx, cpu);
}

/* One for each CPU: it takes the CPU from the task @tid. */
struct kick_timer {
	struct bpf_timer timer;
	u32 tid;	/* 0: it is not under way */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct kick_timer);
} kick_timers SEC(".maps");

/*
 * Take the CPU from the task that waits, unless it is in a BPF program: there
 * it would hold up RCU, and the program for all others of its CPU, for as long
 * as it is queued.
 */
static int take_cpu(void *map, u32 *cpu, struct kick_timer *t)
{
	struct task_struct *curr = scx_bpf_cpu_curr(*cpu);
	struct task_ctx *tctx = curr && curr->pid == t->tid ? ctx_of(curr) : NULL;

	if (tctx && tctx->waiting && curr->migration_disabled) {
		bpf_timer_start(&t->timer, KICK_AFTER, BPF_F_TIMER_CPU_PIN);
		return 0;
	}
	t->tid = 0;
	if (tctx && tctx->waiting && !was_answered(curr, tctx)) {
		give_up(tctx, exec_now(curr), *cpu, knobs_now());
		interrupt(*cpu);
	}
	return 0;
}

static __always_inline void take_cpu_soon(u32 cpu, u32 tid)
{
	struct kick_timer *t = bpf_map_lookup_elem(&kick_timers, &cpu);

	if (!t || t->tid)
		return;
	t->tid = tid;
	/* -EBUSY, as ever after the first time, is as good */
	bpf_timer_init(&t->timer, &kick_timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&t->timer, take_cpu);
	if (bpf_timer_start(&t->timer, KICK_AFTER, BPF_F_TIMER_CPU_PIN))
		t->tid = 0;	/* the next poll tries again */
}

/* A poll found nothing: has the task been doing nothing else? Then the CPU is for others. */
static __always_inline void end_polling(void)
{
	const struct knobs *k = knobs_now();
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *tctx = seen_waiting(p, k);
	u32 cpu = bpf_get_smp_processor_id(), tid;
	struct obs *o;
	u64 exec, spun;

	if (!tctx)
		return;
	tid = p->pid;
	o = bpf_map_lookup_elem(&obs, &tid);
	exec = exec_now(p);
	if (!o || !o->socks || !is_still(tctx, o, exec, k) || exec - tctx->polled > POLL_PAUSE_MAX) {
		tctx->waiting = 0;
		tctx->poll_since = exec;
		tctx->polls = 0;
	}
	tctx->polled = exec;
	tctx->polls++;
	spun = exec - tctx->poll_since;
	if (spun >= k->spin_ns) {
		tctx->waiting = tctx->polls > spun / POLL_PAUSE;
		tctx->poll_since = exec;
		tctx->polls = 0;
	}
	if (tctx->waiting && nr_waiting(cpu))
		take_cpu_soon(cpu, tid);
}

SEC("fexit/do_epoll_wait")
int BPF_PROG(on_epoll, int epfd, void *events, int most, void *timeout, int found)
{
	if (!found)
		end_polling();
	return 0;
}

SEC("fexit/do_sys_poll")
int BPF_PROG(on_poll, void *fds, unsigned int nr, void *timeout, int found)
{
	if (!found)
		end_polling();
	return 0;
}

SEC("fexit/core_sys_select")
int BPF_PROG(on_select, int nr, void *in, void *out, void *except, void *timeout, int found)
{
	if (!found)
		end_polling();
	return 0;
}

#endif /* WAITING_BPF_H */
