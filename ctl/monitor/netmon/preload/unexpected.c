// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The length of the unexpected queue, a performance variable of MPI_T: Open MPI's belongs to a communicator, and has an
 * element for each peer. A thread reads it, because a rank that waits inside a call cannot; it does so only while a
 * reader has asked for it, twice in the reader's period.
 */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "preload.h"

#define MOST_COMMS 64
#define IDLE_NS 100000000ull  /* between two looks whether anybody reads */
#define SHORTEST_NS 100000ull /* between two readings */
#define SECOND_NS 1000000000ull

#define NAME "pml_ob1_unexpected_msgq_length"

/* The variable of one communicator. */
struct reading {
	MPI_Comm comm;
	MPI_T_pvar_handle handle;
	int peers;
};

static struct reading readings[MOST_COMMS];
static int nr_readings;
static int variable;
static MPI_T_pvar_session session;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended;
static pthread_t reader;
static bool runs, stop;

/* The index of the variable; -1 if this library has none with an unsigned number for each peer of a communicator. */
static int find(void)
{
	int index, name_len = 0, verbosity, class, bind, desc_len = 0, readonly, continuous, atomic;
	MPI_Datatype type;
	MPI_T_enum words;

	if (PMPI_T_pvar_get_index(NAME, MPI_T_PVAR_CLASS_SIZE, &index) != MPI_SUCCESS ||
	    PMPI_T_pvar_get_info(index, NULL, &name_len, &verbosity, &class, &type, &words, NULL, &desc_len, &bind,
				 &readonly, &continuous, &atomic) != MPI_SUCCESS)
		return -1;
	return bind == MPI_T_BIND_MPI_COMM && type == MPI_UNSIGNED && continuous ? index : -1;
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * SECOND_NS + now.tv_nsec;
}

/* Messages from all peers. */
static int64_t read_one(const struct reading *reading)
{
	unsigned int *lengths = calloc(reading->peers, sizeof(*lengths));
	int64_t sum = 0;

	if (lengths && PMPI_T_pvar_read(session, reading->handle, lengths) == MPI_SUCCESS)
		for (int i = 0; i < reading->peers; i++)
			sum += lengths[i];
	free(lengths);
	return sum;
}

static int64_t read_all(void)
{
	int64_t sum = 0;

	for (int i = 0; i < nr_readings; i++)
		sum += read_one(&readings[i]);
	return sum;
}

static void *reads(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	while (!stop) {
		uint64_t wait = IDLE_NS, end;
		struct timespec until;

		if (now_ns(CLOCK_MONOTONIC) < __atomic_load_n(&queues->read_until_ns, __ATOMIC_RELAXED)) {
			__atomic_store_n(&queues->unexpected, read_all(), __ATOMIC_RELAXED);
			wait = __atomic_load_n(&queues->period_ns, __ATOMIC_RELAXED) / 2;
			wait = wait < SHORTEST_NS ? SHORTEST_NS : wait > IDLE_NS ? IDLE_NS : wait;
		}
		end = now_ns(CLOCK_MONOTONIC) + wait;
		until = (struct timespec){ .tv_sec = end / SECOND_NS, .tv_nsec = end % SECOND_NS };
		pthread_cond_timedwait(&ended, &lock, &until);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static bool start_thread(void)
{
	sigset_t all, before;
	pthread_condattr_t clock;

	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&ended, &clock);
	sigfillset(&all); /* the program's signals are not for this thread */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	runs = pthread_create(&reader, NULL, reads, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return runs;
}

/* Read the queue of this communicator, too. Of more than MOST_COMMS, the first are read. */
static void add(MPI_Comm comm)
{
	struct reading *reading;

	if (!runs || comm == MPI_COMM_NULL)
		return;
	pthread_mutex_lock(&lock);
	if (nr_readings < MOST_COMMS) {
		reading = &readings[nr_readings];
		reading->comm = comm;
		if (PMPI_T_pvar_handle_alloc(session, variable, &reading->comm, &reading->handle, &reading->peers) ==
		    MPI_SUCCESS)
			nr_readings++;
	}
	pthread_mutex_unlock(&lock);
}

static void forget(MPI_Comm comm)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < nr_readings; i++)
		if (readings[i].comm == comm) {
			PMPI_T_pvar_handle_free(session, &readings[i].handle);
			readings[i] = readings[--nr_readings];
			break;
		}
	pthread_mutex_unlock(&lock);
}

void unexpected_start(void)
{
	int provided;

	if (PMPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
		return;
	variable = find();
	if (variable >= 0 && PMPI_T_pvar_session_create(&session) == MPI_SUCCESS) {
		queues->unexpected = 0;
		if (start_thread()) {
			add(MPI_COMM_WORLD);
			return;
		}
		queues->unexpected = -1;
		PMPI_T_pvar_session_free(&session);
	}
	PMPI_T_finalize();
}

void unexpected_stop(void)
{
	if (!runs)
		return;
	pthread_mutex_lock(&lock);
	stop = true;
	pthread_cond_signal(&ended);
	pthread_mutex_unlock(&lock);
	pthread_join(reader, NULL);
	runs = false;
	while (nr_readings)
		forget(readings[0].comm);
	PMPI_T_pvar_session_free(&session);
	PMPI_T_finalize();
}

/* Communicators come and go by these calls. */

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *made)
{
	int result = PMPI_Comm_dup(comm, made);

	if (result == MPI_SUCCESS)
		add(*made);
	return result;
}

int MPI_Comm_split(MPI_Comm comm, int colour, int key, MPI_Comm *made)
{
	int result = PMPI_Comm_split(comm, colour, key, made);

	if (result == MPI_SUCCESS)
		add(*made);
	return result;
}

int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *made)
{
	int result = PMPI_Comm_create(comm, group, made);

	if (result == MPI_SUCCESS)
		add(*made);
	return result;
}

int MPI_Comm_free(MPI_Comm *comm)
{
	forget(*comm);
	return PMPI_Comm_free(comm);
}
