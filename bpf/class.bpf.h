/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * contract=class: only tasks of jobs are sched_ext tasks, and local tasks stay
 * on the kernel's own scheduler, which runs them first. A task of a job that
 * could leave SCHED_EXT would leave the contract, so its change of class is
 * refused. Root outside jobs may change it: that is the administrator, and the
 * agent.
 */
#ifndef CLASS_BPF_H
#define CLASS_BPF_H

#include "task.bpf.h"

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
	return -EPERM;
}

#endif /* CLASS_BPF_H */
