// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * pingpong pipe|unix|udp|tcp ROUNDS [PROCS]: two processes pass one byte to and fro,
 * in the cgroup whose cgroup.procs is PROCS.
 * Prints ns per round trip, the median of BATCHES batches and the mean of all, and
 * context switches per round trip.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "bench.h"

#define WARM_UP 200
#define BATCHES 20

struct end {
	int in, out;
};

static int loopback(int type, struct sockaddr_in *addr)
{
	socklen_t len = sizeof(*addr);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	memset(addr, 0, sizeof(*addr));
	addr->sin_family = AF_INET;
	addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (void *)addr, len) || getsockname(fd, (void *)addr, &len))
		DIE("a socket on the loopback");
	return fd;
}

static void udp_pair(int fds[2])
{
	struct sockaddr_in addr[2];

	fds[0] = loopback(SOCK_DGRAM, &addr[0]);
	fds[1] = loopback(SOCK_DGRAM, &addr[1]);
	if (connect(fds[0], (void *)&addr[1], sizeof(*addr)) || connect(fds[1], (void *)&addr[0], sizeof(*addr)))
		DIE("connect");
}

static void tcp_pair(int fds[2])
{
	struct sockaddr_in addr;
	int one = 1, door = loopback(SOCK_STREAM, &addr);

	if (listen(door, 1) || (fds[0] = socket(AF_INET, SOCK_STREAM, 0)) < 0 ||
	    connect(fds[0], (void *)&addr, sizeof(addr)) || (fds[1] = accept(door, NULL, NULL)) < 0)
		DIE("a TCP connection on the loopback");
	for (int i = 0; i < 2; i++)
		if (setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
			DIE("TCP_NODELAY");
	close(door);
}

static void make_ends(const char *kind, struct end *a, struct end *b)
{
	int fds[2], back[2];

	if (!strcmp(kind, "pipe")) {
		if (pipe(fds) || pipe(back))
			DIE("pipe");
		*a = (struct end){ .in = back[0], .out = fds[1] };
		*b = (struct end){ .in = fds[0], .out = back[1] };
		return;
	}
	if (!strcmp(kind, "udp")) {
		udp_pair(fds);
	} else if (!strcmp(kind, "tcp")) {
		tcp_pair(fds);
	} else if (!strcmp(kind, "unix")) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
			DIE("socketpair");
	} else {
		fprintf(stderr, "%s is not one of pipe, unix, udp, tcp\n", kind);
		exit(2);
	}
	*a = (struct end){ .in = fds[0], .out = fds[0] };
	*b = (struct end){ .in = fds[1], .out = fds[1] };
}

static void pass(struct end end)
{
	char byte = 0;

	if (write(end.out, &byte, 1) != 1 || read(end.in, &byte, 1) != 1)
		DIE("a round trip");
}

int main(int argc, char **argv)
{
	long long begin, before, after, sum = 0;
	double each[BATCHES];
	struct end ours, theirs;
	char byte;
	long rounds;
	pid_t child;

	if (argc != 3 && argc != 4) {
		fprintf(stderr, "usage: pingpong pipe|unix|udp|tcp ROUNDS [PROCS]\n");
		return 2;
	}
	if (argc == 4)
		join(argv[3]);
	rounds = number(argv[2], BATCHES, 100000000) / BATCHES;
	make_ends(argv[1], &ours, &theirs);
	child = fork();
	if (child < 0)
		DIE("fork");
	if (child == 0)
		for (;;)
			if (read(theirs.in, &byte, 1) != 1 || write(theirs.out, &byte, 1) != 1)
				_exit(1);
	for (int i = 0; i < WARM_UP; i++)
		pass(ours);
	before = switches();
	for (int batch = 0; batch < BATCHES; batch++) {
		begin = now_ns();
		for (long i = 0; i < rounds; i++)
			pass(ours);
		begin = now_ns() - begin;
		each[batch] = (double)begin / rounds;
		sum += begin;
	}
	after = switches();
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	rounds *= BATCHES;
	printf("{\"value\": %.1f, \"mean\": %.1f, \"switches\": %.3f}\n", median(each, BATCHES), (double)sum / rounds,
	       (double)(after - before) / rounds);
	return 0;
}
