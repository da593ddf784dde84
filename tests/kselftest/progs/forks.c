// SPDX-License-Identifier: GPL-2.0-or-later
/* forks COMPUTE_US: one child after the other computes for so long and ends. */
#include <stdlib.h>
#include <sys/wait.h>
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
	long long compute = argc > 1 ? atoll(argv[1]) : 2000;

	for (;;) {
		if (fork() == 0) {
			while (cpu_us() < compute)
				;
			_exit(0);
		}
		wait(NULL);
	}
}
