/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Processes that never sleep, of a job or local, beside the task that is measured. */
#ifndef HOGS_H
#define HOGS_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "bench.h"

#define HOGS_SETTLE_US	200000	/* the measured task's past as a parent of many is not what is measured */

/* Hogs begin together, when the parent opens the gate: it would hardly get to fork beside those it has. */
static inline void hog(const char *procs, volatile int *started, const int gate[2])
{
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (procs)
		join(procs);
	__sync_fetch_and_add(started, 1);
	close(gate[1]);
	if (read(gate[0], &byte, 1) != 0)
		_exit(1);
	for (;;)
		__asm__ volatile("" ::: "memory");
}

/* Start so many, in the cgroup whose cgroup.procs is given, if any. Returns their process ids; they run. */
static inline pid_t *start_hogs(long hogs, const char *procs)
{
	volatile int *started = shared(sizeof(*started));
	pid_t *children = calloc(hogs + 1, sizeof(*children));
	int gate[2];

	if (!children)
		DIE("memory for %ld hogs", hogs);
	if (pipe(gate))
		DIE("pipe");
	for (long i = 0; i < hogs; i++) {
		children[i] = fork();
		if (children[i] < 0)
			DIE("fork");
		if (children[i] == 0)
			hog(procs, started, gate);
	}
	while (*started < hogs)
		usleep(5000);
	usleep(HOGS_SETTLE_US);
	close(gate[1]);
	return children;
}

static inline void end_hogs(const pid_t *children, long hogs)
{
	for (long i = 0; i < hogs; i++)
		kill(children[i], SIGKILL);
	while (wait(NULL) > 0)
		;
}

#endif /* HOGS_H */
