// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * receivers N ROUNDS CGROUP.PROCS: in one job, N processes that have read a message each, so that their sockets count
 * for them, call sched_yield() without end; one more sends each of them a message, ROUNDS times over: so messages
 * arrive for tasks anywhere in a long queue. Prints ns per message.
 */
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "bench.h"

/* A child that answers one message and, once the gate is closed on the parent's side, only yields. */
static pid_t start(int *end, int gate[2])
{
	int pair[2];
	char byte = 0;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair))
		DIE("a pair of sockets");
	child = fork();
	if (child < 0)
		DIE("fork");
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (read(pair[1], &byte, 1) != 1 || write(pair[1], &byte, 1) != 1)
			_exit(1);
		close(gate[1]);
		if (read(gate[0], &byte, 1))
			_exit(1);
		for (;;)
			sched_yield();
	}
	close(pair[1]);
	*end = pair[0];
	if (write(*end, &byte, 1) != 1 || read(*end, &byte, 1) != 1)
		DIE("a first message");
	return child;
}

int main(int argc, char **argv)
{
	long long begin, end, before, after;
	long n, rounds, sent = 0;
	pid_t *children;
	int *ends, gate[2];
	char byte = 0;

	if (argc != 4) {
		fprintf(stderr, "usage: receivers N ROUNDS CGROUP.PROCS\n");
		return 2;
	}
	n = number(argv[1], 1, 10000);
	rounds = number(argv[2], 1, 8);	/* they stay unread: a socket takes ten */
	if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){ n + 64, n + 64 }))
		DIE("%ld open files", n + 64);
	children = calloc(n, sizeof(*children));
	ends = calloc(n, sizeof(*ends));
	if (!children || !ends || pipe(gate))
		DIE("memory for %ld children", n);
	join(argv[3]);
	for (long i = 0; i < n; i++)
		children[i] = start(&ends[i], gate);
	close(gate[1]);
	before = switches();
	begin = now_ns();
	for (long round = 0; round < rounds; round++)
		for (long i = 0; i < n; i++)
			sent += send(ends[i], &byte, 1, MSG_DONTWAIT) == 1;
	end = now_ns();
	after = switches();
	for (long i = 0; i < n; i++)
		kill(children[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	if (!sent)
		DIE("no message was sent");
	printf("{\"value\": %.1f, \"switches\": %.3f, \"rounds\": %ld}\n", (double)(end - begin) / sent,
	       (double)(after - before) / sent, sent);
	return 0;
}
