/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The end of engine.c: the functions for Python that make a simulation and look at it (sim.h). */
#ifndef SIM_CALLS_H
#define SIM_CALLS_H

#include "interface.h"

void sim_free(struct sim *s)
{
	if (!s)
		return;
	free(s->records);
	free(s->left);
	free(s->ended);
	free(s->queue);
	free(s->cells);
	free(s->in_row);
	free(s->processes);
	free(s->nodes);
	free(s->gap);
	free(s->ops);
	free(s);
}

static int allocate(struct sim *s)
{
	uint64_t jobs = s->nr_jobs + 1;

	s->records = malloc(jobs * sizeof(*s->records));
	s->left = calloc(jobs, sizeof(*s->left));
	s->ended = calloc(jobs, sizeof(*s->ended));
	s->queue = calloc(jobs, sizeof(*s->queue));
	s->nodes = calloc(s->par.nodes, sizeof(*s->nodes));
	s->gap = calloc(s->par.footprint + 1, sizeof(*s->gap));
#ifdef SIM_CHECK
	s->ops = calloc(LOG_OPS, sizeof(*s->ops));
	if (!s->ops)
		return -1;
#endif
	if (!s->records || !s->left || !s->ended || !s->queue || !s->nodes || !s->gap)
		return -1;
	return more_rows(s) || more_processes(s);
}

/* Jobs in the order of arrival, which stay the caller's; miss ratios of 0 to footprint resident pages. */
struct sim *sim_new(const struct sim_params *params, struct sim_job *jobs, uint32_t nr_jobs, const double *miss)
{
	struct sim *s = new_sim(params);

	if (!s)
		return NULL;
	s->jobs = jobs;
	s->nr_jobs = nr_jobs;
	s->asking = s->free_process = s->row = NIL;
	if (allocate(s)) {
		sim_free(s);
		return NULL;
	}
	for (uint32_t i = 0; i < nr_jobs; i++)
		s->records[i] = (struct sim_record){ .started = NEVER, .ended = NEVER };
	for (uint32_t k = 0; k < params->nodes; k++)
		s->nodes[k] = (struct node){ .oldest = NIL, .newest = NIL, .free = params->memory };
	for (uint32_t r = 0; r <= params->footprint; r++)
		s->gap[r] = miss[r] > 0 ? params->access_ns / miss[r] : 0;
	return s;
}

void sim_estimate(struct sim *s, uint32_t pages)
{
	s->jobs[s->asking].estimate = pages;
	s->asking = NIL;
}

uint32_t sim_asked(struct sim *s)
{
	return s->asking;
}

uint32_t sim_ended(struct sim *s, uint32_t *jobs, uint32_t room)
{
	uint32_t nr = 0;

	while (nr < room && s->told < s->nr_done)
		jobs[nr++] = s->ended[s->told++];
	return nr;
}

const struct sim_stats *sim_stats(struct sim *s)
{
	s->stats.now = s->now;
	s->stats.busy = (double)s->busy / 1e9;
	s->stats.paging = (double)s->paging / 1e9;
	s->stats.job_area = (double)s->job_area / 1e9;
	return &s->stats;
}

const struct sim_record *sim_records(struct sim *s)
{
	return s->records;
}

uint32_t sim_ops(struct sim *s, struct sim_op *ops, uint32_t room)
{
	uint32_t nr = s->nr_ops < room ? s->nr_ops : room;

	if (s->ops)
		memcpy(ops, s->ops, nr * sizeof(*ops));
	s->nr_ops = 0;
	return nr;
}

uint32_t sim_residents(struct sim *s, uint32_t node, uint32_t *pages, uint32_t room)
{
	uint32_t nr = 0;

	for (uint32_t i = s->nodes[node].oldest; i != NIL && nr < room; i = s->processes[i].newer)
		pages[nr++] = s->processes[i].res;
	return nr;
}

SIM_SIZES(SIM_SIZE(struct sim_params), SIM_SIZE(struct sim_job), SIM_SIZE(struct sim_record),
	  SIM_SIZE(struct sim_stats), SIM_SIZE(struct sim_op))

#endif /* SIM_CALLS_H */
