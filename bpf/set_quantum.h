/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Set_Quantum (CCS Alg. 2), as pure integer C. No kernel, no libc: the BPF
 * scheduler, the simulator and, through cffi (ctl/native.py), the controller
 * and the tests compile the same text.
 *
 *	Quantum(T) = Def_Q / W(N_k)		a local task; a job's, nobody objecting
 *	Quantum(T) = Def_Q * L / W(N_k)		a job's task where a local user is present,
 *						here or on another node of the job
 *
 * L counts once, however many users there are (B-CCS-14). A quantum is never 0:
 * to stop a job is the freezer's work (B-CCS-8).
 *
 * A task has one quantum in an epoch. Half of what it has left at the end of the
 * epoch is added to the next, as in Linux 2.4 (CCS sec. 3.1, B-CCS-31):
 *
 *	left := left / 2 + Quantum(T)
 *
 * Alg. 2 gives m tasks of jobs m * L / (m * L + n) of a CPU beside n local tasks,
 * more than L (B-CCS-15). Where L is to be the part that all tasks of jobs have
 * together, their quanta follow from what local tasks used in the last epoch.
 *
 * Example: Def_Q 20 ms, W = 0.5, L = 0.25: a local task has 40 ms, a task of a
 * job beside a local user 10 ms. Two tasks of jobs beside one local task that used
 * 40 ms have, together, 40 * 0.25 / 0.75 = 13.3 ms, and 6.7 ms each.
 */
#ifndef SET_QUANTUM_H
#define SET_QUANTUM_H

#include "cosched.h"

#ifndef IRQ_INLINE
#define IRQ_INLINE static inline __attribute__((always_inline))
#endif

/*
 * def_q: ns. stretch: 1/W in 1/1024, 0 means 1. share_l: L in 1/1024.
 * held_back: the task is a job's, and a local user is present on one of its nodes.
 */
IRQ_INLINE unsigned long long set_quantum(unsigned long long def_q, unsigned int stretch,
					  unsigned int share_l, int held_back)
{
	unsigned long long q = stretch ? def_q * stretch >> MES_SHIFT : def_q;

	if (!held_back)
		return q;
	q = q * share_l >> MES_SHIFT;
	return q < MIN_SLICE_NS ? MIN_SLICE_NS : q;
}

#define DEBT_MAX	4	/* quanta */
#define DEBT_MAX_NS	8000000	/* and two ticks of 250 Hz: a task that ran on for longer owes no more */
#define HALVINGS	8	/* after so many epochs a task that slept has twice its quantum, near enough */

/*
 * What a task that had @left may begin with. Below 0: the kernel ends quanta at
 * ticks, so a task ran on, which is taken off whole, up to a limit.
 */
IRQ_INLINE long long bounded_debt(long long left, unsigned long long quantum)
{
	long long most = DEBT_MAX * quantum + DEBT_MAX_NS;

	return left < -most ? -most : left;
}

/* What a task has of an epoch, ns, that had @left at the end of the @epochs-th before it, and slept. */
IRQ_INLINE long long next_quantum(long long left, unsigned long long quantum, unsigned int epochs)
{
	unsigned long long paid;
	int i;

	left = bounded_debt(left, quantum);
	if (left < 0) {	/* each of these epochs pays a quantum */
		paid = (-left + quantum - 1) / quantum;
		paid = paid < epochs ? paid : epochs;
		left += paid * quantum;
		epochs -= paid;
	}
	if (left > 2 * (long long)quantum)
		left = 2 * quantum;
	for (i = 0; i < HALVINGS && epochs; i++, epochs--)
		left = left / 2 + quantum;
	return epochs ? 2 * (long long)quantum : left;
}

/*
 * The same for a quantum that is shorter than the shortest slice (shared_quantum()):
 * it is saved whole, until the task has a slice together and can run (a reading of
 * ours beside B-CCS-15).
 */
IRQ_INLINE long long saved_quantum(long long left, unsigned long long quantum, unsigned int epochs)
{
	long long most = quantum + MIN_SLICE_NS;

	left = bounded_debt(left, quantum) + (long long)(quantum * epochs);
	return left < most ? left : most;
}

/*
 * The quantum of each of @jobs tasks of jobs, ns, where these have L together:
 * @local_ns is the CPU time of local tasks in the last epoch. At most @most, also
 * where no local task ran. It may be less than a task can run at a time: then the
 * task runs in some epochs only, saved_quantum().
 */
IRQ_INLINE unsigned long long shared_quantum(unsigned long long local_ns, unsigned int share_l,
					     unsigned int jobs, unsigned long long most)
{
	const unsigned long long one = 1ULL << MES_SHIFT;
	unsigned long long q;

	if (!local_ns || share_l >= one)
		return most;
	q = local_ns * share_l / ((one - share_l) * (jobs ? jobs : 1));
	return q < most ? q : most;
}

#define WINDOW_LEAST	16	/* neither jobs nor local tasks have less than a sixteenth of a period */

/*
 * What jobs have of each period where time is divided into windows (window.bpf.h), in
 * 1/1024: L, which here is their part (B-CCS-15), whatever their number. @even: under
 * Set_Quantum nobody holds them back, and their quanta are as long as local ones. Then
 * it is half, or L if that is more.
 */
IRQ_INLINE unsigned int window_share(unsigned int share_l, int even)
{
	const unsigned int one = 1U << MES_SHIFT, least = one / WINDOW_LEAST;

	if (even && share_l < one / 2)
		share_l = one / 2;
	return share_l < least ? least : share_l > one - least ? one - least : share_l;
}

#endif /* SET_QUANTUM_H */
