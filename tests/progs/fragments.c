// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * PVM's way of receiving, under MPI programs: Monito's modes PVM, SPIN, MXI and MXISPIN (Monito sec. 5.2). Linked with a
 * program, it stands between the program and the library (MPI's profiling interface).
 *
 *	FRAGMENT_READS	2: a message is a head and a body, and each is a message of the library's and is read by itself;
 *			1: head and body are read in one step; unset: the library is left as it is
 *	FRAGMENT_SPIN_US	how long a receiver polls for a body, or for a message read in one step; then it blocks
 *
 * MPI's receivers poll until a message comes, PVM's block. A receiver blocks here in poll(2) on the sockets that the library
 * has, until one of them can be read; so all ranks must be on nodes of their own. The collective operations that the
 * programs use are made of messages from one rank to another, as PVM's are.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <mpi.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define SOCKETS 64
#define LOOK_MS 10 /* until a receiver looks for new sockets: connections are made with the first messages */
#define TAG 30000  /* of collective operations */

static int reads, spin_us;
static struct pollfd sockets[SOCKETS];
static int socket_count;

static void fragments_init(void)
{
	const char *asked = getenv("FRAGMENT_READS"), *spin = getenv("FRAGMENT_SPIN_US");

	reads = asked ? atoi(asked) : 0;
	spin_us = spin ? atoi(spin) : 0;
}

int MPI_Init(int *argc, char ***argv)
{
	fragments_init();
	return PMPI_Init(argc, argv);
}

static void find_sockets(void)
{
	DIR *all = opendir("/proc/self/fd");
	struct dirent *one;

	socket_count = 0;
	while (all && (one = readdir(all)) && socket_count < SOCKETS) {
		struct sockaddr_storage peer;
		socklen_t size = sizeof(peer);
		int fd = atoi(one->d_name);

		if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
		    (peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
			sockets[socket_count++].fd = fd;
	}
	if (all)
		closedir(all);
}

/* Until a message may have come, or, where sending is not done, can be sent. */
static void block(int sending)
{
	for (int i = 0; i < socket_count; i++)
		sockets[i].events = POLLIN | (sending ? POLLOUT : 0);
	if (poll(sockets, socket_count, LOOK_MS) == 0)
		find_sockets();
}

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

/* Spin-block: poll for so many us, then block between looks. */
static void await(MPI_Request *request, MPI_Status *status, int spin, MPI_Request *sending, int count)
{
	double end = spin ? now_us() + spin : 0;
	int done = 0, sent = 1;

	for (;;) {
		PMPI_Test(request, &done, status);
		if (done)
			return;
		if (spin && now_us() < end)
			continue;
		if (count)
			PMPI_Testall(count, sending, &sent, MPI_STATUSES_IGNORE);
		block(!sent);
	}
}

/* Receive while `count` sends may be under way. */
static void receive(void *body, int items, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status,
		    MPI_Request *sending, int count)
{
	MPI_Request request;
	MPI_Status head;
	int bytes;

	if (reads == 2) {
		PMPI_Irecv(&bytes, 1, MPI_INT, source, tag, comm, &request);
		await(&request, &head, 0, sending, count);
		source = head.MPI_SOURCE;
		tag = head.MPI_TAG;
	}
	PMPI_Irecv(body, items, type, source, tag, comm, &request);
	await(&request, &head, spin_us, sending, count);
	if (status != MPI_STATUS_IGNORE)
		*status = head;
}

static void post(const void *body, int items, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
	static int bytes; /* the last one's; nobody looks at it */

	if (reads == 2) {
		PMPI_Type_size(type, &bytes);
		bytes *= items;
		PMPI_Send(&bytes, 1, MPI_INT, to, tag, comm);
	}
	PMPI_Isend(body, items, type, to, tag, comm, request);
}

int MPI_Send(const void *body, int items, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
	MPI_Request request;

	if (!reads)
		return PMPI_Send(body, items, type, to, tag, comm);
	post(body, items, type, to, tag, comm, &request);
	return PMPI_Wait(&request, MPI_STATUS_IGNORE);
}

int MPI_Recv(void *body, int items, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
	if (!reads)
		return PMPI_Recv(body, items, type, source, tag, comm, status);
	receive(body, items, type, source, tag, comm, status, NULL, 0);
	return MPI_SUCCESS;
}

int MPI_Sendrecv(const void *out, int out_items, MPI_Datatype out_type, int to, int out_tag, void *in, int items,
		 MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
	MPI_Request sending = MPI_REQUEST_NULL;

	if (!reads)
		return PMPI_Sendrecv(out, out_items, out_type, to, out_tag, in, items, type, source, tag, comm, status);
	if (to != MPI_PROC_NULL)
		post(out, out_items, out_type, to, out_tag, comm, &sending);
	if (source != MPI_PROC_NULL)
		receive(in, items, type, source, tag, comm, status, &sending, 1);
	return PMPI_Wait(&sending, MPI_STATUS_IGNORE);
}

int MPI_Alltoallv(const void *out, const int *out_items, const int *from, MPI_Datatype out_type, void *in,
		  const int *items, const int *to, MPI_Datatype type, MPI_Comm comm)
{
	MPI_Request sending[SOCKETS];
	int rank, ranks, out_size, size;

	if (!reads)
		return PMPI_Alltoallv(out, out_items, from, out_type, in, items, to, type, comm);
	PMPI_Comm_rank(comm, &rank);
	PMPI_Comm_size(comm, &ranks);
	PMPI_Type_size(out_type, &out_size);
	PMPI_Type_size(type, &size);
	for (int i = 0; i < ranks; i++)
		if (i == rank)
			sending[i] = MPI_REQUEST_NULL;
		else
			post((const char *)out + (size_t)from[i] * out_size, out_items[i], out_type, i, TAG, comm, &sending[i]);
	memcpy((char *)in + (size_t)to[rank] * size, (const char *)out + (size_t)from[rank] * out_size,
	       (size_t)items[rank] * size);
	for (int i = 0; i < ranks; i++)
		if (i != rank)
			receive((char *)in + (size_t)to[i] * size, items[i], type, i, TAG, comm, MPI_STATUS_IGNORE, sending,
				ranks);
	return PMPI_Waitall(ranks, sending, MPI_STATUSES_IGNORE);
}

int MPI_Alltoall(const void *out, int out_items, MPI_Datatype out_type, void *in, int items, MPI_Datatype type,
		 MPI_Comm comm)
{
	int counts[2][SOCKETS], places[2][SOCKETS], ranks;

	PMPI_Comm_size(comm, &ranks);
	for (int i = 0; i < ranks; i++) {
		counts[0][i] = out_items;
		counts[1][i] = items;
		places[0][i] = i * out_items;
		places[1][i] = i * items;
	}
	return MPI_Alltoallv(out, counts[0], places[0], out_type, in, counts[1], places[1], type, comm);
}

/* Rank 0 adds up, and tells all. */
int MPI_Allreduce(const void *mine, void *all, int items, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	int rank, ranks, size;
	void *theirs;

	if (!reads)
		return PMPI_Allreduce(mine, all, items, type, op, comm);
	PMPI_Comm_rank(comm, &rank);
	PMPI_Comm_size(comm, &ranks);
	PMPI_Type_size(type, &size);
	if (rank) {
		MPI_Send(mine, items, type, 0, TAG + 1, comm);
		return MPI_Recv(all, items, type, 0, TAG + 1, comm, MPI_STATUS_IGNORE);
	}
	theirs = malloc((size_t)items * size);
	memcpy(all, mine, (size_t)items * size);
	for (int i = 1; i < ranks; i++) {
		MPI_Recv(theirs, items, type, i, TAG + 1, comm, MPI_STATUS_IGNORE);
		PMPI_Reduce_local(theirs, all, items, type, op);
	}
	free(theirs);
	for (int i = 1; i < ranks; i++)
		MPI_Send(all, items, type, i, TAG + 1, comm);
	return MPI_SUCCESS;
}
