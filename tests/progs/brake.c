// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A slower CPU: brake PERIOD_US BUSY_US
 *
 * Of each PERIOD_US it is busy for BUSY_US. As a real-time task this program takes that part of the CPU from all other
 * tasks, under any scheduler.
 */
#include <sys/mman.h>

#include "../../ctl/demo/progs/common.h"

int main(int argc, char **argv)
{
	long long period, busy, due;

	if (argc != 3 || mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
		return 2;
	period = number(argv[1], 1) * 1000LL;
	busy = number(argv[2], 0) * 1000LL;
	for (due = now_ns(CLOCK_MONOTONIC);; due += period) {
		struct timespec next = { (due + period) / 1000000000, (due + period) % 1000000000 };

		while (now_ns(CLOCK_MONOTONIC) < due + busy)
			;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
}
