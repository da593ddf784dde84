// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The user at the workstation: a task that wakes up every PERIOD ms, works for WORK ms of CPU and is done.
 *
 *	local_task PERIOD-MS WORK-MS KB PAGES-PER-WAKE
 *
 * Each time it reads and writes the next PAGES pages of its KB of memory, like a program that redraws another part of
 * its window. Its response time is from the moment it was due to the moment it is done. Due times are fixed in advance:
 * a wake-up that comes late does not excuse the next one.
 *
 * On SIGTERM it prints one JSON object: the response times in microseconds, its CPU seconds, its major faults, and for
 * each wake-up's part of the delay the mean: until it ran, and while it worked.
 */
#include <string.h>
#include <sys/resource.h>

#include "common.h"

#define MAX_WAKES (1 << 16)
#define MS 1000000L

static unsigned int response_us[MAX_WAKES];

static void compute(long work_ns)
{
	long long until = now_ns(CLOCK_THREAD_CPUTIME_ID) + work_ns;

	while (now_ns(CLOCK_THREAD_CPUTIME_ID) < until)
		for (volatile int i = 0; i < 500; i++)
			;
}

static void report(long wakes, double late_s)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	printf("{\"major_faults\": %ld, \"cpu_s\": %.6f, \"mean_wake_late_us\": %.1f, \"response_us\": [", used.ru_majflt,
	       now_ns(CLOCK_PROCESS_CPUTIME_ID) * 1e-9, wakes ? late_s * 1e6 / wakes : 0.0);
	for (long i = 0; i < wakes; i++)
		printf("%s%u", i ? ", " : "", response_us[i]);
	printf("]}\n");
}

int main(int argc, char **argv)
{
	long period, work, pages, per_wake, wakes = 0, next = 0;
	long long due;
	double late_s = 0;
	char *memory;

	if (argc != 5) {
		fprintf(stderr, "usage: local_task PERIOD-MS WORK-MS KB PAGES-PER-WAKE\n");
		return 2;
	}
	period = number(argv[1], 1) * MS;
	work = number(argv[2], 1) * MS;
	pages = (number(argv[3], 1) * 1024 + PAGE - 1) / PAGE;
	per_wake = number(argv[4], 1);
	memory = aligned_alloc(PAGE, pages * PAGE);
	if (!memory) {
		perror("local_task: memory");
		return 1;
	}
	memset(memory, 1, pages * PAGE);
	memset(response_us, 1, sizeof(response_us));
	end_at_sigterm();

	due = now_ns(CLOCK_MONOTONIC) + period;
	for (; !ended && wakes < MAX_WAKES; due += period) {
		struct timespec at = { due / 1000000000, due % 1000000000 };

		if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL))
			break;
		late_s += (now_ns(CLOCK_MONOTONIC) - due) * 1e-9;
		for (long i = 0; i < per_wake; i++, next = (next + 1) % pages)
			memory[next * PAGE]++;
		compute(work);
		response_us[wakes++] = (now_ns(CLOCK_MONOTONIC) - due) / 1000;
	}
	report(wakes, late_s);
	return 0;
}
