// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * latency US SAMPLES SECONDS HOGS [CGROUP.PROCS]: the lateness of a task that sleeps US microseconds at a time, beside
 * HOGS processes that never sleep, in the given cgroup. Ends after SAMPLES sleeps or SECONDS. Prints ns of lateness.
 */
#include "hogs.h"
#include "samples.h"

int main(int argc, char **argv)
{
	long us, samples, hogs, n = 0;
	long long end, before, *late;
	pid_t *children;

	if (argc < 5 || argc > 6) {
		fprintf(stderr, "usage: latency US SAMPLES SECONDS HOGS [CGROUP.PROCS]\n");
		return 2;
	}
	us = number(argv[1], 1, 10000000);
	samples = number(argv[2], 1, 1000000);
	hogs = number(argv[4], 0, 10000);
	late = calloc(samples, sizeof(*late));
	if (!late)
		DIE("memory for %ld samples", samples);
	children = start_hogs(hogs, argc == 6 ? argv[5] : NULL);
	for (int i = 0; i < 5; i++)
		nap(us);
	before = switches();
	end = now_ns() + number(argv[3], 1, 3600) * 1000000000LL;
	while (n < samples && now_ns() < end)
		late[n++] = nap(us);
	print_samples(late, n, switches() - before);
	end_hogs(children, hogs);
	return 0;
}
