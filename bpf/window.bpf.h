/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The windows of gangs (gang.bpf.h): the clock that turns them, and what enqueue and
 * dispatch ask.
 */
#ifndef WINDOW_BPF_H
#define WINDOW_BPF_H

#include "set_quantum.h"
#include "turn.bpf.h"

#define GANG_EDGE	(100 * 1000ULL)	/* ns: a timer may come so much too early */

struct window_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct window_timer);
} window_timers SEC(".maps");

static int turn_window(void *map, u32 *key, struct window_timer *t);

/* The jobs' window, ns. */
static __always_inline u64 jobs_part(const struct knobs *k)
{
	bool even = k->set_quantum && !k->local_user && !k->slowed_jobs;

	return k->gang_ns * window_share(k->share_l, even) >> MES_SHIFT;
}

/* Set the window by the clock, and the timer to its end. TAI: nodes whose clocks agree turn together. */
static __always_inline void set_window(struct window_timer *t, const struct knobs *k)
{
	u64 period = k->gang_ns, part = jobs_part(k), at;

	at = (bpf_ktime_get_tai_ns() + GANG_EDGE) % period;
	window.now += is_jobs(window.now) == (at < part) ? 2 : 1;
	if (bpf_timer_start(&t->timer, (at < part ? part : period) - at + GANG_EDGE, 0))
		window.timed = 0;	/* the next dispatch tries again */
}

/* Begin the windows: a job has come to the node, or the timer could not be started the last time. */
__noinline int begin_windows(void)
{
	const struct knobs *k = knobs_now();
	u32 key = 0;
	struct window_timer *t = bpf_map_lookup_elem(&window_timers, &key);

	if (!t || __sync_lock_test_and_set(&window.timed, 1))
		return 0;
	/* -EBUSY, as ever after the first time, is as good */
	bpf_timer_init(&t->timer, &window_timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&t->timer, turn_window);
	set_window(t, k);
	return 0;
}

static __always_inline bool choose_by_window(struct task_struct *prev, s32 cpu, bool yields)
{
	if (!window.timed)
		begin_windows();
	if (prev)
		return goes_on_by_window(prev, cpu, yields);
	return choose_first(cpu);
}

/* p came to the queue of @cpu. Goes it first? Then the task that runs gives way, here or elsewhere. */
__noinline int gang_arrival(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull, s32 cpu)
{
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = knobs_of(rq);
	struct task_struct *curr, *head;
	u32 rank = rank_here(p, tctx, rq);
	struct task_ctx *cctx;
	u64 limit;

	if (!rank || rq->resume_tid)
		return 0;
	curr = gives_way(cpu, k, rq->window, rq->turn, rank);
	if (!curr) {
		if (cfg.nr_cpus > 1)
			call_another(p, cpu, rank);
		return 0;
	}
	head = scx_bpf_dsq_peek(cpu);
	limit = head ? head->scx.dsq_vtime : rq->tail_key + 2 * spacing();
	cctx = ctx_of(curr);
	if (cctx && cctx->passed_in != rq->window) {
		cctx->passed_in = rq->window;
		charge(cctx, tctx->job, stats_of(cpu, k->rule));
	}
	displace(curr, rq, limit - spacing(), limit);
	if (!stays_as_waker(p, rq, cpu, k))
		interrupt(cpu);
	return 0;
}

/* Has @cpu a task in its queue of the rank or more? */
static __always_inline s32 nr_in_order(s32 cpu, u32 rank)
{
	return rq_of(cpu)->ordered ? nr_first(cpu, window.now, window.turn, rank) : 0;
}

/*
 * The window has turned: CPUs whose task gives way to one of the rank @rank that waits choose anew, where that one
 * waits here, and as many more as it takes for those that wait elsewhere.
 */
__noinline int call_cpus(u32 rank)
{
	const struct knobs *k = knobs_now();
	s32 surplus = 0, cpu, n = cfg.nr_cpus, here;

	bpf_for(cpu, 0, n) {
		here = nr_in_order(cpu, rank);
		surplus += here;
		if (here && gives_way(cpu, k, window.now, window.turn, rank)) {
			interrupt(cpu);
			surplus--;
		}
	}
	bpf_for(cpu, 0, n) {
		if (surplus <= 0)
			break;
		if (!gives_way(cpu, k, window.now, window.turn, rank) || nr_in_order(cpu, rank))
			continue;
		if (!rq_of(cpu)->ordered)
			leave_quiet(cpu);
		interrupt(cpu);
		surplus--;
	}
	return 0;
}

static int turn_window(void *map, u32 *key, struct window_timer *t)
{
	const struct knobs *k = knobs_now();

	if (!has_gangs(k)) {
		window.timed = 0;
		return 0;
	}
	set_window(t, k);
	if (is_jobs(window.now))
		choose_turn();
	call_cpus(RANK_FIRST);
	if (window.turn)
		call_cpus(RANK_FILL);
	return 0;
}

#endif /* WINDOW_BPF_H */
