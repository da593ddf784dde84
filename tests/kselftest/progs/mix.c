// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * mix SECONDS PAIRS [CGROUP.PROCS [US]]: all kinds of events of a ready queue. PAIRS pairs of tasks compute and
 * exchange messages over stream and datagram sockets, US microseconds at most at a time, reading late so that messages
 * find their receiver queued; one task takes major faults, one forks short children, one sleeps and works in turn.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DIE(what) do { perror(what); _exit(1); } while (0)

static double end;
static int longest = 3000;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void compute(double seconds)
{
	double until = now() + seconds;

	while (now() < until)
		;
}

/* Late reader: it drains its socket at random times, and blocks now and then. */
static void rank(int fd, unsigned int seed)
{
	char buf[64];

	while (now() < end) {
		compute((rand_r(&seed) % longest) / 1e6);
		for (int i = rand_r(&seed) % 4; i > 0; i--)
			send(fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (rand_r(&seed) % 3 == 0) {
			struct pollfd p = { .fd = fd, .events = POLLIN };

			poll(&p, 1, 20);
		}
		for (int i = rand_r(&seed) % 5; i > 0; i--)
			if (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) < 0)
				break;
	}
}

static void faulter(unsigned int seed)
{
	size_t size = 4 << 20;
	char name[] = "/var/tmp/mixXXXXXX", *m;
	int fd = mkstemp(name);
	volatile char seen;

	if (fd < 0 || ftruncate(fd, size))
		DIE("faulter");
	unlink(name);
	m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (m == MAP_FAILED)
		DIE("mmap");
	memset(m, 1, size);
	while (now() < end) {
		madvise(m, size, MADV_PAGEOUT);
		for (int i = 0; i < 20 && now() < end; i++) {
			seen = m[(rand_r(&seed) % (size >> 12)) << 12];
			(void)seen;
			compute(0.0005);
		}
	}
}

static void forker(void)
{
	while (now() < end) {
		for (int i = 0; i < 4; i++)
			if (fork() == 0) {
				compute(0.001);
				_exit(0);
			}
		while (wait(NULL) > 0)
			;
		usleep(20000);
	}
}

static void sleeper(void)
{
	while (now() < end) {
		usleep(5000);
		compute(0.0005);
	}
}

static void pair(int i)
{
	int sv[2], type = i % 2 ? SOCK_DGRAM : SOCK_STREAM;

	if (socketpair(AF_UNIX, type, 0, sv))
		DIE("socketpair");
	for (int side = 0; side < 2; side++)
		if (fork() == 0) {
			close(sv[!side]);
			rank(sv[side], i * 2 + side + 1);
			_exit(0);
		}
	close(sv[0]);
	close(sv[1]);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	if (argc > 3) {
		int fd = open(argv[3], O_WRONLY);

		if (fd < 0 || write(fd, "0", 1) != 1)
			DIE(argv[3]);
		close(fd);
	}
	if (argc > 4 && atoi(argv[4]) > 0)
		longest = atoi(argv[4]);
	end = now() + atof(argv[1]);
	for (int i = 0; i < atoi(argv[2]); i++)
		pair(i);
	if (fork() == 0) { faulter(7); _exit(0); }
	if (fork() == 0) { forker(); _exit(0); }
	if (fork() == 0) { sleeper(); _exit(0); }
	while (wait(NULL) > 0)
		;
	return 0;
}
