// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ranks ROUNDS LIMIT_MS: ranks 0 and 1, 2 and 3 and so on pass a byte to and fro, ROUNDS times or until the limit, and
 * wait for it as the library does. Prints ns per round trip, the mean of the pairs, and the context switches in one.
 */
#include <mpi.h>

#include "bench.h"

#define WARM_UP	10	/* connections are made with the first messages */

/* Returns the number of rounds. The first of the two says which is the last. */
static long pass(int rank, long rounds, long long end)
{
	int first = rank % 2 == 0, other = first ? rank + 1 : rank - 1;
	char last = 0;
	long n = 0;

	while (!last) {
		n++;
		if (first) {
			last = n == rounds || now_ns() > end;
			MPI_Send(&last, 1, MPI_CHAR, other, 0, MPI_COMM_WORLD);
		}
		MPI_Recv(&last, 1, MPI_CHAR, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (!first)
			MPI_Send(&last, 1, MPI_CHAR, other, 0, MPI_COMM_WORLD);
	}
	return n;
}

int main(int argc, char **argv)
{
	long long began, before, limit;
	double mine[2], sum[2];
	long rounds, n;
	int rank, size;

	if (argc != 3) {
		fprintf(stderr, "usage: ranks ROUNDS LIMIT_MS\n");
		return 2;
	}
	rounds = number(argv[1], 1, 10000000);
	limit = number(argv[2], 1, 1000000) * 1000000LL;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (size % 2) {
		fprintf(stderr, "%d ranks make no pairs\n", size);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	pass(rank, WARM_UP, now_ns() + limit);
	MPI_Barrier(MPI_COMM_WORLD);
	before = switches();
	began = now_ns();
	n = pass(rank, rounds, began + limit);
	mine[0] = (double)(now_ns() - began) / n;
	mine[1] = (double)(switches() - before) / n;
	MPI_Reduce(mine, sum, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("{\"value\": %.1f, \"switches\": %.3f}\n", sum[0] / size, sum[1] / size);
	MPI_Finalize();
	return 0;
}
