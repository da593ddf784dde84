// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * beside HOGS AS CGROUP.PROCS COMMAND...: run a command as the job with this cgroup, AS plain, nice19, idle or weight20,
 * beside local HOGS that never sleep.
 */
#define _GNU_SOURCE
#include "hogs.h"
#include "job.h"

int main(int argc, char **argv)
{
	const char *procs;
	pid_t *hogs, child;
	int status;
	enum as as;
	long n;

	if (argc < 5) {
		fprintf(stderr, "usage: beside HOGS AS CGROUP.PROCS COMMAND...\n");
		return 2;
	}
	n = number(argv[1], 0, 1000);
	as = which(kinds, argv[2]);
	procs = argv[3];
	weigh(as, procs, LIGHT);
	hogs = start_hogs(n, NULL);
	child = fork();
	if (child < 0)
		DIE("fork");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		become_a_job(as, procs);
		execvp(argv[4], argv + 4);
		DIE("%s", argv[4]);
	}
	if (waitpid(child, &status, 0) != child)
		DIE("waitpid");
	end_hogs(hogs, n);
	weigh(as, procs, USUAL);
	return !WIFEXITED(status) || WEXITSTATUS(status);
}
