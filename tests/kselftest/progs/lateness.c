// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lateness PERIOD_US SAMPLES: sleeps to an absolute time SAMPLES times; prints
 * the mean, the 99th percentile and the largest lateness in microseconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../../progs/percentile.h"

static int later(const void *a, const void *b)
{
	return *(const long *)a - *(const long *)b;
}

int main(int argc, char **argv)
{
	struct timespec due, now;
	long period, n, *late, sum = 0;

	if (argc < 3)
		return 2;
	period = atol(argv[1]) * 1000;
	n = atol(argv[2]);
	late = calloc(n, sizeof(*late));
	if (!late)
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &due);
	for (long i = 0; i < n; i++) {
		due.tv_nsec += period;
		due.tv_sec += due.tv_nsec / 1000000000;
		due.tv_nsec %= 1000000000;
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL))
			;
		clock_gettime(CLOCK_MONOTONIC, &now);
		late[i] = (now.tv_sec - due.tv_sec) * 1000000 + (now.tv_nsec - due.tv_nsec) / 1000;
		sum += late[i];
		due = now;
	}
	qsort(late, n, sizeof(*late), later);
	printf("%ld %ld %ld\n", sum / n, late[rank_of(n, 99)], late[n - 1]);
	return 0;
}
