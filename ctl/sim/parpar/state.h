/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state of a gang-scheduled cluster: the matrix, the processes in it, the
 * nodes' memory, the queue of jobs that wait for memory.
 *
 * Everything is found by index, because the matrix and the processes grow when
 * more are in the system than ever before; nothing else allocates.
 */
#ifndef SIM_STATE_H
#define SIM_STATE_H

#include "sim.h"
#include "engine.h"

#define ASK	UINT32_MAX

#define LOG_OPS	(1U << 20)	/* of an engine that checks itself */

struct process {
	uint64_t	work_left;
	uint64_t	ready;			/* its page is there from then on */
	uint64_t	stream;
	uint32_t	job, node;
	uint32_t	pages, res;
	uint32_t	older, newer;		/* the node's processes, by when they last ran; free ones: newer */
};

struct node {
	uint32_t	oldest, newest;		/* of its processes */
	uint32_t	load;			/* how many they are: the load factor */
	uint32_t	free;			/* pages */
	uint64_t	used;			/* pages, as the resource manager counts them (eq. 1) */
};

struct sim {
	uint64_t	now;
	struct sim_params par;
	struct sim_stats stats;
	const char	*trouble;

	struct sim_job	*jobs;			/* in the order of arrival; Python's */
	struct sim_record *records;
	uint32_t	*left;			/* of each job: processes that have not ended */
	uint32_t	nr_jobs, nr_arrived, nr_done;
	uint32_t	asking;			/* this job's estimate is wanted; NIL: none */
	uint32_t	*ended;			/* in the order in which they were seen to end */
	uint32_t	told;			/* of these, those returned by sim_ended() */

	uint32_t	*queue;
	uint32_t	nr_queue;
	int		changed;		/* a job came or went since the queue was scanned */

	uint32_t	*cells;			/* process at [row * nodes + node], NIL: none */
	uint32_t	*in_row;		/* how many cells of each row are taken */
	uint32_t	rows, room_rows;	/* up to the last that was ever taken; allocated */
	uint32_t	row;			/* whose turn was last; NIL: nobody's yet */
	uint32_t	nr_running;		/* processes in the matrix */

	struct process	*processes;
	uint32_t	nr_processes, free_process;
	struct node	*nodes;
	double		*gap;			/* mean CPU time to the next fault, by resident pages of footprint; 0: none */

	unsigned __int128 job_area, response_sum;	/* for Little's law */
	unsigned __int128 busy, paging, work;		/* ns */
	struct sim_op	*ops;
	uint32_t	nr_ops;
};

static inline void log_op(struct sim *s, uint32_t what, uint32_t job, uint32_t row, uint32_t node)
{
#ifdef SIM_CHECK
	if (s->nr_ops < LOG_OPS)
		s->ops[s->nr_ops++] = (struct sim_op){ what, job, row, node };
#else
	(void)s, (void)what, (void)job, (void)row, (void)node;
#endif
}

/* Room for twice as many processes; -1 if there is none. */
static int more_processes(struct sim *s)
{
	uint32_t n = s->nr_processes ? 2 * s->nr_processes : 256;
	struct process *more = realloc(s->processes, n * sizeof(*more));

	if (!more)
		return -1;
	s->processes = more;
	for (uint32_t i = n; i-- > s->nr_processes;) {
		more[i].newer = s->free_process;
		s->free_process = i;
	}
	s->nr_processes = n;
	return 0;
}

/* Room for twice as many rows; -1 if there is none. */
static int more_rows(struct sim *s)
{
	uint32_t n = s->room_rows ? 2 * s->room_rows : 16;
	uint32_t *cells = realloc(s->cells, (uint64_t)n * s->par.nodes * sizeof(*cells));
	uint32_t *in_row;

	if (!cells)
		return -1;
	s->cells = cells;
	in_row = realloc(s->in_row, n * sizeof(*in_row));
	if (!in_row)
		return -1;
	s->in_row = in_row;
	memset(cells + (uint64_t)s->room_rows * s->par.nodes, 0xff,
	       (uint64_t)(n - s->room_rows) * s->par.nodes * sizeof(*cells));
	memset(in_row + s->room_rows, 0, (n - s->room_rows) * sizeof(*in_row));
	s->room_rows = n;
	return 0;
}

#endif /* SIM_STATE_H */
