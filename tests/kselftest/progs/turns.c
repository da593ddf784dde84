// SPDX-License-Identifier: GPL-2.0-or-later
/* turns SECONDS: computes and yields; prints its longest wait in ms and how often it waited over 1 ms. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long long now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
	long long end, before, waited, longest = 0;
	long turns = 0;

	if (argc < 2)
		return 2;
	end = now_us() + atoll(argv[1]) * 1000000;
	do {
		before = now_us();
		sched_yield();
		waited = now_us() - before;
		if (waited > 1000)
			turns++;
		if (waited > longest)
			longest = waited;
	} while (now_us() < end);
	printf("%lld %ld\n", longest / 1000, turns);
	return 0;
}
