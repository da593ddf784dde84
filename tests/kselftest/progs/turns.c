// SPDX-License-Identifier: GPL-2.0-or-later
/* turns SECONDS: computes and yields; prints its longest wait in ms, how often it waited over 1 ms, the median of those. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MOST 100000

static long long now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static int ascending(const void *a, const void *b)
{
	long long left = *(const long long *)a, right = *(const long long *)b;

	return (left > right) - (left < right);
}

int main(int argc, char **argv)
{
	static long long waits[MOST];
	long long end, before, waited, longest = 0;
	int turns = 0;

	if (argc < 2)
		return 2;
	end = now_us() + atoll(argv[1]) * 1000000;
	do {
		before = now_us();
		sched_yield();
		waited = now_us() - before;
		if (waited > 1000 && turns < MOST)
			waits[turns++] = waited;
		if (waited > longest)
			longest = waited;
	} while (now_us() < end);
	qsort(waits, turns, sizeof(*waits), ascending);
	printf("%lld %d %lld\n", longest / 1000, turns, waits[turns / 2] / 1000);
	return 0;
}
