// SPDX-License-Identifier: GPL-2.0-or-later
/* storm N: forks N children that all wait until the last one is there, compute a little and exit; prints N. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 100, gate[2], status, bad = 0, done = 0;
	volatile int work;
	char c;

	if (pipe(gate))
		return 1;
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0) {
			perror("fork");
			close(gate[1]);
			return 1;
		}
		if (pid == 0) {
			close(gate[1]);
			if (read(gate[0], &c, 1) != 0)
				_exit(1);
			for (work = 0; work < 20000; work++)
				;
			_exit(0);
		}
	}
	close(gate[1]);
	while (wait(&status) > 0) {
		done++;
		bad |= status;
	}
	printf("%d\n", done);
	return bad != 0;
}
