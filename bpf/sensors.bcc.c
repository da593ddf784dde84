// SPDX-License-Identifier: GPL-2.0-only
/*
 * The sensors that bcc compiles. ctl/kernel/probes.py puts the *.bcc.c files
 * behind each other, this one first, has bcc compile the whole and attaches it.
 * It also passes the offsets of kernel struct fields (F_*), taken from BTF:
 * 7.2's headers do not compile under bcc, so kernel pointers are opaque here.
 */
#include <uapi/linux/ptrace.h>

#include "observe.h"

BPF_F_TABLE("hash:" PIN_DIR "/obs", u32, struct obs, obs, 65536, BPF_F_NO_PREALLOC);
BPF_F_TABLE("array:" PIN_DIR "/sensed", u32, struct sensed, sensed, 1, 0);
BPF_F_TABLE("array:" PIN_DIR "/input", u32, struct input_obs, input, 1, 0);

/* A field of a kernel object, 0 if unreadable. */
#define FIELD(type, base, offset) ({						\
	type __v = 0;								\
	bpf_probe_read_kernel(&__v, sizeof(__v), (void *)(base) + (offset));	\
	__v; })

static inline struct obs *my_obs(u32 tid)
{
	struct obs *o = obs.lookup(&tid), fresh = {};
	struct sensed *s;
	u32 zero = 0;

	if (o) {
		if (o->exited)		/* left by a dead thread of the same number */
			o->exited = 0;
		return o;
	}
	fresh.majflt = FIELD(u64, bpf_get_current_task(), F_TASK_MAJ_FLT);
	if (obs.insert(&tid, &fresh)) {
		s = sensed.lookup(&zero);
		if (s)
			__sync_fetch_and_add(&s->lost_threads, 1);
	}
	return obs.lookup(&tid);
}
