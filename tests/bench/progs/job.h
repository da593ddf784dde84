/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How a process becomes a job's, and what Linux is asked for it. */
#ifndef JOB_H
#define JOB_H

#include <limits.h>
#include <sys/resource.h>

#include "bench.h"

#define LIGHT	"20"	/* cpu.weight, as uresourced gives it */
#define USUAL	"100"

enum as { PLAIN, NICE19, IDLE, WEIGHT20 };

static const char *const kinds[] = { "plain", "nice19", "idle", "weight20", NULL };

/* The index of a name in a list. */
static inline int which(const char *const *names, const char *name)
{
	for (int i = 0; names[i]; i++)
		if (!strcmp(names[i], name))
			return i;
	fprintf(stderr, "what is %s?\n", name);
	exit(2);
}

/* Give a weight to the cgroup above the job's, if it has one: that stands beside the local tasks. */
static inline void weigh(enum as as, const char *procs, const char *weight)
{
	char path[PATH_MAX];
	int fd;

	if (as != WEIGHT20 || !procs)
		return;
	snprintf(path, sizeof(path), "%s", procs);
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(path, '/');

		if (slash)
			*slash = 0;
	}
	strncat(path, "/cpu.weight", sizeof(path) - strlen(path) - 1);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, weight, strlen(weight)) < 0)
		DIE("%s", path);
	close(fd);
}

/*
 * Niceness and SCHED_IDLE count only among the tasks of one cgroup, where cgroups have shares of the CPU: who runs jobs
 * with them leaves these beside the hogs.
 */
static inline void become_a_job(enum as as, const char *procs)
{
	const struct sched_param none = { };

	if (as == NICE19 && setpriority(PRIO_PROCESS, 0, 19))
		DIE("niceness 19");
	if (as == IDLE && sched_setscheduler(0, SCHED_IDLE, &none))
		DIE("SCHED_IDLE");
	if (procs && (as == PLAIN || as == WEIGHT20))
		join(procs);
}

#endif /* JOB_H */
