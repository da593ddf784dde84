// SPDX-License-Identifier: GPL-2.0-or-later
/* Each rank prints its node and cgroup, meets the others, stays for so long, and meets them again: mpi_hold SECONDS. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char host[64], group[256] = "";
	int rank, sum = 0;
	FILE *file;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	gethostname(host, sizeof(host));
	file = fopen("/proc/self/cgroup", "re");
	if (!file || !fgets(group, sizeof(group), file))
		return 1;
	group[strcspn(group, "\n")] = '\0';
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	printf("rank %d of sum %d on %s in %s\n", rank, sum, host, group);
	fflush(stdout);
	sleep(argc > 1 ? atoi(argv[1]) : 0);
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank && argc > 1 && atoi(argv[1]))
		printf("all met again\n");
	MPI_Finalize();
	return 0;
}
