/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The gang matrix, and the admission of jobs to it (ParPar sec. 3.2).
 *
 * A job of s processes goes to a controller of the tree: an aligned group of
 * 2^l nodes, the smallest power of two that holds s. Of the controllers whose
 * nodes are all free in some row and, where memory is looked at, all pass
 * eq. 1, the least loaded takes it, equal ones from the left; its first s
 * nodes run it, in the first such row.
 */
#ifndef SIM_MATRIX_H
#define SIM_MATRIX_H

#include "memory.h"

static inline uint32_t group_of(uint32_t size)
{
	uint32_t group = 1;

	while (group < size)
		group *= 2;
	return group;
}

/* Does each node of a controller have the memory (eq. 1)? */
static int memory_allows(const struct sim *s, uint32_t first, uint32_t group, uint32_t pages)
{
	for (uint32_t k = first; k < first + group; k++)
		if (s->nodes[k].used + pages > s->par.limit)
			return 0;
	return 1;
}

static int row_is_free(const struct sim *s, uint32_t row, uint32_t first, uint32_t group)
{
	const uint32_t *cells = s->cells + (uint64_t)row * s->par.nodes;

	if (!s->in_row[row])
		return 1;
	for (uint32_t k = first; k < first + group; k++)
		if (cells[k] != NIL)
			return 0;
	return 1;
}

/* The first row in which all the controller's nodes are free; NIL if there may be no more rows. */
static uint32_t find_row(const struct sim *s, uint32_t first, uint32_t group)
{
	uint32_t row;

	for (row = 0; row < s->rows; row++)
		if (row_is_free(s, row, first, group))
			return row;
	return !s->par.rows || row < s->par.rows ? row : NIL;
}

/* The controller for a job and the row; returns its first node, NIL if none will do. */
static uint32_t find_place(const struct sim *s, const struct sim_job *j, int alone, uint32_t *row)
{
	uint32_t group = group_of(j->size), best = NIL;
	uint64_t least = NEVER;

	for (uint32_t first = 0; first < s->par.nodes; first += group) {
		uint64_t load = 0;
		uint32_t found;

		for (uint32_t k = first; k < first + group; k++)
			load += s->nodes[k].load;
		if (load >= least)
			continue;
		if (s->par.admits && !alone && !memory_allows(s, first, group, j->estimate))
			continue;
		found = find_row(s, first, group);
		if (found == NIL)
			continue;
		least = load;
		best = first;
		*row = found;
	}
	return best;
}

/* The memory of a process in eq. 1. */
static inline uint32_t counted(const struct sim *s, const struct sim_job *j)
{
	return s->par.measured && j->pages > j->estimate ? j->pages : j->estimate;
}

/* Put a job's processes in the matrix; -1 if there is no memory for it. */
static int start_job(struct sim *s, uint32_t job, uint32_t row, uint32_t first)
{
	const struct sim_job *j = &s->jobs[job];

	while (row >= s->room_rows)
		if (more_rows(s))
			return -1;
	if (row >= s->rows)
		s->rows = row + 1;
	for (uint32_t rank = 0; rank < j->size; rank++) {
		uint32_t node = first + rank, index;

		if (s->free_process == NIL && more_processes(s))
			return -1;
		index = s->free_process;
		s->free_process = s->processes[index].newer;
		s->processes[index] = (struct process){ .work_left = j->cpu, .ready = s->now, .job = job,
							.node = node, .pages = j->pages,
							.stream = stream_of(s->par.seed, job, rank, DRAW_PAGE) };
		CHECK(s, s->cells[(uint64_t)row * s->par.nodes + node] == NIL, "two processes in a cell");
		s->cells[(uint64_t)row * s->par.nodes + node] = index;
		if (++s->nodes[node].load > s->stats.most_load)
			s->stats.most_load = s->nodes[node].load;
		s->nodes[node].used += counted(s, j);
		memory_enter(s, index);
	}
	s->in_row[row] += j->size;
	s->nr_running += j->size;
	s->left[job] = j->size;
	s->records[job].started = s->now;
	s->records[job].row = row;
	s->records[job].node = first;
	s->stats.starts++;
	if (s->rows > s->stats.most_rows)
		s->stats.most_rows = s->rows;
	log_op(s, OP_START, job, row, first);
	return 0;
}

/*
 * Scan the queue from its head: a job that fits starts, and each job ahead of it is skipped once more. A job at the
 * limit of skips lets no job past (sec. 3.2, B-PP-8). When no job runs, the head starts with any need (B-PP-9). Free
 * memory only shrinks in a scan, so one pass finds all jobs that fit.
 */
static void scan(struct sim *s)
{
	uint32_t kept = 0, at = 0;

	s->stats.scans++;
	s->changed = 0;
	log_op(s, OP_SCAN, 0, 0, 0);
	for (; at < s->nr_queue; at++) {
		uint32_t job = s->queue[at], row = 0;
		struct sim_record *r = &s->records[job];
		uint32_t first = find_place(s, &s->jobs[job], 0, &row);

		if (first == NIL && !s->nr_running) {
			first = find_place(s, &s->jobs[job], 1, &row);
			s->stats.alone++;
		}
		if (first == NIL) {
			r->queued = 1;
			s->queue[kept++] = job;
			if (r->skips >= s->par.skips) {
				s->stats.barriers++;
				at++;
				break;
			}
			continue;
		}
		if (start_job(s, job, row, first)) {
			s->trouble = "out of memory for processes";
			return;
		}
		for (uint32_t i = 0; i < kept; i++)
			s->records[s->queue[i]].skips++;
		for (uint32_t i = 0; i < kept; i++)
			if (s->records[s->queue[i]].skips >= s->par.skips) {
				at++;
				goto barrier;
			}
	}
barrier:
	for (; at < s->nr_queue; at++) {
		s->records[s->queue[at]].queued = 1;
		s->queue[kept++] = s->queue[at];
	}
	s->nr_queue = kept;
}

#endif /* SIM_MATRIX_H */
