/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The vocabulary of the gang scheduler's engine: its inputs and outputs, shared with Python. native.py reads the part
 * between the "cdef" marks and checks, when it loads the engine, that both sides see the same sizes.
 *
 * Times are whole nanoseconds of simulated time, memory is pages of 4 KB.
 */
#ifndef SIM_H
#define SIM_H

#include <stdint.h>

/* cdef begin */
enum sim_status {
	SIM_DONE,		/* every job has come and gone */
	SIM_PAUSED,		/* `until` or `events` is reached: call again; or too many jobs are there */
	SIM_ASKS,		/* a job has come whose estimate is UINT32_MAX: sim_estimate(), then call again */
	SIM_BROKEN,		/* see sim_trouble() */
};

struct sim_params {
	uint64_t	seed;
	uint32_t	nodes;			/* a power of two */
	uint32_t	rows;			/* slots of the matrix; 0: as many as are needed */
	uint32_t	memory;			/* of a node, really free */
	uint32_t	admits;			/* whether memory is looked at (eq. 1) */
	uint64_t	limit;			/* physical memory x C */
	uint32_t	skips;			/* times a queued job may be skipped */
	uint32_t	measured;		/* used memory: the larger of estimate and what is measured (B-PP-7) */
	uint64_t	slot_ns;		/* length of a slot */
	uint64_t	switch_ns;		/* its part lost by the change to another row */
	uint64_t	fault_ns;		/* of a page in */
	double		access_ns;		/* CPU time of one access */
	uint32_t	footprint;		/* pages of the program whose miss ratios are given */
	uint32_t	at_most;		/* jobs in the system at once; more is "overload"; 0: no matter */
};

/* A job. All its processes need the same. */
struct sim_job {
	uint64_t	arrives, cpu;		/* cpu: of each process */
	uint32_t	size, pages;		/* processes, pages of each */
	uint32_t	estimate;		/* pages of each; UINT32_MAX: ask */
	uint32_t	unused;
};

/* Its outcome. */
struct sim_record {
	uint64_t	started, ended;		/* NEVER: not yet */
	uint64_t	faults;
	uint32_t	skips;			/* how often it was skipped in the queue */
	uint32_t	queued;			/* it did not start when it was first looked at */
	uint32_t	row, node;		/* where it was put; node: the first */
};

struct sim_stats {
	uint64_t	now, events;
	uint64_t	slots, runs, switches;	/* slots of the matrix; of one process; changes of row */
	uint64_t	faults, stolen;		/* pages brought in; taken from another process */
	uint64_t	arrivals, starts, ends, scans;
	uint64_t	alone;			/* started because nothing ran, though memory was too small (B-PP-9) */
	uint64_t	barriers;		/* scans that a job of too many skips ended */
	uint64_t	most_jobs, most_rows;
	uint64_t	most_load;		/* processes on one node at once */
	uint64_t	overload;		/* more jobs at once than at_most */
	double		busy, paging;		/* s, all nodes */
	double		job_area;		/* jobs x s */
};

/* A step of the resource manager, in engines that check themselves (SIM_CHECK). */
enum sim_what { OP_ARRIVE, OP_END, OP_SCAN, OP_START };
struct sim_op {
	uint32_t	what, job;
	uint32_t	row, node;		/* OP_START: the first node; OP_END: of the process that ended */
};

typedef struct sim sim;
sim *sim_new(const struct sim_params *params, struct sim_job *jobs, uint32_t nr_jobs, const double *miss);
void sim_free(sim *s);
int sim_run(sim *s, uint64_t until, uint64_t events);
void sim_estimate(sim *s, uint32_t pages);			/* of the job that SIM_ASKS is about */
uint32_t sim_asked(sim *s);					/* its number */
uint32_t sim_ended(sim *s, uint32_t *jobs, uint32_t room);	/* numbers of jobs that ended since the last call */
const struct sim_stats *sim_stats(sim *s);
const struct sim_record *sim_records(sim *s);
const char *sim_trouble(sim *s);
uint32_t sim_ops(sim *s, struct sim_op *ops, uint32_t room);	/* since the last call */
uint32_t sim_residents(sim *s, uint32_t node, uint32_t *pages, uint32_t room);	/* least recently run first */

/* The program of F. 4. Jumps and the array's length are in units of K. */
void sim_jumps(double theta, uint64_t seed, double *out, uint32_t n);
uint32_t sim_coverage(double theta, uint64_t range, uint32_t per_page, uint64_t seed, uint64_t accesses);
int sim_miss(double theta, uint64_t range, uint32_t per_page, uint64_t seed, uint32_t walks, uint64_t accesses,
	     double *miss);
/* cdef end */

#endif /* SIM_H */
