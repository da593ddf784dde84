// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * yield N SWITCHES [CGROUP.PROCS]: N processes call sched_yield() without end, so
 * that N tasks are runnable all the time; one of them takes the time. Prints ns
 * per context switch, the median of BATCHES batches and the mean of all, and context
 * switches per sched_yield().
 */
#include <sched.h>
#include <sys/wait.h>

#include "bench.h"

#define BATCHES 10

struct counter {
	volatile long yields;
	char pad[56];
};

struct board {
	volatile int started, stop;
	char pad[56];
	struct counter of[];
};

static long total(const struct board *board, long n)
{
	long sum = 0;

	for (long i = 0; i < n; i++)
		sum += board->of[i].yields;
	return sum;
}

static void turn(struct board *board, long me)
{
	sched_yield();
	board->of[me].yields++;
}

static void take_the_time(struct board *board, long n, long rounds)
{
	long long begin, before, all, sum = 0;
	double each[BATCHES];
	long yields;

	while (board->started < n)
		turn(board, 0);
	for (int i = 0; i < 2; i++)
		turn(board, 0);
	yields = total(board, n);
	all = switches();
	for (int batch = 0; batch < BATCHES; batch++) {
		before = switches();
		begin = now_ns();
		for (long i = 0; i < rounds / BATCHES; i++)
			turn(board, 0);
		begin = now_ns() - begin;
		each[batch] = (double)begin / (switches() - before);
		sum += begin;
	}
	yields = total(board, n) - yields;
	all = switches() - all;
	board->stop = 1;
	printf("{\"value\": %.1f, \"mean\": %.1f, \"switches\": %.3f}\n", median(each, BATCHES), (double)sum / all,
	       (double)all / yields);
	fflush(stdout);
}

static void run(struct board *board, long me, long n, long rounds, int gate)
{
	char byte;

	if (read(gate, &byte, 1) != 0)
		_exit(1);
	__sync_fetch_and_add(&board->started, 1);
	if (me == 0)
		take_the_time(board, n, rounds);
	while (!board->stop)
		turn(board, me);
	_exit(0);
}

int main(int argc, char **argv)
{
	struct board *board;
	long n, rounds;
	int gate[2], failed = 0, status;

	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: yield N SWITCHES [CGROUP.PROCS]\n");
		return 2;
	}
	n = number(argv[1], 2, 10000);
	rounds = number(argv[2], n * BATCHES, 100000000) / n;
	board = shared(sizeof(*board) + n * sizeof(struct counter));
	if (argc == 4)
		join(argv[3]);
	if (pipe(gate))
		DIE("pipe");
	for (long i = 0; i < n; i++) {
		pid_t child = fork();

		if (child < 0)
			DIE("fork %ld of %ld", i, n);
		if (child == 0) {
			close(gate[1]);
			run(board, i, n, rounds, gate[0]);
		}
	}
	close(gate[1]);
	while (wait(&status) > 0)
		failed |= status != 0;
	return failed;
}
