// SPDX-License-Identifier: GPL-2.0-only
/*
 * The duration of a function, call by call: fentry notes the time, fexit adds up the time since. The loader
 * (progs/insn.c) opens this object once for every function it measures, a scheduler's callback or one of the kernel's
 * own. Meant for functions that run with interrupts off, so that nothing else is counted.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define MAX_CPUS 64

char _license[] SEC("license") = "GPL";

struct timing {
	unsigned long long begin;
	unsigned long long calls, sum, max;
	unsigned long long pad[4];
};

struct timing timing[MAX_CPUS];

SEC("fentry")
int BPF_PROG(on_entry)
{
	timing[bpf_get_smp_processor_id() & (MAX_CPUS - 1)].begin = bpf_ktime_get_ns();
	return 0;
}

SEC("fexit")
int BPF_PROG(on_exit)
{
	unsigned long long now = bpf_ktime_get_ns();
	struct timing *t = &timing[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
	unsigned long long took;

	if (!t->begin)
		return 0;
	took = now - t->begin;
	t->begin = 0;
	t->calls++;
	t->sum += took;
	if (took > t->max)
		t->max = took;
	return 0;
}
