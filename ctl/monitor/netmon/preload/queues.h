/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the preload library tells of a rank's message queues: one file for each rank, /dev/shm/cosched-mpi-PID, which
 * holds one struct mpi_queues. ctl/monitor/netmon/mpi.py reads the part between the marks.
 */
#ifndef MPI_QUEUES_H
#define MPI_QUEUES_H

#include <stdint.h>

/* cdef begin */
#define MPI_QUEUES_MAGIC 0x314d4943 /* "CIM1": raise the digit when the struct changes */

struct mpi_queues {
	uint32_t magic;		/* written last: the rest is there */
	uint32_t pid;
	int32_t rank;		/* in MPI_COMM_WORLD */
	uint32_t pad;
	int64_t posted;		/* receives that wait for their message */
	int64_t unexpected;	/* messages that wait for their receive; -1: this MPI library does not tell */
	uint64_t period_ns;	/* the reader's: how often it looks */
	uint64_t read_until_ns;	/* the reader's: CLOCK_MONOTONIC until when it wants to know */
};
/* cdef end */

_Static_assert(sizeof(struct mpi_queues) == 48, "the reader reads 48 bytes");

#endif
