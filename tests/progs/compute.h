/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How many turns of a loop make a millisecond of CPU time here. */
#ifndef PROGS_COMPUTE_H
#define PROGS_COMPUTE_H

#include "../../ctl/demo/progs/common.h"

#define TRIES 20

/* The quickest of some tries of so many turns of @compute counts. */
static inline long loops_per_ms(void (*compute)(long), long turns)
{
	long long best = -1;

	for (int try = 0; try < TRIES; try++) {
		long long began = now_ns(CLOCK_THREAD_CPUTIME_ID), took;

		compute(turns);
		took = now_ns(CLOCK_THREAD_CPUTIME_ID) - began;
		if (best < 0 || took < best)
			best = took;
	}
	return turns * 1000000LL / (best ? best : 1);
}

#endif /* PROGS_COMPUTE_H */
