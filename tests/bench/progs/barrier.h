/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A barrier of threads, with the ways of waiting that libraries have, and work of a known length before it. */
#ifndef BARRIER_H
#define BARRIER_H

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include "bench.h"

#define TRIES		20
#define SPIN_CHECKS	300000	/* before libgomp's threads sleep, where it is not told otherwise */
#define PAUSE_NS	40	/* of a processor's PAUSE: 140 cycles since Skylake */

enum way { YIELD, FUTEX, SPIN_FUTEX, SPIN, SPIN_NOPAUSE };

static const char *const ways[] = { "yield", "futex", "spin-futex", "spin", "spin-nopause", NULL };

struct barrier {
	int threads, arrived;
	int round;	/* changes when all have arrived */
	long checks;	/* of a spin before it sleeps */
};

static inline long futex(int *at, int op, int value, const struct timespec *longest)
{
	return syscall(SYS_futex, at, op, value, longest, NULL, 0);
}

static inline void pause_cpu(void)
{
	__builtin_ia32_pause();
}

/* Wait in one of the ways until all threads have come. */
static inline void meet(struct barrier *b, enum way way)
{
	int round = __atomic_load_n(&b->round, __ATOMIC_ACQUIRE);
	long left = b->checks;

	if (__atomic_add_fetch(&b->arrived, 1, __ATOMIC_ACQ_REL) == b->threads) {
		b->arrived = 0;
		__atomic_store_n(&b->round, round + 1, __ATOMIC_RELEASE);
		if (way == FUTEX || way == SPIN_FUTEX)
			futex(&b->round, FUTEX_WAKE_PRIVATE, INT_MAX, NULL);
		return;
	}
	while (__atomic_load_n(&b->round, __ATOMIC_ACQUIRE) == round) {
		if (way == YIELD)
			sched_yield();
		else if (way == FUTEX || (way == SPIN_FUTEX && left-- <= 0))
			futex(&b->round, FUTEX_WAIT_PRIVATE, round, NULL);
		else if (way != SPIN_NOPAUSE)
			pause_cpu();
	}
}

/* Not inlined: its turns take the same time wherever it is called. */
static __attribute__((noinline)) void compute(long turns)
{
	for (long i = 0; i < turns; i++)
		__asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void pauses(long turns)
{
	for (long i = 0; i < turns; i++)
		pause_cpu();
}

/* How many turns make so many ns: by the quickest of some tries, of a part of them each. */
static inline long turns_in(void (*work)(long), long long ns, long part)
{
	long long best = LLONG_MAX;

	for (int try = 0; try < TRIES; try++) {
		long long took = now_ns();

		work(part);
		took = now_ns() - took;
		if (took < best)
			best = took;
	}
	return ns * part / (best ? best : 1);
}

/*
 * The spin's length is one of time: where instructions are counted, PAUSE gives away the rest of a round of the virtual
 * CPUs, 20 us, and the library's number of them would be six seconds.
 */
static inline long checks_of_a_spin(void)
{
	return turns_in(pauses, (long long)SPIN_CHECKS * PAUSE_NS, 10);
}

#endif /* BARRIER_H */
