/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the benchmark programs: the clock, the kernel's count of context switches, and the form of results. */
#ifndef BENCH_H
#define BENCH_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define DIE(...)							\
	do {								\
		fprintf(stderr, __VA_ARGS__);				\
		fprintf(stderr, ": %s\n", strerror(errno));		\
		exit(1);						\
	} while (0)

static inline long long now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

/* Sleep once and return the lateness. */
static inline long long nap(long us)
{
	struct timespec ts;
	long long due = now_ns() + us * 1000;

	ts = (struct timespec){ .tv_sec = due / 1000000000, .tv_nsec = due % 1000000000 };
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
	return now_ns() - due;
}

/* Context switches of the whole machine since boot. */
static inline long long switches(void)
{
	static char text[1 << 16];
	int fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);
	char *at;
	ssize_t len;

	if (fd < 0 || (len = read(fd, text, sizeof(text) - 1)) <= 0)
		DIE("/proc/stat");
	close(fd);
	text[len] = 0;
	at = strstr(text, "\nctxt ");
	if (!at)
		DIE("/proc/stat has no ctxt");
	return atoll(at + 6);
}

static inline long number(const char *text, long low, long high)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*end || end == text || value < low || value > high) {
		fprintf(stderr, "%s is not a number from %ld to %ld\n", text, low, high);
		exit(2);
	}
	return value;
}

static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Occasional work of the kernel falls into a few batches, which do not change the median. */
static inline double median(double *values, int n)
{
	qsort(values, n, sizeof(*values), by_value);
	return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/* Memory that children share with their parent. */
static inline void *shared(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		DIE("mmap");
	memset(at, 0, size);
	return at;
}

/* Fork a child that ends with its parent. */
static inline pid_t start_child(void)
{
	pid_t child = fork();

	if (child < 0)
		DIE("fork");
	if (child == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return child;
}

#define CLASS_EXT	7	/* linux/sched.h, SCHED_EXT */

/* Whether a scheduler has only those tasks that are SCHED_EXT (contract=class). */
static inline int in_partial_mode(void)
{
	char state[16] = "", all = '1';
	FILE *file = fopen("/sys/kernel/sched_ext/state", "r");

	if (!file || !fgets(state, sizeof(state), file))
		DIE("sched_ext's state");
	fclose(file);
	file = fopen("/sys/kernel/sched_ext/switch_all", "r");
	if (!file || (all = fgetc(file)) == EOF)
		DIE("sched_ext's mode");
	fclose(file);
	return !strcmp(state, "enabled\n") && all == '0';
}

/*
 * Move this process into the cgroup whose cgroup.procs is given. Under contract=class
 * the agent then changes its class, and children that began before would be local tasks.
 */
static inline void join(const char *procs)
{
	int fd = open(procs, O_WRONLY | O_CLOEXEC), tries = 10000;

	if (fd < 0 || write(fd, "0", 1) != 1)
		DIE("%s", procs);
	close(fd);
	while (in_partial_mode() && sched_getscheduler(0) != CLASS_EXT) {
		if (!--tries)
			DIE("still a local task after 10 s");
		usleep(1000);
	}
}

#endif /* BENCH_H */
