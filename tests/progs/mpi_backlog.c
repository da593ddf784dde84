// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Queues of known length in the MPI library: mpi_backlog MESSAGES RECEIVES GATE, two ranks
 *
 * Rank 0 sends MESSAGES that rank 1 has not asked for, half of them through a communicator of its own, and waits. Rank 1
 * posts RECEIVES for messages that nobody has sent, prints "ready PID" and makes progress until the file GATE.go is there.
 * Then all is sent and received, rank 1 prints "empty PID", and makes progress until the file GATE.end is there.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { UNASKED = 1, ASKED, NEVER, GO };

static void progress_until(const char *gate, const char *what)
{
	char path[256];
	int there;

	snprintf(path, sizeof(path), "%s.%s", gate, what);
	while (access(path, F_OK) != 0) {
		MPI_Iprobe(0, NEVER, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
		usleep(1000);
	}
}

static void send_all(int messages, int receives, MPI_Comm other)
{
	char byte = 0;

	for (int i = 0; i < messages; i++)
		MPI_Send(&byte, 1, MPI_CHAR, 1, UNASKED, i % 2 ? other : MPI_COMM_WORLD);
	MPI_Recv(&byte, 1, MPI_CHAR, 1, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < receives; i++)
		MPI_Send(&byte, 1, MPI_CHAR, 1, ASKED, MPI_COMM_WORLD);
}

static void receive_all(int messages, int receives, MPI_Comm other, const char *gate)
{
	MPI_Request *requests = calloc(receives, sizeof(*requests));
	char byte = 0, *bytes = calloc(receives, 1);

	for (int i = 0; i < receives; i++)
		MPI_Irecv(&bytes[i], 1, MPI_CHAR, 0, ASKED, MPI_COMM_WORLD, &requests[i]);
	printf("ready %d\n", getpid());
	fflush(stdout);
	progress_until(gate, "go");
	for (int i = 0; i < messages; i++)
		MPI_Recv(&byte, 1, MPI_CHAR, 0, UNASKED, i % 2 ? other : MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Send(&byte, 1, MPI_CHAR, 0, GO, MPI_COMM_WORLD);
	MPI_Waitall(receives, requests, MPI_STATUSES_IGNORE);
	printf("empty %d\n", getpid());
	fflush(stdout);
	progress_until(gate, "end");
}

int main(int argc, char **argv)
{
	MPI_Comm other;
	int rank;

	if (argc != 4) {
		fprintf(stderr, "usage: mpi_backlog MESSAGES RECEIVES GATE\n");
		return 2;
	}
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_dup(MPI_COMM_WORLD, &other);
	if (rank == 0)
		send_all(atoi(argv[1]), atoi(argv[2]), other);
	else if (rank == 1)
		receive_all(atoi(argv[1]), atoi(argv[2]), other, argv[3]);
	MPI_Comm_free(&other);
	MPI_Finalize();
	return 0;
}
