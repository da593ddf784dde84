/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The end of engine.c: the loop, and what Python calls (sim.h). */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include "interface.h"

static inline void check_state(struct sim *s)
{
#ifdef SIM_CHECK
	uint32_t found = s->transfers.nr + s->nr_held;

	for (uint32_t k = 0; k < s->par.nodes; k++) {
		const struct node *n = &s->nodes[k];
		uint64_t load = 0, shares = 0;
		uint32_t nr = 0;

		for (uint32_t j = n->jobs.head; j != NIL; j = s->state[j].next, nr++) {
			load += s->state[j].ws;
			shares += s->state[j].cpu_share;
			CHECK(s, s->state[j].state == JOB_RESIDENT, "a job is on a node that it is not on");
			CHECK(s, s->state[j].cpu_share + s->state[j].paging_share <= ONE + 1, "a job has more than all");
		}
		CHECK(s, nr == n->now.jobs && load == n->now.load, "a node's memory or jobs are counted wrong");
		CHECK(s, shares <= ONE + nr, "a CPU gives more than it has");
		CHECK(s, !nr || s->due[k] != NEVER, "a node with jobs awaits nothing");
		found += nr;
	}
	CHECK(s, found == s->inside, "a job was lost");
#else
	(void)s;
#endif
}

/* Little's law and the conservation of work, exactly, in nanoseconds. */
static void check_sums(struct sim *s)
{
	wide asked = 0;

	for (uint32_t j = 0; j < s->nr_jobs; j++)
		asked += s->records[j].killed ? s->records[j].cpu : s->jobs[j].cpu;
	if (s->area != s->wall)
		s->trouble = "Little's law does not hold: the jobs' time in the system does not add up";
	else if (s->work != asked)
		s->trouble = "work was lost or gained: the CPUs' busy time is not what the jobs asked for";
}

enum { NEXT_ARRIVAL, NEXT_TRANSFER, NEXT_RETRY, NEXT_NODE };

static inline struct event next_event(const struct sim *s)
{
	struct event next = { .at = NEVER, .what = NEXT_ARRIVAL };
	uint64_t transfer = heap_next(&s->transfers), node = s->due[s->tree[1]];

	if (s->nr_arrived < s->nr_jobs)
		next.at = s->jobs[s->nr_arrived].arrives;
	if (transfer < next.at)
		next = (struct event){ .at = transfer, .what = NEXT_TRANSFER };
	if (s->retry < next.at)
		next = (struct event){ .at = s->retry, .what = NEXT_RETRY };
	if (node < next.at)
		next = (struct event){ .at = node, .what = NEXT_NODE };
	return next;
}

static inline int is_over(const struct sim *s, uint64_t next)
{
	return next == NEVER && s->nr_gone == s->nr_jobs;
}

static inline int take_event(struct sim *s, int what)
{
	s->stats.events++;
	if (what == NEXT_NODE)
		on_node(s, s->tree[1]);
	else if (what == NEXT_RETRY)
		on_retry(s);
	else if (what == NEXT_TRANSFER)
		on_transfer(s);
	else
		on_arrival(s);
	return GO_ON;
}

static inline uint32_t clock_bits(const struct sim *s)
{
	(void)s;
	return 63;
}

#include "loop.h"

/* `jobs` is not copied, and in the order of arrival. */
struct sim *sim_new(const struct sim_params *params, const struct sim_job *jobs, uint32_t nr_jobs)
{
	struct sim *s = new_sim(params);
	uint32_t n = params->nodes;

	if (!s)
		return NULL;
	s->jobs = jobs;
	s->nr_jobs = nr_jobs;
	for (s->leaves = 1; s->leaves < n; s->leaves *= 2)
		;
	s->retry = NEVER;
	s->state = calloc(nr_jobs + 1, sizeof(*s->state));
	s->records = calloc(nr_jobs + 1, sizeof(*s->records));
	s->tasks = calloc(nr_jobs + 1, sizeof(*s->tasks));
	s->nodes = calloc(n, sizeof(*s->nodes));
	s->views = calloc(2UL * n, sizeof(*s->views));
	s->due = malloc(s->leaves * sizeof(*s->due));
	s->tree = malloc(2UL * s->leaves * sizeof(*s->tree));
	if (make_heap(&s->transfers, nr_jobs + 1) || !s->state || !s->records || !s->tasks || !s->nodes || !s->views ||
	    !s->due || !s->tree) {
		sim_free(s);
		return NULL;
	}
	for (uint32_t k = 0; k < n; k++)
		s->nodes[k] = (struct node){ .jobs = { NIL, NIL }, .held = { NIL, NIL }, .milestone = NEVER,
					     .check = NEVER, .last_check = NEVER, .oversize = -1 };
	for (uint32_t k = 0; k < s->leaves; k++) {
		s->due[k] = NEVER;
		s->tree[s->leaves + k] = k;
	}
	for (uint32_t i = s->leaves - 1; i; i--)
		s->tree[i] = s->tree[2 * i];
	return s;
}

void sim_free(struct sim *s)
{
	if (!s)
		return;
	free(s->state);
	free(s->records);
	free(s->transfers.entries);
	free(s->tasks);
	free(s->nodes);
	free(s->views);
	free(s->due);
	free(s->tree);
	free(s);
}

const struct sim_stats *sim_stats(struct sim *s)
{
	count_time(s);
	s->stats.now = s->now;
	s->stats.area = (double)s->area / 1e9;
	return &s->stats;
}

const struct sim_record *sim_records(struct sim *s)
{
	return s->records;
}

uint32_t sim_tasks(struct sim *s, uint32_t node, struct sim_task *tasks, uint32_t most)
{
	return describe(s, &s->nodes[node], tasks, most);
}

SIM_SIZES(SIM_SIZE(struct sim_params), SIM_SIZE(struct sim_job), SIM_SIZE(struct sim_record),
	  SIM_SIZE(struct sim_stats), SIM_SIZE(struct sim_view), SIM_SIZE(struct sim_task))

#endif /* SIM_RUN_H */
