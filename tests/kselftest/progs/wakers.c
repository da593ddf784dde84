// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * wakers N sleep|compute: N processes, each with a Unix socket, sleep until a message
 * comes, or compute and are found queued. One more computes, sends each of them a
 * message, one right after the other, and computes on. Prints how often it lost the CPU
 * from the first to the last message, and the time in microseconds from the last one
 * until one of the N ran, -1: none did while it computed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST	64
#define COMPUTE_US	100000

static volatile struct { long long sent, ran; } *seen;

static long long us(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static void compute(void)
{
	long long end = us(CLOCK_PROCESS_CPUTIME_ID) + COMPUTE_US;

	while (us(CLOCK_PROCESS_CPUTIME_ID) < end)
		;
}

static long losses(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_nivcsw;
}

/* The first message makes the socket the child's; the second is the one that counts. */
static void child(int end, int sleeps)
{
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(end, &byte, 1) != 1 || write(end, &byte, 1) != 1)
		_exit(1);
	if (sleeps && read(end, &byte, 1) != 1)
		_exit(1);
	while (!seen->sent)
		;
	__sync_val_compare_and_swap(&seen->ran, 0, us(CLOCK_MONOTONIC));
	_exit(0);
}

int main(int argc, char **argv)
{
	int n = argc == 3 ? atoi(argv[1]) : 0, pair[2], ends[MOST];
	long before, after;
	char byte = 0;

	if (n < 1 || n > MOST)
		return 2;
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (seen == MAP_FAILED)
		return 1;
	for (int i = 0; i < n; i++) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
			return 1;
		if (!fork())
			child(pair[1], !strcmp(argv[2], "sleep"));
		ends[i] = pair[0];
		if (write(ends[i], &byte, 1) != 1 || read(ends[i], &byte, 1) != 1)
			return 1;
	}
	compute();
	before = losses();
	for (int i = 0; i < n; i++)
		if (write(ends[i], &byte, 1) != 1)
			return 1;
	after = losses();
	seen->sent = us(CLOCK_MONOTONIC);
	compute();
	printf("%ld %lld\n", after - before, seen->ran ? seen->ran - seen->sent : -1);
	return 0;
}
