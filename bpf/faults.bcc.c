// SPDX-License-Identifier: GPL-2.0-only
/*
 * The sensor of page faults. The kernel raises the software event
 * PAGE_FAULTS_MAJ where it counts task->maj_flt, so nothing runs on a minor
 * fault. The event is only the trigger: the count is read from the task. A
 * major fault is a swap-in when do_swap_page saw the same page last.
 */

int on_swap_fault(struct pt_regs *ctx)
{
	struct obs *o = my_obs((u32)bpf_get_current_pid_tgid());

	if (o)
		o->swap_addr = FIELD(u64, PT_REGS_PARM1(ctx), F_FAULT_ADDRESS) >> 12;
	return 0;
}

/* struct bpf_perf_event_data: its header does not compile under bcc on 7.2. */
struct fault_event {
	struct pt_regs		regs;
	u64			sample_period;
	u64			addr;
};

int on_major_fault(struct fault_event *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	u64 total = FIELD(u64, bpf_get_current_task(), F_TASK_MAJ_FLT);
	struct obs *o = obs.lookup(&tid);
	u32 n = 1;

	if (!o) {
		o = my_obs(tid);
		if (!o)
			return 0;
	} else if (total > o->majflt) {
		n = total - o->majflt;
	}
	o->majflt = total;
	if (o->swap_addr && o->swap_addr == ctx->addr >> 12)
		o->swapin++;
	o->swap_addr = 0;
	obs_fault(o, bpf_ktime_get_ns(), n);
	return 0;
}
