// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * wakers N sleep|compute ROUNDS [wait]: N processes, each with a Unix socket, sleep until a
 * message comes, or compute and are found queued. One more computes, sends each of them
 * a message, one right after the other, and computes on, or sleeps while they do. Prints
 * in how many rounds it did so, in how many of these it lost the CPU between the first
 * and the last message, and the median of the times from the last one until all of the N
 * had run, in microseconds: as long as it computed, if some did not.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST	64
#define MOST_ROUNDS	64
#define SETTLE_US	20000	/* an answer that is read wakes its sender once more */
#define COMPUTE_US	100000

static volatile struct { long long sent, last; int ran; } *seen;

static long long us(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static void compute(long long length)
{
	long long end = us(CLOCK_PROCESS_CPUTIME_ID) + length;

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
static void child(int end, int sleeps, int waits)
{
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(end, &byte, 1) != 1 || write(end, &byte, 1) != 1)
		_exit(1);
	if (sleeps && read(end, &byte, 1) != 1)
		_exit(1);
	while (!sleeps && !seen->sent)
		;
	seen->last = us(CLOCK_MONOTONIC);
	__sync_fetch_and_add(&seen->ran, 1);
	if (waits)
		compute(SETTLE_US);
	_exit(0);
}

/* One round: how often the sender lost the CPU; *after is the time until the last of the others ran, us. */
static long sent(int n, int sleeps, int waits, long long *after)
{
	long before, lost;
	int pair[2], ends[MOST];
	char byte = 0;

	seen->sent = seen->last = seen->ran = 0;
	for (int i = 0; i < n; i++) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
			exit(1);
		if (!fork())
			child(pair[1], sleeps, waits);
		close(pair[1]);
		ends[i] = pair[0];
		if (write(ends[i], &byte, 1) != 1 || read(ends[i], &byte, 1) != 1)
			exit(1);
	}
	usleep(SETTLE_US);
	compute(COMPUTE_US);
	before = losses();
	for (int i = 0; i < n; i++)
		if (write(ends[i], &byte, 1) != 1)
			exit(1);
	lost = losses() - before;
	seen->sent = us(CLOCK_MONOTONIC);
	if (waits)
		usleep(COMPUTE_US);
	else
		compute(COMPUTE_US);
	*after = seen->ran == n ? seen->last - seen->sent : COMPUTE_US;
	while (wait(NULL) > 0)
		;
	for (int i = 0; i < n; i++)
		close(ends[i]);
	return lost;
}

static int ascending(const void *a, const void *b)
{
	long long left = *(const long long *)a, right = *(const long long *)b;

	return (left > right) - (left < right);
}

int main(int argc, char **argv)
{
	int n = argc > 3 ? atoi(argv[1]) : 0, rounds = argc > 3 ? atoi(argv[3]) : 0, lossy = 0;
	int waits = argc > 4 && !strcmp(argv[4], "wait");
	long long after[MOST_ROUNDS];

	if (n < 1 || n > MOST || rounds < 1 || rounds > MOST_ROUNDS)
		return 2;
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (seen == MAP_FAILED)
		return 1;
	for (int i = 0; i < rounds; i++)
		lossy += sent(n, !strcmp(argv[2], "sleep"), waits, &after[i]) > 0;
	qsort(after, rounds, sizeof(*after), ascending);
	printf("%d %d %lld\n", rounds, lossy, after[rounds / 2]);
	return 0;
}
