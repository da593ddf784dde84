/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * contract=class: only tasks of jobs are sched_ext tasks, and local tasks stay
 * on the kernel's own scheduler, which runs them first.
 *
 * The kernel's deadline server leaves sched_ext tasks a runtime in each period.
 * The kernel looks at its end at ticks only, 4 ms apart with 250 Hz: a runtime
 * of 1 ms would be 4. So a timer ends each service when the runtime is over.
 *
 * A task of a job that could leave SCHED_EXT would leave the contract, so its
 * change of class is refused. Root outside jobs may change it: that is the
 * administrator, and the agent.
 */
#ifndef CLASS_BPF_H
#define CLASS_BPF_H

#include "joins.bpf.h"
#include "running.bpf.h"

#define EPERM	1
/* sched_setaffinity(2) passes the same hook: its numbers on x86-64, and of 32-bit programs there */
#define NR_AFFINITY	203
#define NR_AFFINITY_32	241

static __always_inline bool asks_for_affinity(struct task_struct *asker)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(asker);
	u64 call = BPF_CORE_READ(regs, orig_ax);

	return call == NR_AFFINITY || call == NR_AFFINITY_32;
}

#define NR_SETSCHEDULER	144
#define NR_SETATTR	314
#define POLICY_AT	4	/* bytes of struct sched_attr before sched_policy */

/* The class that the system call asks for. */
static __always_inline u32 asked_class(struct task_struct *asker)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(asker);
	u64 call = BPF_CORE_READ(regs, orig_ax), second = BPF_CORE_READ(regs, si);
	u32 class = CLASS_UNKNOWN;

	if (call == NR_SETSCHEDULER)
		class = second & 0xff;
	else if (call == NR_SETATTR)
		bpf_probe_read_user(&class, sizeof(class), (void *)(second + POLICY_AT));
	return class & 0xff;
}

#define SERVICE_MARGIN	(20 * 1000ULL)	/* ns behind the end, so that the kernel finds the runtime used up */

/* One for each CPU: it ends the service of the task @tid. */
struct service_timer {
	struct bpf_timer timer;
	u32 tid;
	u32 interrupted;	/* once: the kernel has accounted the service */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct service_timer);
} service_timers SEC(".maps");

static __always_inline void end_service_in(struct service_timer *t, s64 left)
{
	bpf_timer_start(&t->timer, (left > 0 ? left : 0) + SERVICE_MARGIN, BPF_F_TIMER_CPU_PIN);
}

/*
 * It takes two interrupts. At the first the kernel finds, in the middle of
 * picking the server's task, that the runtime is used up, and goes on with that
 * task (Linux 7.2). At the second the server is throttled, and fair tasks run.
 */
static int end_service(void *map, u32 *cpu, struct service_timer *t)
{
	struct task_struct *curr = scx_bpf_cpu_curr(*cpu);
	struct sched_dl_entity *server;
	s64 left;

	if (!curr || curr->pid != t->tid || !is_queued_or_runs(curr))
		return 0;
	server = BPF_CORE_READ(curr, dl_server);
	if (!server)
		return 0;
	left = BPF_CORE_READ(server, runtime);
	if (t->interrupted && left > 0) {	/* of the next period */
		t->interrupted = 0;
		end_service_in(t, left);
		return 0;
	}
	interrupt(*cpu);
	if (!t->interrupted) {
		t->interrupted = 1;
		end_service_in(t, 0);
	}
	return 0;
}

/* p begins to run. Is it on the deadline server's account, because fair tasks want the CPU? Then it has an end. */
void SCX_OP(cosched_running, struct task_struct *p)
{
	struct sched_dl_entity *server = p->dl_server;
	u32 cpu = bpf_get_smp_processor_id();
	struct service_timer *t;

	if (!server)
		return;
	t = bpf_map_lookup_elem(&service_timers, &cpu);
	if (!t)
		return;
	t->tid = p->pid;
	t->interrupted = 0;
	/* -EBUSY, as ever after the first time, is as good */
	bpf_timer_init(&t->timer, &service_timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&t->timer, end_service);
	end_service_in(t, BPF_CORE_READ(server, runtime));
}

SEC("fmod_ret/security_task_setscheduler")
int BPF_PROG(on_setscheduler, struct task_struct *p, int refused)
{
	struct task_struct *asker = bpf_get_current_task_btf();
	struct task_ctx *tctx = ctx_of(p), *actx;

	if (refused || !tctx || !tctx->job || asks_for_affinity(asker))
		return refused;
	actx = ctx_of(asker);
	if (!(u32)bpf_get_current_uid_gid() && !(actx && actx->job))
		return 0;
	stats_of(bpf_get_smp_processor_id(), knobs_now()->rule)[STAT_CLASS_REFUSED]++;
	if (!tctx->refused) {
		tctx->refused = 1;
		announce_refusal(asker, tctx->job, asked_class(asker));
	}
	return -EPERM;
}

#endif /* CLASS_BPF_H */
