// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The posted queue as the program sees it: a receive counts from the call that posts it to the call in which the
 * program learns that it is complete, so also when its message is there and the program has not waited for it yet.
 * Persistent receives, and those inside collective operations, do not count.
 */
#include <mpi.h>
#include <pthread.h>
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "preload.h"

static bool counting;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *receives; /* tsearch(3): the requests of posted receives */
static int nr_receives;

void posted_start(void)
{
	counting = true;
}

static void count(int difference)
{
	__atomic_fetch_add(&queues->posted, difference, __ATOMIC_RELAXED);
}

static int by_value(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(MPI_Request));
}

static void begins(MPI_Request request)
{
	MPI_Request *kept = malloc(sizeof(*kept));
	MPI_Request **found;

	if (!kept)
		return;
	*kept = request;
	pthread_mutex_lock(&lock);
	found = tsearch(kept, &receives, by_value);
	if (found && *found == kept) {
		nr_receives++;
		count(1);
	} else {
		free(kept);
	}
	pthread_mutex_unlock(&lock);
}

static void ends(MPI_Request request)
{
	MPI_Request **found, *kept;

	pthread_mutex_lock(&lock);
	found = tfind(&request, &receives, by_value);
	if (found) {
		kept = *found;
		tdelete(&request, &receives, by_value);
		free(kept);
		nr_receives--;
		count(-1);
	}
	pthread_mutex_unlock(&lock);
}

/* The requests before a call that may complete some; NULL if none of them can be a receive. */
static MPI_Request *before(int number, const MPI_Request *requests)
{
	size_t size = number * sizeof(*requests);
	MPI_Request *copy = counting && __atomic_load_n(&nr_receives, __ATOMIC_RELAXED) ? malloc(size) : NULL;

	return copy ? memcpy(copy, requests, size) : NULL;
}

/* A call that completes a request puts MPI_REQUEST_NULL in its place. */
static int after(int result, int number, MPI_Request *copy, const MPI_Request *requests)
{
	for (int i = 0; copy && i < number; i++)
		if (copy[i] != MPI_REQUEST_NULL && requests[i] == MPI_REQUEST_NULL)
			ends(copy[i]);
	free(copy);
	return result;
}

int MPI_Irecv(void *buffer, int number, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
	int result = PMPI_Irecv(buffer, number, type, source, tag, comm, request);

	if (counting && result == MPI_SUCCESS && *request != MPI_REQUEST_NULL)
		begins(*request);
	return result;
}

int MPI_Recv(void *buffer, int number, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
	int result;

	count(counting);
	result = PMPI_Recv(buffer, number, type, source, tag, comm, status);
	count(-counting);
	return result;
}

int MPI_Sendrecv(const void *sent, int nr_sent, MPI_Datatype sent_type, int to, int sent_tag, void *received,
		 int nr_received, MPI_Datatype received_type, int from, int received_tag, MPI_Comm comm,
		 MPI_Status *status)
{
	int result;

	count(counting);
	result = PMPI_Sendrecv(sent, nr_sent, sent_type, to, sent_tag, received, nr_received, received_type, from,
			       received_tag, comm, status);
	count(-counting);
	return result;
}

int MPI_Request_free(MPI_Request *request)
{
	MPI_Request *copy = before(1, request);

	return after(PMPI_Request_free(request), 1, copy, request);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
	MPI_Request *copy = before(1, request);

	return after(PMPI_Wait(request, status), 1, copy, request);
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
	MPI_Request *copy = before(1, request);

	return after(PMPI_Test(request, flag, status), 1, copy, request);
}

int MPI_Waitall(int number, MPI_Request requests[], MPI_Status statuses[])
{
	MPI_Request *copy = before(number, requests);

	return after(PMPI_Waitall(number, requests, statuses), number, copy, requests);
}

int MPI_Testall(int number, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
	MPI_Request *copy = before(number, requests);

	return after(PMPI_Testall(number, requests, flag, statuses), number, copy, requests);
}

int MPI_Waitany(int number, MPI_Request requests[], int *index, MPI_Status *status)
{
	MPI_Request *copy = before(number, requests);

	return after(PMPI_Waitany(number, requests, index, status), number, copy, requests);
}

int MPI_Testany(int number, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
	MPI_Request *copy = before(number, requests);

	return after(PMPI_Testany(number, requests, index, flag, status), number, copy, requests);
}

int MPI_Waitsome(int number, MPI_Request requests[], int *done, int indexes[], MPI_Status statuses[])
{
	MPI_Request *copy = before(number, requests);

	return after(PMPI_Waitsome(number, requests, done, indexes, statuses), number, copy, requests);
}

int MPI_Testsome(int number, MPI_Request requests[], int *done, int indexes[], MPI_Status statuses[])
{
	MPI_Request *copy = before(number, requests);

	return after(PMPI_Testsome(number, requests, done, indexes, statuses), number, copy, requests);
}
