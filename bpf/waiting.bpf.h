/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ranks that spin. The papers' tasks block when there is no message (Monito
 * sec. 2.2, spin-block); those of today's MPI libraries poll and yield for as
 * long as it takes, and would use up a quantum each time. A task of a job
 * waits, as far as we are concerned, when it has sent and received nothing for
 * spin_ms of its CPU time, and
 *
 *   yields: sched_yield() says that it has nothing to do. Before those spin_ms
 *     are over it is not believed: UCX yields between reading a request and
 *     sending the answer; or
 *   has polled that long (epoll, poll, select, to no avail) without computing
 *     in between: a poll every POLL_PAUSE in the mean. One that computes and
 *     looks now and then does not wait.
 *
 * It then gives up the rest of its quantum and goes to the tail, overtakes
 * nobody, and keeps its mes: nothing was sampled that a blocked task would
 * have been sampled for. At its next turn the first poll or yield decides
 * again. A message ends it: in the ready queue by re-insertion (SDCA), on the
 * CPU because its levels move. Without the sensor of sockets nobody waits.
 *
 * Ranks of one node talk through shared memory: no message is seen, their
 * levels do not move and every yield of theirs is one of a task that waits.
 */
#ifndef WAITING_BPF_H
#define WAITING_BPF_H

#define POLL_PAUSE	(50 * 1000ULL)		/* ns of CPU time between two polls of one wait, in the mean */
#define POLL_PAUSE_MAX	(1000 * 1000ULL)	/* and at most: a tick or an interrupt may fall into it */

/* CPU time of the running task, as of now. */
static __always_inline u64 exec_now(const struct task_struct *curr)
{
	s64 ran = scx_bpf_now() - curr->se.exec_start;

	return curr->se.sum_exec_runtime + (ran > 0 ? ran : 0);
}

/* Nothing sent, nothing received since spin_ns of its CPU time? A poll or a yield asks. */
static __always_inline bool is_still(struct task_ctx *tctx, u32 tid, u64 exec, const struct knobs *k)
{
	struct obs *o = bpf_map_lookup_elem(&obs, &tid);

	if (!o)
		return false;
	if (o->moved != tctx->moved) {
		tctx->moved = o->moved;
		tctx->still_since = exec;
	}
	return exec - tctx->still_since >= k->spin_ns;
}

/*
 * @prev leaves the CPU with quantum left: sched_yield(), or end_polling(). Does
 * it stay after all? Until it has been still for spin_ns; then it waits.
 */
static __always_inline bool spins_on(struct task_struct *prev, struct task_ctx *tctx, s32 cpu,
				     const struct knobs *k)
{
	u64 exec = prev->se.sum_exec_runtime;

	if (exec >= tctx->quantum_end) {
		tctx->waiting = 0;	/* it has used it all */
		return false;
	}
	if (!is_still(tctx, prev->pid, exec, k)) {
		tctx->waiting = 0;
		scx_bpf_task_set_slice(prev, tctx->quantum_end - exec);
		return true;
	}
	tctx->waiting = 1;
	stats_of(cpu, k->rule)[STAT_WAIT]++;
	return false;
}

/* Dispatch asks of a task that ran and can go on: does it keep the CPU? */
__noinline int goes_on(struct task_struct *prev __arg_trusted, s32 cpu)
{
	const struct knobs *k = knobs_now();
	struct task_ctx *tctx = ctx_of(prev);

	if (!tctx || !is_parallel(tctx, k) || rq_of(cpu)->resume_tid == prev->pid)
		return 0;
	if (k->sensors && k->spin_ns) {
		if (spins_on(prev, tctx, cpu, k))
			return 1;
		if (tctx->waiting)
			return 0;
	}
	return walks_on_expiry(k->rule) && keeps_cpu(prev, tctx, cpu);
}

/* A poll found nothing: has the task been doing nothing else? Then the CPU is for others. */
static __always_inline void end_polling(void)
{
	const struct knobs *k = knobs_now();
	struct task_struct *p;
	struct task_ctx *tctx;
	u64 exec, spun;

	if (!k->sensors || !k->spin_ns || !any_parallel(k))
		return;
	p = bpf_get_current_task_btf();
	tctx = ctx_of(p);
	if (!tctx || !is_parallel(tctx, k))
		return;
	exec = exec_now(p);
	if (!is_still(tctx, p->pid, exec, k) || exec - tctx->polled > POLL_PAUSE_MAX) {
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
	if (tctx->waiting)
		scx_bpf_kick_cpu(bpf_get_smp_processor_id(), SCX_KICK_PREEMPT);
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
