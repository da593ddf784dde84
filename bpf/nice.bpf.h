/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nice: it scales the quantum of a local task by its weight, within 1/16 and 8
 * times. The social contract is for tasks of jobs alike.
 */
#ifndef NICE_BPF_H
#define NICE_BPF_H

#include "scx.bpf.h"

/*
 * Is q the quantum of p whatever its weight? A kernel thread's is never
 * shortened: khugepaged (nice 19) copies 512 pages as one RCU reader, and with a
 * sixteenth of a quantum each round it stalls RCU, for which the kernel ends a
 * scheduler.
 */
static __always_inline bool nice_is_neutral(const struct task_struct *p)
{
	return p->scx.weight == 100 || (p->scx.weight < 100 && (p->flags & PF_KTHREAD));
}

/* The quantum @q (ns) of a local task, scaled. */
static __always_inline u64 nice_quantum(const struct task_struct *p, u64 q)
{
	u64 slice = q * p->scx.weight / 100;

	return slice < q / 16 ? q / 16 : slice > q * 8 ? q * 8 : slice;
}

#endif /* NICE_BPF_H */
