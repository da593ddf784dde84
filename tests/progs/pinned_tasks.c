// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pinned tasks that compute for a given CPU time and then end; tasks of a job exchange messages.
 *
 *	pinned_tasks CGROUP.PROCS JOBS {GAPS-US}... CPU:JOB:MS...
 *
 * Each CPU:JOB:MS is a task; JOB - is a local one, 0 to 9 a job's, whose tasks enter the cgroup and make a ring, over
 * stream sockets, in the order they are given. After each of the job's GAPS of CPU time, numbers with commas between
 * them, a task sends a message to the next and reads one of the one before it, as tasks of the simulator's model csm do
 * (B-CSM-24). All begin at once, with a tick, woken in their order.
 *
 * Prints a JSON line for each task that ends, in the order they do: the task's number, the time since the beginning and
 * the CPU time that each task has had by then, in microseconds.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../ctl/demo/progs/common.h"

#define MOST	64
#define MOST_JOBS	10
#define MOST_GAPS	4096
#define DIE(what) do { perror("pinned_tasks: " what); exit(1); } while (0)

struct task {
	long cpu, job, ms;
	int next, before;	/* sockets to and from its neighbours in the ring; -1: none */
	int go[2];		/* a byte here begins it */
	pid_t pid;
	long long had;		/* ns of CPU when it ended; -1: it has not */
};

struct gaps {
	long us[MOST_GAPS];
	int nr;
};

static struct task tasks[MOST];
static struct gaps gaps[MOST_JOBS];
static int nr, nr_jobs, said[2];

static void parse_gaps(char *text, struct gaps *g)
{
	for (char *one = strtok(text, ","); one; one = strtok(NULL, ",")) {
		if (g->nr == MOST_GAPS) {
			fprintf(stderr, "more than %d gaps\n", MOST_GAPS);
			exit(2);
		}
		g->us[g->nr++] = number(one, 0);
	}
}

static void parse(const char *text, struct task *t)
{
	char job;

	if (sscanf(text, "%ld:%c:%ld", &t->cpu, &job, &t->ms) != 3 || t->ms < 1 ||
	    (job != '-' && (job < '0' || job >= '0' + nr_jobs))) {
		fprintf(stderr, "%s is not CPU:JOB:MS\n", text);
		exit(2);
	}
	t->job = job == '-' ? -1 : job - '0';
	t->next = t->before = -1;
	t->had = -1;
	if (pipe(t->go))
		DIE("pipe");
}

/* Join a job's tasks: each to the next, the last to the first. */
static void make_ring(long job)
{
	int first = -1, last = -1, pair[2];

	for (int i = 0; i < nr; i++) {
		if (tasks[i].job != job)
			continue;
		if (first < 0)
			first = i;
		else if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
			DIE("socketpair");
		else
			tasks[last].next = pair[0], tasks[i].before = pair[1];
		last = i;
	}
	if (first == last)
		return;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		DIE("socketpair");
	tasks[last].next = pair[0];
	tasks[first].before = pair[1];
}

static void exchange(struct task *t)
{
	char byte = 0;

	if (t->next >= 0 && send(t->next, &byte, 1, MSG_NOSIGNAL) != 1) {
		close(t->next);		/* the reader has ended */
		t->next = -1;
	}
	if (t->before >= 0 && read(t->before, &byte, 1) != 1) {
		close(t->before);	/* the writer has ended: no message to await */
		t->before = -1;
	}
}

static void compute_until(long long cpu_ns)
{
	while (now_ns(CLOCK_THREAD_CPUTIME_ID) < cpu_ns)
		for (volatile int i = 0; i < 2000; i++)
			;
}

static void be(struct task *t, int number, const char *procs)
{
	cpu_set_t cpus;
	long long due, end;
	char byte;

	CPU_ZERO(&cpus);
	CPU_SET(t->cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		DIE("sched_setaffinity");
	for (int i = 0; i < nr; i++) {	/* an end is seen when the last writer has gone */
		if (&tasks[i] == t)
			continue;
		close(tasks[i].next);
		close(tasks[i].before);
	}
	if (t->job >= 0) {
		int fd = open(procs, O_WRONLY);

		if (fd < 0 || write(fd, "0", 1) != 1)
			DIE("cgroup.procs");
		close(fd);
		exchange(t);	/* whoever observes sockets knows now whose they are */
	}
	if (write(said[1], &number, sizeof(number)) != sizeof(number) || read(t->go[0], &byte, 1) != 1)
		DIE("pipe");
	due = now_ns(CLOCK_THREAD_CPUTIME_ID);
	end = due + t->ms * 1000000LL;
	for (int i = 0; t->next >= 0 && i < gaps[t->job].nr; i++) {
		due += gaps[t->job].us[i] * 1000LL;
		if (due >= end)
			break;
		compute_until(due);
		exchange(t);
	}
	compute_until(end);
	if (write(said[1], &number, sizeof(number)) != sizeof(number))
		DIE("pipe");
	_exit(0);
}

/* The coarse clock goes on with each tick. */
static void await_tick(void)
{
	long long then = now_ns(CLOCK_MONOTONIC_COARSE);

	while (now_ns(CLOCK_MONOTONIC_COARSE) == then)
		;
}

static long long cpu_ns_of(const struct task *t)
{
	clockid_t clock;

	if (t->had >= 0)
		return t->had;
	if (clock_getcpuclockid(t->pid, &clock))
		DIE("clock_getcpuclockid");
	return now_ns(clock);
}

/* The next task that says something, of which each does twice: it is ready, it ends. */
static int hear(void)
{
	int number;

	if (read(said[0], &number, sizeof(number)) != sizeof(number))
		DIE("a task has died");
	return number;
}

int main(int argc, char **argv)
{
	struct sched_param above = { .sched_priority = 1 };
	long long began, cpu_then[MOST], now;
	int first;

	nr_jobs = argc > 3 ? number(argv[2], 0) : 0;
	first = 3 + nr_jobs;
	nr = argc - first;
	if (nr < 1 || nr > MOST || nr_jobs > MOST_JOBS) {
		fprintf(stderr, "usage: pinned_tasks CGROUP.PROCS JOBS {GAPS-US}... CPU:JOB:MS...\n");
		return 2;
	}
	for (int i = 0; i < nr_jobs; i++)
		parse_gaps(argv[3 + i], &gaps[i]);
	for (int i = 0; i < nr; i++)
		parse(argv[first + i], &tasks[i]);
	for (long job = 0; job < nr_jobs; job++)
		make_ring(job);
	if (pipe(said))
		DIE("pipe");
	for (int i = 0; i < nr; i++) {
		tasks[i].pid = fork();
		if (tasks[i].pid < 0)
			DIE("fork");
		if (!tasks[i].pid)
			be(&tasks[i], i, argv[1]);
	}
	close(said[1]);
	for (int i = 0; i < nr; i++) {
		close(tasks[i].next);
		close(tasks[i].before);
	}
	for (int i = 0; i < nr; i++)
		hear();
	usleep(100000);		/* who was heard last waits by now, too */
	if (sched_setscheduler(0, SCHED_FIFO, &above))	/* ahead of all that is observed */
		DIE("sched_setscheduler");
	for (int i = 0; i < nr; i++)
		cpu_then[i] = cpu_ns_of(&tasks[i]);
	await_tick();
	began = now_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < nr; i++)
		if (write(tasks[i].go[1], "", 1) != 1)
			DIE("pipe");
	for (int left = nr; left; left--) {
		int ended = hear();

		now = now_ns(CLOCK_MONOTONIC);
		printf("{\"task\": %d, \"at_us\": %lld, \"cpu_us\": [", ended, (now - began) / 1000);
		for (int i = 0; i < nr; i++)
			printf("%s%lld", i ? ", " : "", (cpu_ns_of(&tasks[i]) - cpu_then[i]) / 1000);
		printf("]}\n");
		tasks[ended].had = cpu_ns_of(&tasks[ended]);
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
