// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a switch between tasks takes, and what explicit coscheduling takes (Monito sec. 2): switches PERIODS, as root
 *
 * All processes are on one CPU. Prints one JSON object, us:
 *	switch_us	one task is suspended and another one wakes up: half a round trip of a byte through two pipes, without what
 *			writing and reading the byte takes; W_s + W_w, so T_im (eq. 4)
 *	signal_us	sending a signal to the processes that are stopped: S_sig
 *	stop_us		from the last moment of a distributed process to the first of a local one, of PERIODS stops: T_stop (eq. 2)
 *	start_us	the other way: T_start (eq. 1)
 * All are medians. As in the paper a process dts wakes up by its timer and sends the signals. The distributed process is
 * ahead of the local one, and dts is ahead of both.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../ctl/demo/progs/common.h"

#define ROUNDS 2000
#define RUN_US 18000
#define STOP_US 2000
#define GAP_NS 1000 /* a process that cannot look at the clock for longer did not run */
#define GAPS 65536

struct gaps {
	volatile int count;
	long long from[GAPS], to[GAPS];
};

static int by_size(const void *a, const void *b)
{
	long long one = *(const long long *)a, other = *(const long long *)b;

	return one < other ? -1 : one > other;
}

static double median_us(long long *ns, int count)
{
	qsort(ns, count, sizeof(*ns), by_size);
	return count ? ns[count / 2] * 1e-3 : 0;
}

static void real_time(int priority)
{
	struct sched_param param = { .sched_priority = priority };

	if (sched_setscheduler(0, priority ? SCHED_FIFO : SCHED_OTHER, &param) != 0) {
		perror("sched_setscheduler");
		exit(1);
	}
}

static void pass(int out, int in)
{
	char byte = 0;

	if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1)
		exit(1);
}

static double switch_us(void)
{
	static long long with[ROUNDS], without[ROUNDS];
	int there[2], back[2];
	pid_t child;

	if (pipe(there) || pipe(back))
		exit(1);
	child = fork();
	if (child == 0) {
		char byte;

		close(there[1]);
		while (read(there[0], &byte, 1) == 1)
			if (write(back[1], &byte, 1) != 1)
				break;
		_exit(0);
	}
	for (int i = 0; i < ROUNDS; i++) {
		long long began = now_ns(CLOCK_MONOTONIC);

		pass(there[1], back[0]);
		with[i] = now_ns(CLOCK_MONOTONIC) - began;
	}
	close(there[1]);
	waitpid(child, NULL, 0);
	if (pipe(there))
		exit(1);
	for (int i = 0; i < ROUNDS; i++) {
		long long began = now_ns(CLOCK_MONOTONIC);

		pass(there[1], there[0]);
		without[i] = now_ns(CLOCK_MONOTONIC) - began;
	}
	return median_us(with, ROUNDS) / 2 - median_us(without, ROUNDS);
}

/* Compute, and note when it could not. */
static pid_t busy(struct gaps *gaps, int priority)
{
	long long last, now;
	pid_t child = fork();

	if (child)
		return child;
	real_time(priority);
	for (last = now_ns(CLOCK_MONOTONIC);; last = now) {
		now = now_ns(CLOCK_MONOTONIC);
		if (now - last > GAP_NS && gaps->count < GAPS) {
			gaps->from[gaps->count] = last;
			gaps->to[gaps->count++] = now;
		}
	}
}

static void *shared(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED)
		exit(1);
	return memory;
}

/* From the last moment of one to the first of the other, where a signal was sent between these; ns, or 0. */
static long long between(const struct gaps *of, const struct gaps *to, long long signal)
{
	for (int i = 0; i < of->count; i++) {
		if (of->from[i] > signal || of->to[i] < signal)
			continue;
		for (int k = 0; k < to->count; k++)
			if (to->from[k] < of->from[i] && to->to[k] > signal && to->to[k] < of->to[i])
				return to->to[k] - of->from[i];
	}
	return 0;
}

static void send_signal(pid_t dis, int number, long long *at, long long *took)
{
	*at = now_ns(CLOCK_MONOTONIC);
	kill(dis, number);
	*took = now_ns(CLOCK_MONOTONIC) - *at;
}

int main(int argc, char **argv)
{
	long periods = argc == 2 ? number(argv[1], 1) : 40;
	struct gaps *of_dis = shared(sizeof(*of_dis)), *of_local = shared(sizeof(*of_local));
	long long *at = calloc(2 * periods, sizeof(*at)), *took = calloc(2 * periods, sizeof(*took));
	long long *stops = calloc(periods, sizeof(*stops)), *starts = calloc(periods, sizeof(*starts));
	int stopped = 0, started = 0;
	cpu_set_t one;
	pid_t dis, local;
	double alone;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(one), &one);
	alone = switch_us();
	real_time(2); /* dts; and those it starts begin so */
	local = busy(of_local, 0);
	dis = busy(of_dis, 1);
	for (long i = 0; i < periods; i++) {
		usleep(RUN_US);
		send_signal(dis, SIGSTOP, &at[2 * i], &took[2 * i]);
		usleep(STOP_US);
		send_signal(dis, SIGCONT, &at[2 * i + 1], &took[2 * i + 1]);
	}
	kill(dis, SIGKILL);
	kill(local, SIGKILL);
	waitpid(dis, NULL, 0);
	waitpid(local, NULL, 0);
	for (long i = 0; i < periods; i++) {
		stopped += (stops[stopped] = between(of_dis, of_local, at[2 * i])) > 0;
		started += (starts[started] = between(of_local, of_dis, at[2 * i + 1])) > 0;
	}
	printf("{\"switch_us\": %.3f, \"signal_us\": %.3f, \"stop_us\": %.3f, \"start_us\": %.3f, \"stops\": %d, \"starts\": %d}\n",
	       alone, median_us(took, 2 * periods), median_us(stops, stopped), median_us(starts, started), stopped, started);
	return 0;
}
