/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of the preload library; each keeps one of the queues up to date. */
#ifndef PRELOAD_H
#define PRELOAD_H

#include "queues.h"

/* The rank's queues; before MPI_Init and after MPI_Finalize a dummy that nobody reads. */
extern struct mpi_queues *queues;

/* posted.c: count receives from now on. */
void posted_start(void);

/* unexpected.c: keep the length up to date from now on; leave it if this MPI library does not tell. */
void unexpected_start(void);
void unexpected_stop(void);

#endif
