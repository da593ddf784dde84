// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The cost of waiting: mpi_wait ROUNDS LIMIT SECONDS HOG-PID, two ranks
 *
 * ROUNDS ping-pongs of one byte, or as many as there are in LIMIT seconds, then rank 0 waits in MPI_Recv for a message that rank 1 sends after it has slept SECONDS.
 * HOG-PID is a busy local task on rank 0's node, 0: there is none. Rank 0 prints one JSON object: the round trips, ms, in
 * order of size at 50 % and 99 % and their mean; how long it waited, s, its CPU time meanwhile, s, and the hog's, s.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "percentile.h"

static double cpu_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

/* CPU seconds of another process. */
static double cpu_of(int pid)
{
	unsigned long long ns = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	file = pid ? fopen(path, "r") : NULL;
	if (file) {
		if (fscanf(file, "%llu", &ns) != 1)
			ns = 0;
		fclose(file);
	}
	return ns * 1e-9;
}

static int by_size(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;

	return d < 0 ? -1 : d > 0;
}

/* Returns the number of rounds. Rank 0 says which is the last. */
static int ping_pong(double *took, int rounds, double limit, int rank)
{
	double end = MPI_Wtime() + limit;
	char byte = 0;
	int i = 0;

	do {
		double began = MPI_Wtime();

		if (rank == 0) {
			byte = i + 1 == rounds || began > end;
			MPI_Send(&byte, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
			MPI_Recv(&byte, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(&byte, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(&byte, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
		}
		took[i++] = (MPI_Wtime() - began) * 1e3;
	} while (!byte);
	return i;
}

int main(int argc, char **argv)
{
	double *took, sum = 0, began, cpu, hog;
	int rank, rounds, limit, seconds, pid;
	char byte = 0;

	if (argc != 5)
		return 2;
	rounds = atoi(argv[1]);
	limit = atoi(argv[2]);
	seconds = atoi(argv[3]);
	pid = atoi(argv[4]);
	took = calloc(rounds, sizeof(*took));
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	ping_pong(took, 30, limit, rank);	/* connections are made with the first messages */
	rounds = ping_pong(took, rounds, limit, rank);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 1) {
		sleep(seconds);
		MPI_Send(&byte, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
	} else {
		began = MPI_Wtime();
		cpu = cpu_now();
		hog = cpu_of(pid);
		MPI_Recv(&byte, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		cpu = cpu_now() - cpu;
		hog = cpu_of(pid) - hog;
		began = MPI_Wtime() - began;
		for (int i = 0; i < rounds; i++)
			sum += took[i];
		qsort(took, rounds, sizeof(*took), by_size);
		printf("{\"mean_ms\": %.3f, \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"waited_s\": %.3f, \"cpu_s\": %.3f, "
		       "\"hog_s\": %.3f}\n", sum / rounds, took[rank_of(rounds, 50)], took[rank_of(rounds, 99)], began, cpu, hog);
	}
	MPI_Finalize();
	return 0;
}
