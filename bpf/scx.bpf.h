/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel as a scheduler sees it: its types, its calls, and what these headers do not bring. */
#ifndef SCX_BPF_H
#define SCX_BPF_H



#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define ENOENT	2
#define ENOMEM	12

#define NSEC_PER_MSEC	1000000ULL

#define CLOCK_MONOTONIC	1
#define PF_KTHREAD	0x00200000

/*
 * Of patched kernels only (kernel-patches/). The verifier drops the calls where the kernel
 * lacks the function. The tag tells this from vmlinux.h's, all of which are weak (ctl/kernel/btf.py).
 */
#define __optional	__ksym __weak __attribute__((btf_decl_tag("optional")))
extern struct task_struct *scx_bpf_dsq_peek_tail(u64 dsq_id) __optional;
extern bool scx_bpf_dsq_insert_vtime_beside(struct task_struct *p, struct task_struct *near,
					    struct scx_bpf_dsq_insert_vtime_args *args) __optional;

/* Of this CPU; where the architecture has no such variable, the loader leaves it out. */
extern const int __preempt_count __ksym __weak;

/* Of __preempt_count, with the kernel's bits for a softirq that is served, interrupts and NMIs. */
#define IN_INTERRUPT	0x00ff0100

#define SCX_OP(name, args...)							\
	SEC("struct_ops/" #name) BPF_PROG(name, ##args)
#define SCX_OP_SLEEPABLE(name, args...)						\
	SEC("struct_ops.s/" #name) BPF_PROG(name, ##args)

/* Ends the scheduler with a message; the kernel goes back to its own. */
#define scx_fail(fmt, args...)							\
({										\
	static char ___fmt[] = fmt;						\
	unsigned long long ___data[] = { args };				\
	scx_bpf_error_bstr(___fmt, ___data, sizeof(___data));			\
})

#endif /* SCX_BPF_H */
