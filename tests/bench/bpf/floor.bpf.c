// SPDX-License-Identifier: GPL-2.0-only
/*
 * The floor: a sched_ext scheduler without callbacks. The kernel puts every task
 * at the tail of its own global queue and takes the next from its head, so this scheduler shows the cost of sched_ext
 * without a policy.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "GPL";

SEC(".struct_ops.link")
struct sched_ext_ops bench_floor = {
	.name = "bench_floor",
};
