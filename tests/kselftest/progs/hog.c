// SPDX-License-Identifier: GPL-2.0-or-later
/* hog N [SECONDS]: N processes that only compute. */
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
	for (;;)
		;
}
