// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * bursts US PAUSE_US HOGS CGROUP.PROCS COUNT: a task that computes US microseconds of CPU time and then sleeps PAUSE_US,
 * COUNT times, beside HOGS processes of the given cgroup that never sleep. Prints ns from the begin of a burst to its end.
 */
#include "hogs.h"
#include "samples.h"

#define UNMEASURED	3	/* bursts; a scheduler's memory of the task becomes that of its steady state */

static long long cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

/* Compute for so long by the task's own CPU time, and return how long that took. */
static long long burst(long us)
{
	long long began = now_ns(), end = cpu_ns() + us * 1000;

	while (cpu_ns() < end)
		for (int i = 0; i < 1000; i++)
			__asm__ volatile("" ::: "memory");
	return now_ns() - began;
}

int main(int argc, char **argv)
{
	long us, pause, hogs, count;
	long long *took, before;
	pid_t *children;

	if (argc != 6) {
		fprintf(stderr, "usage: bursts US PAUSE_US HOGS CGROUP.PROCS COUNT\n");
		return 2;
	}
	us = number(argv[1], 1, 10000000);
	pause = number(argv[2], 1, 999999);
	hogs = number(argv[3], 0, 10000);
	count = number(argv[5], 1, 100000);
	took = calloc(count, sizeof(*took));
	if (!took)
		DIE("memory for %ld bursts", count);
	children = start_hogs(hogs, argv[4]);
	for (int i = 0; i < UNMEASURED; i++) {
		usleep(pause);
		burst(us);
	}
	before = switches();
	for (long i = 0; i < count; i++) {
		usleep(pause);
		took[i] = burst(us);
	}
	print_samples(took, count, switches() - before);
	end_hogs(children, hogs);
	return 0;
}
