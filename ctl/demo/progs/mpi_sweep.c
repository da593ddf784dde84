// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A parallel job with a working set: every rank updates its part of a ring of pages, sweep after sweep.
 *
 *	mpi_sweep KB-PER-RANK SWEEPS PASSES EXCHANGE GATE
 *
 * One sweep visits the rank's pages in order and updates each PASSES times, so a page costs a known amount of CPU and
 * is needed again one sweep later. A node with too little memory pays one page-in per page and sweep. Only these pages
 * are paged; the MPI library's pages are locked. After every EXCHANGE pages the ranks pass halos around the ring, and
 * each sweep ends with a reduction, so a rank that waits for a page makes its peers wait for it.
 *
 * Each rank prints "rank PID", and rank 0 "ready" once all are up; they then sleep until the file GATE exists, so that
 * compared jobs start together. Rank 0 prints "sweep N OF" after each sweep and at the end one JSON object: seconds
 * since the gate opened, and over all ranks major faults, CPU seconds, CPU seconds inside MPI calls (waiting ranks spin
 * there), voluntary and involuntary switches, and a checksum that depends on nothing but the arguments and the number
 * of ranks.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define GATE_POLL_US 5000
#define CELLS (PAGE / sizeof(uint64_t))

static double waiting; /* CPU seconds spent inside MPI calls */

static double cpu_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

/* Send the last computed cell to the next rank, and keep the previous rank's cell as the left border. */
static uint64_t exchange(uint64_t mine, int rank, int ranks)
{
	uint64_t theirs;
	double before = cpu_now();

	MPI_Sendrecv(&mine, 1, MPI_UINT64_T, (rank + 1) % ranks, 0, &theirs, 1, MPI_UINT64_T,
		     (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	waiting += cpu_now() - before;
	return theirs;
}

static uint64_t reduce(uint64_t mine)
{
	uint64_t all;
	double before = cpu_now();

	MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	waiting += cpu_now() - before;
	return all;
}

/*
 * Update one page from the value to its left and return its last cell. Integers: an emulated CPU computes them at a
 * speed that does not depend on the values.
 */
static uint64_t update(uint64_t *cells, uint64_t left, long passes)
{
	for (long pass = 0; pass < passes; pass++) {
		uint64_t before = left;

		for (unsigned long i = 0; i < CELLS; i++)
			before = cells[i] = 5 * cells[i] + before + 1;
	}
	return cells[CELLS - 1];
}

static uint64_t sweep(uint64_t *memory, long pages, long passes, long every, int rank, int ranks)
{
	uint64_t left = rank, sum = 0;

	for (long page = 0; page < pages; page++) {
		left = update(memory + page * CELLS, left, passes);
		sum += left;
		if ((page + 1) % every == 0)
			left = exchange(left, rank, ranks);
	}
	return reduce(sum);
}

static long number(const char *text, const char *name)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*end != '\0' || value < 1) {
		fprintf(stderr, "mpi_sweep: %s is %s, not a number from 1 on\n", name, text);
		exit(2);
	}
	return value;
}

static void report(double seconds, uint64_t checksum, int rank)
{
	struct rusage used;
	double mine[5], all[5];

	getrusage(RUSAGE_SELF, &used);
	mine[0] = used.ru_majflt;
	mine[1] = cpu_now();
	mine[2] = waiting;
	mine[3] = used.ru_nvcsw;
	mine[4] = used.ru_nivcsw;
	MPI_Reduce(mine, all, 5, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("{\"seconds\": %.6f, \"major_faults\": %.0f, \"cpu_s\": %.6f, \"mpi_cpu_s\": %.6f, "
		       "\"switches\": %.0f, \"preemptions\": %.0f, \"checksum\": \"%016llx\"}\n",
		       seconds, all[0], all[1], all[2], all[3], all[4],
		       (unsigned long long)checksum);
}

int main(int argc, char **argv)
{
	int rank, ranks;
	double started;
	uint64_t checksum = 0, *memory;
	long pages, sweeps, passes, every;

	if (argc != 6) {
		fprintf(stderr, "usage: mpi_sweep KB-PER-RANK SWEEPS PASSES EXCHANGE GATE\n");
		return 2;
	}
	pages = (number(argv[1], "KB-PER-RANK") * 1024 + PAGE - 1) / PAGE;
	sweeps = number(argv[2], "SWEEPS");
	passes = number(argv[3], "PASSES");
	every = number(argv[4], "EXCHANGE");

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (mlockall(MCL_CURRENT) != 0) {
		perror("mpi_sweep: mlockall");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		perror("mpi_sweep: mmap");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	madvise(memory, pages * PAGE, MADV_NOHUGEPAGE); /* one fault, one page */

	printf("rank %d\n", getpid());
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("ready\n");
	while (access(argv[5], F_OK) != 0)
		usleep(GATE_POLL_US);
	started = MPI_Wtime();

	for (long done = 1; done <= sweeps; done++) {
		checksum = sweep(memory, pages, passes, every, rank, ranks);
		if (rank == 0)
			printf("sweep %ld %ld\n", done, sweeps);
	}
	report(MPI_Wtime() - started, checksum, rank);
	MPI_Finalize();
	return 0;
}
