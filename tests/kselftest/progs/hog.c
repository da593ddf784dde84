// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * hog N [SECONDS]: N processes that only compute.
 *
 * The pause is for a machine whose CPUs are emulated in turns by one thread: a CPU that pauses ends its turn, so that a
 * hog does not keep the host from running the tests on the other CPU. To the guest it computes all the time.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;

	if (argc > 2)
		alarm(atoi(argv[2]));
	for (int i = 1; i < n; i++)
		if (fork() == 0) {
			if (argc > 2)
				alarm(atoi(argv[2]));
			break;
		}
	for (;;) {
		for (volatile int i = 0; i < 1000; i++)
			;
		__builtin_ia32_pause();
	}
}
