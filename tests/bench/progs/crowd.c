// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * crowd N ROUNDS CGROUP.PROCS: in one job, N processes call sched_yield() without end
 * and two more pass a byte to and fro over UDP: each message wakes a task that, by its
 * messages, may overtake a long queue of tasks nobody has overtaken yet. Prints ns per
 * round trip. Ends after ROUNDS or 5 s.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "bench.h"

static void udp_pair(int fds[2])
{
	struct sockaddr_in addr[2];
	socklen_t len = sizeof(addr[0]);

	for (int i = 0; i < 2; i++) {
		memset(&addr[i], 0, len);
		addr[i].sin_family = AF_INET;
		addr[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		fds[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (fds[i] < 0 || bind(fds[i], (void *)&addr[i], len) ||
		    getsockname(fds[i], (void *)&addr[i], &len))
			DIE("a socket on the loopback");
	}
	if (connect(fds[0], (void *)&addr[1], len) || connect(fds[1], (void *)&addr[0], len))
		DIE("connect");
}

int main(int argc, char **argv)
{
	long long begin, end, before, after;
	long n, rounds, done = 0;
	int fds[2];
	pid_t *children;
	char byte = 0;

	if (argc != 4) {
		fprintf(stderr, "usage: crowd N ROUNDS CGROUP.PROCS\n");
		return 2;
	}
	n = number(argv[1], 0, 10000);
	rounds = number(argv[2], 1, 10000000);
	children = calloc(n + 1, sizeof(*children));
	if (!children)
		DIE("memory for %ld children", n);
	join(argv[3]);
	udp_pair(fds);
	for (long i = 0; i < n; i++) {
		children[i] = start_child();
		while (!children[i])
			sched_yield();
	}
	children[n] = start_child();
	while (!children[n])
		if (read(fds[1], &byte, 1) != 1 || write(fds[1], &byte, 1) != 1)
			_exit(1);
	before = switches();
	begin = now_ns();
	while (done < rounds && now_ns() - begin < 5000000000LL) {
		if (write(fds[0], &byte, 1) != 1 || read(fds[0], &byte, 1) != 1)
			DIE("a round trip");
		done++;
	}
	end = now_ns();
	after = switches();
	for (long i = 0; i <= n; i++)
		kill(children[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	printf("{\"value\": %.1f, \"switches\": %.3f, \"rounds\": %ld}\n", (double)(end - begin) / done,
	       (double)(after - before) / done, done);
	return 0;
}
