// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Shared by the four kernels: a parallel job with a working set, which waits at a gate, checks its own result and
 * prints its times. Each of is.c, mg.c, cg.c and ep.c communicates as its namesake of the NAS benchmarks does; all
 * compute with integers, which an emulated CPU does at a speed that does not depend on the values.
 *
 *	KERNEL KB ROUNDS WORK GATE JID [once]
 *
 * Every rank uses KB of memory, all of it in each of ROUNDS rounds; WORK scales the CPU time of a round. Once up, ranks
 * print "rank NODE PID" and sleep until the file GATE exists on their node. Then they enter the job JID, where there is an
 * agent, as `ctl run` does for a program that it starts, and allocate their memory. Both end with the run. So only the
 * working set belongs to the job: memory is charged to the cgroup in which the process first touches it. The MPI
 * library's pages were touched before, and are locked. At the end rank 0 prints one JSON object: seconds since the gate
 * opened, rounds, whether the result was right, and summed over the ranks, since then, major faults, CPU seconds, and
 * CPU seconds inside MPI calls, where ranks that wait spin. When the gate is gone they wait for it anew; with "once"
 * they end instead, as soon as their run has.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../../../ctl/demo/progs/common.h"

#define GATE_POLL_US 20000
#define AGENT "/run/cosched/agent.sock"

static int rank, ranks;
static char outside[4200]; /* cgroup.procs of the cgroup that it is in before and after the job */
static long work;
static double cpu_before; /* CPU seconds until the gate opened */
static double waiting; /* CPU seconds spent inside MPI calls since then */

/* A kernel: prepare BYTES of memory, do one round (from 1 on), and say whether the result of ROUNDS rounds is right here. */
static void prepare(char *memory, size_t bytes);
static void one_round(long number);
static int right(long rounds);

static double cpu_now(void)
{
	return now_ns(CLOCK_PROCESS_CPUTIME_ID) * 1e-9;
}

/* Make an MPI call, and count its CPU time as waiting. */
#define WAITING(call)                              \
	do {                                       \
		double before_call = cpu_now();    \
		call;                              \
		waiting += cpu_now() - before_call; \
	} while (0)

static void fail(const char *what)
{
	perror(what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void nas_report(double seconds, long faults_before, long rounds, int ok)
{
	struct rusage used;
	double mine[4], all[4];

	getrusage(RUSAGE_SELF, &used);
	mine[0] = used.ru_majflt - faults_before;
	mine[1] = cpu_now() - cpu_before;
	mine[2] = waiting;
	mine[3] = ok;
	MPI_Reduce(mine, all, 4, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("{\"seconds\": %.3f, \"rounds\": %ld, \"right\": %s, \"major_faults\": %.0f, \"cpu_s\": %.3f, "
		       "\"mpi_cpu_s\": %.3f}\n",
		       seconds, rounds, all[3] == ranks ? "true" : "false", all[0], all[1], all[2]);
}

static void run(size_t bytes, long rounds)
{
	double began = MPI_Wtime();
	struct rusage before;
	char *memory;
	int ok;

	cpu_before = cpu_now();
	waiting = 0;
	getrusage(RUSAGE_SELF, &before);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		fail("mmap");
	madvise(memory, bytes, MADV_NOHUGEPAGE); /* one fault, one page */
	prepare(memory, bytes);
	for (long number = 1; number <= rounds; number++)
		one_round(number);
	ok = right(rounds);
	nas_report(MPI_Wtime() - began, before.ru_majflt, rounds, ok);
	munmap(memory, bytes);
}

static void note_cgroup(void)
{
	char line[4096] = "";
	FILE *file = fopen("/proc/self/cgroup", "r");

	if (!file || !fgets(line, sizeof(line), file) || strncmp(line, "0::", 3) != 0)
		fail("/proc/self/cgroup");
	fclose(file);
	line[strcspn(line, "\n")] = '\0';
	snprintf(outside, sizeof(outside), "/sys/fs/cgroup%s/cgroup.procs", line + 3);
}

/* Be in the job, and say what it needs here, as `ctl run --memory` does; returns whether this node has an agent. */
static int enter(const char *jid, size_t bytes)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = AGENT };
	int agent = socket(AF_UNIX, SOCK_STREAM, 0);
	char text[512] = "";
	ssize_t got;

	if (connect(agent, (struct sockaddr *)&address, sizeof(address)) != 0) {
		close(agent);
		return 0;
	}
	snprintf(text, sizeof(text), "{\"v\":1,\"op\":\"enter\",\"jid\":\"%s\",\"memory\":%zu}\n", jid, bytes);
	got = write(agent, text, strlen(text)) < 0 ? -1 : read(agent, text, sizeof(text) - 1);
	close(agent);
	text[got > 0 ? got : 0] = '\0';
	if (!strstr(text, "\"ok\":true")) {
		fprintf(stderr, "job %s is refused: %s\n", jid, text);
		fail("enter");
	}
	return 1;
}

static void leave(void)
{
	int procs = open(outside, O_WRONLY);

	if (procs < 0 || write(procs, "0\n", 2) != 2)
		fail(outside);
	close(procs);
}

/* Sleep until the gate is there, or is not. */
static void await(const char *gate, int there)
{
	while ((access(gate, F_OK) == 0) != there)
		usleep(GATE_POLL_US);
}

int main(int argc, char **argv)
{
	char node[64];
	int entered, once;
	long rounds;
	size_t bytes;

	once = argc == 7 && strcmp(argv[6], "once") == 0;
	if (argc != 6 + once) {
		fprintf(stderr, "usage: KERNEL KB ROUNDS WORK GATE JID [once]\n");
		return 2;
	}
	bytes = number(argv[1], 1) * 1024;
	rounds = number(argv[2], 1);
	work = number(argv[3], 1);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	setvbuf(stdout, NULL, _IOLBF, 0);
	gethostname(node, sizeof(node));
	note_cgroup();
	if (mlockall(MCL_CURRENT) != 0)
		fail("mlockall");
	printf("rank %s %d\n", node, getpid());
	for (;;) {
		await(argv[4], 1);
		entered = enter(argv[5], bytes);
		run(bytes, rounds);
		if (entered)
			leave();
		if (once)
			break;
		await(argv[4], 0);
	}
	MPI_Finalize();
	return 0;
}
