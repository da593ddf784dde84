// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The benchmark `local` of CCS §5: a user at a workstation that alternates CPU activity with interactivity.
 *
 *	local_user PERIOD-MS LOOPS KB PAGES CYCLES HOST SENT RECEIVED
 *	local_user calibrate
 *
 * A cycle: INTERACTIONS times it sleeps, and then makes system calls that wait: a byte goes through a pipe to a program
 * that answers through another one. The time from the end of its sleep, as it was due, to the answer is a system call
 * latency. Between them it reads and writes the next PAGES pages of its KB of memory, and turns a loop LOOPS times; and it
 * asks HOST by UDP (SENT bytes) for RECEIVED bytes, which are read in the next cycle, if they have come. Undisturbed a
 * cycle takes PERIOD-MS plus what it does: it sleeps for PERIOD-MS in all. After CYCLES cycles, or at SIGTERM, it prints
 * one JSON object: cycles, seconds until its memory was filled, seconds of the cycles, seconds of these in which it was not
 * asleep on purpose, CPU seconds, major faults, and the latencies in microseconds.
 *
 * `calibrate` prints how many loops make a millisecond of CPU time here.
 */
#include <netdb.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "compute.h"

#define INTERACTIONS 4
#define MAX_LATENCIES (1 << 16)
#define PORT "7077"
#define HOST 5 /* of the arguments: the one that is no number */

static unsigned int latency_us[MAX_LATENCIES];
static long latencies;

static void compute(long loops)
{
	for (volatile long i = 0; i < loops; i++)
		;
}

/* Start the program that answers; returns the descriptors to ask and to be answered by. */
static void start_answering(int *ask, int *answer)
{
	int to[2], from[2];
	char byte;

	if (pipe(to) != 0 || pipe(from) != 0)
		exit(1);
	if (fork() == 0) {
		close(to[1]);
		close(from[0]);
		while (read(to[0], &byte, 1) == 1 && write(from[1], &byte, 1) == 1)
			;
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	*ask = to[1];
	*answer = from[0];
}

static int connect_to(const char *host)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_DGRAM }, *found;
	int fd;

	if (getaddrinfo(host, PORT, &hints, &found) != 0)
		return -1;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	if (connect(fd, found->ai_addr, found->ai_addrlen) != 0)
		fd = -1;
	freeaddrinfo(found);
	return fd;
}

static void speak(int fd, long sent, long received)
{
	static char buffer[65536];

	while (recv(fd, buffer, sizeof(buffer), 0) > 0)
		;
	snprintf(buffer, 32, "%ld", received);
	if (fd >= 0 && send(fd, buffer, sent, 0) < 0)
		return; /* the answer to the last one: nobody there */
}

/* Sleep for so long; then ask and wait for the answer. Returns when it woke, ns. */
static long long interact(long long sleep_ns, int ask, int answer)
{
	long long due = now_ns(CLOCK_MONOTONIC) + sleep_ns;
	struct timespec at = { due / 1000000000, due % 1000000000 };
	char byte = 0;

	if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL))
		return due;
	if (write(ask, &byte, 1) != 1 || read(answer, &byte, 1) != 1)
		return due;
	if (latencies < MAX_LATENCIES)
		latency_us[latencies++] = (now_ns(CLOCK_MONOTONIC) - due) / 1000;
	return due;
}

static void report(double cycles, double start, double seconds, double active)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	printf("{\"cycles\": %.2f, \"start_s\": %.3f, \"seconds\": %.3f, \"active_s\": %.3f, \"cpu_s\": %.3f, "
	       "\"major_faults\": %ld, \"latency_us\": [", cycles, start, seconds, active, now_ns(CLOCK_PROCESS_CPUTIME_ID) * 1e-9, used.ru_majflt);
	for (long i = 0; i < latencies; i++)
		printf("%s%u", i ? ", " : "", latency_us[i]);
	printf("]}\n");
}

int main(int argc, char **argv)
{
	long numbers[8], period, pages, next = 0, parts = 0;
	double active = 0, start;
	long long began;
	int ask, answer, network;
	char *memory;

	if (argc == 2 && strcmp(argv[1], "calibrate") == 0)
		return printf("%ld\n", loops_per_ms(compute, 200000)) < 0;
	if (argc != 9) {
		fprintf(stderr, "usage: local_user PERIOD-MS LOOPS KB PAGES CYCLES HOST SENT RECEIVED\n");
		return 2;
	}
	for (int i = 0; i < 8; i++)
		numbers[i] = i == HOST ? 0 : number(argv[i + 1], 0);
	period = numbers[0] * 1000000 / INTERACTIONS;
	pages = (numbers[2] * 1024 + PAGE - 1) / PAGE;
	start_answering(&ask, &answer);
	network = connect_to(argv[HOST + 1]);
	memory = aligned_alloc(PAGE, pages * PAGE);
	if (!memory) {
		perror("local_user: memory");
		return 1;
	}
	end_at_sigterm();
	began = now_ns(CLOCK_MONOTONIC);
	memset(memory, 1, pages * PAGE); /* its programs start */
	start = (now_ns(CLOCK_MONOTONIC) - began) * 1e-9;
	began = now_ns(CLOCK_MONOTONIC);

	for (; !ended && parts < numbers[4] * INTERACTIONS; parts++) {
		long long woke;

		if (parts % INTERACTIONS == 0)
			speak(network, numbers[6], numbers[7]);
		woke = interact(period, ask, answer);
		for (long i = 0; i < numbers[3] / INTERACTIONS; i++, next = (next + 1) % pages)
			memory[next * PAGE]++;
		compute(numbers[1] / INTERACTIONS);
		active += (now_ns(CLOCK_MONOTONIC) - woke) * 1e-9;
	}
	report((double)parts / INTERACTIONS, start, (now_ns(CLOCK_MONOTONIC) - began) * 1e-9, active);
	return 0;
}
