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
 * Example: Def_Q 20 ms, W = 0.5, L = 0.25: a local task has 40 ms, a task of a
 * job beside a local user 10 ms.
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

#endif /* SET_QUANTUM_H */
