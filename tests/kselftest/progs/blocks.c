// SPDX-License-Identifier: GPL-2.0-or-later
/* blocks N COMPUTE_US SLEEP_US: N processes that compute for so long of their CPU time, sleep, and begin again. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long long cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;
	long long compute = argc > 2 ? atoll(argv[2]) : 9900;
	struct timespec pause = { .tv_nsec = 1000 * (argc > 3 ? atol(argv[3]) : 100) };

	for (int i = 1; i < n; i++)
		if (fork() == 0)
			break;
	for (;;) {
		long long end = cpu_us() + compute;

		while (cpu_us() < end)
			;
		nanosleep(&pause, NULL);
	}
}
