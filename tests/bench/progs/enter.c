// SPDX-License-Identifier: GPL-2.0-or-later
/* enter CGROUP.PROCS COMMAND...: run a command as a task of the job with this cgroup. */
#include "bench.h"

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: enter CGROUP.PROCS COMMAND...\n");
		return 2;
	}
	join(argv[1]);
	execvp(argv[2], argv + 2);
	DIE("%s", argv[2]);
}
