// SPDX-License-Identifier: GPL-2.0-only
/* Prints what the clock showed, ns since 1970, when the time stamp counter was 0; for nodes in lock-step, where it counts ns. */
#include <stdio.h>
#include <time.h>

int main(void)
{
	struct timespec now;
	unsigned long long counter = __builtin_ia32_rdtsc();

	clock_gettime(CLOCK_REALTIME, &now);
	printf("%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec - (long long)counter);
	return 0;
}
