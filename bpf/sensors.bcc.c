// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sensors: what the scheduler is told of tasks. ctl/kernel/sensors.py puts the
 * *.bcc.c files behind each other, this one first, has bcc compile the whole
 * and attaches it. It also passes the offsets of kernel struct fields (F_*),
 * taken from BTF: 7.2's net/sock.h does not compile under bcc, so kernel
 * pointers are opaque here.
 *
 * The kernel runs one kprobe at a time on a CPU, and none while a bpf() call
 * works on a map there: an event that falls into another's time, mostly one of
 * a softirq, is lost. So events only make what is kept prompt. What makes it
 * right is that it is looked at again: on_sweep_socket and on_sweep_thread,
 * which the agent runs every second.
 *
 * Everything is inlined into every probe, so what a probe calls twice is
 * compiled and verified twice: the longer functions are called at one place, and
 * probes of sockets end with the program on_look.
 */
#include <uapi/linux/ptrace.h>

#include "observe.h"

BPF_F_TABLE("hash:" PIN_DIR "/obs", u32, struct obs, obs, 65536, BPF_F_NO_PREALLOC);
BPF_F_TABLE("hash:" PIN_DIR "/socks", u64, struct sock_obs, socks, 65536, BPF_F_NO_PREALLOC);
BPF_F_TABLE("array:" PIN_DIR "/input", u32, struct input_obs, input, 1, 0);

/* A field of a kernel object, 0 if unreadable. */
#define FIELD(type, base, offset) ({						\
	type __v = 0;								\
	bpf_probe_read_kernel(&__v, sizeof(__v), (void *)(base) + (offset));	\
	__v; })

static inline struct obs *my_obs(u32 tid)
{
	struct obs *o = obs.lookup(&tid), fresh = {};

	if (o) {
		if (o->exited)		/* left by a dead thread of the same number */
			o->exited = 0;
		return o;
	}
	fresh.majflt = FIELD(u64, bpf_get_current_task(), F_TASK_MAJ_FLT);
	obs.insert(&tid, &fresh);
	return obs.lookup(&tid);
}

/* ---- the life of threads ---- */

static inline void exited(u32 tid)
{
	struct obs *o = obs.lookup(&tid);

	if (!o)
		return;
	__sync_fetch_and_add(&o->exited, 1);	/* a full barrier: charge_add() looks at both, too */
	if (!*(volatile u32 *)&o->socks)
		obs.delete(&tid);
}

/* Run by the agent for a thread that is gone. Its number comes as a raw tracepoint's argument. */
int on_sweep_thread(u64 *tid)
{
	exited(*tid);
	return 0;
}

int on_exit(struct pt_regs *ctx)
{
	exited(bpf_get_current_pid_tgid());
	return 0;
}

/* execve() by a thread: it takes the number of the main thread, which is dead. */
int on_exchange_tids(struct pt_regs *ctx)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 tgid = id >> 32;
	struct obs *o;

	exited(id);
	o = obs.lookup(&tgid);
	if (o)
		o->exited = 0;
	return 0;
}
