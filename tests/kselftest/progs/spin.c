// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A rank that spins: spin WHAT SECONDS COMPUTE-US
 *
 * For SECONDS it computes COMPUTE-US and then does WHAT: "epoll", "poll" or "select" for a message that never comes,
 * without waiting; "yield"; or nothing for any other word. Prints its CPU time in milliseconds and the number of its
 * rounds.
 */
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>

static double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void look(const char *what, int epoll, int fd)
{
	struct pollfd waited = { .fd = fd, .events = POLLIN };
	struct timeval at_once = { 0 };
	struct epoll_event event;
	fd_set set;

	if (!strcmp(what, "epoll")) {
		epoll_wait(epoll, &event, 1, 0);
	} else if (!strcmp(what, "poll")) {
		poll(&waited, 1, 0);
	} else if (!strcmp(what, "select")) {
		FD_ZERO(&set);
		FD_SET(fd, &set);
		select(fd + 1, &set, NULL, NULL, &at_once);
	} else if (!strcmp(what, "yield")) {
		sched_yield();
	}
}

int main(int argc, char **argv)
{
	struct epoll_event event = { .events = EPOLLIN };
	double compute, end;
	int pair[2], epoll;
	long rounds = 0;

	if (argc != 4 || socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) < 0)
		return 2;
	epoll = epoll_create1(0);
	epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &event);
	compute = atof(argv[3]) * 1e-6;
	end = now(CLOCK_MONOTONIC) + atof(argv[2]);
	while (now(CLOCK_MONOTONIC) < end) {
		double until = now(CLOCK_THREAD_CPUTIME_ID) + compute;

		while (compute > 0 && now(CLOCK_THREAD_CPUTIME_ID) < until)
			;
		look(argv[1], epoll, pair[0]);
		rounds++;
	}
	printf("%.0f %ld\n", now(CLOCK_THREAD_CPUTIME_ID) * 1e3, rounds);
	return 0;
}
