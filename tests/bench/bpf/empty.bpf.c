// SPDX-License-Identifier: GPL-2.0-only
/*
 * One empty callback, called at every switch: the insn tool's figure for this callback is the tool's own share of every
 * figure.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

SEC("struct_ops/empty_running")
int BPF_PROG(empty_running, struct task_struct *p)
{
	return 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops bench_empty = {
	.running = (void *)empty_running,
	.name = "bench_empty",
};
