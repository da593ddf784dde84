// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Preloaded into the ranks of an MPI job, tells `ctl netmon` how long the rank's message queues are:
 *
 *	mpiexec -x LD_PRELOAD="$(ctl netmon --preload mpicc)" PROGRAM
 *
 * The posted queue has the receives that wait for their message, the unexpected queue the messages that wait for their
 * receive. The MPI standard has no call for either; its tools' interface, MPI_T, has what a library chooses to tell.
 * Open MPI (pml ob1) has a performance variable for the unexpected queue (unexpected.c). Debian's MPICH is built without
 * any for its queues, so its unexpected queue is unknown, which is not the same as empty. Open MPI's variable for the
 * posted queue leaves out receives from MPI_ANY_SOURCE, and MPICH has none: so receives are counted at the calls of the
 * program (posted.c).
 *
 * The library is compiled for one MPI library, by its mpicc. In a program that does not call MPI_Init it does nothing.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload.h"

static struct mpi_queues nobody;
struct mpi_queues *queues = &nobody;
static char path[64];

static struct mpi_queues *shared(void)
{
	struct mpi_queues *mapped;
	int fd;

	snprintf(path, sizeof(path), "/dev/shm/cosched-mpi-%d", getpid());
	unlink(path); /* of a dead process of the same number */
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return NULL;
	mapped = ftruncate(fd, sizeof(*mapped)) ?
			 MAP_FAILED :
			 mmap(NULL, sizeof(*mapped), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (mapped == MAP_FAILED) {
		unlink(path);
		return NULL;
	}
	return mapped;
}

static void start(void)
{
	struct mpi_queues *mine;

	if (queues != &nobody)
		return;
	mine = shared();
	if (!mine) {
		fprintf(stderr, "cosched: cannot write %s: `ctl netmon` will not see the queues of this rank\n", path);
		return;
	}
	queues = mine;
	mine->pid = getpid();
	PMPI_Comm_rank(MPI_COMM_WORLD, &mine->rank);
	mine->unexpected = -1;
	posted_start();
	unexpected_start();
	__atomic_store_n(&mine->magic, MPI_QUEUES_MAGIC, __ATOMIC_RELEASE);
}

int MPI_Init(int *argc, char ***argv)
{
	int result = PMPI_Init(argc, argv);

	start();
	return result;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	int result = PMPI_Init_thread(argc, argv, required, provided);

	start();
	return result;
}

int MPI_Finalize(void)
{
	if (queues != &nobody) {
		unexpected_stop();
		unlink(path);
		munmap(queues, sizeof(*queues));
		queues = &nobody;
	}
	return PMPI_Finalize();
}
