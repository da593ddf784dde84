/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The state: jobs, nodes, future events, and the nodes' knowledge of each other. */
#ifndef SIM_STATE_H
#define SIM_STATE_H

#include "sim.h"
#include "engine.h"

#define STEPS	64		/* in which memory grows */
#define ONE	(1ULL << 40)	/* a share of 1, fixed point */

typedef unsigned __int128 wide;

enum job_state { JOB_COMING, JOB_HELD, JOB_RESIDENT, JOB_MOVING, JOB_GONE };

struct job {
	uint64_t	done, io_done;		/* ns of its CPU and I/O time */
	uint64_t	ws;			/* memory it has now */
	uint64_t	cpu_share, paging_share;	/* of the present stretch, fixed point */
	uint64_t	entered;		/* its node; when held or moving: since then */
	double		faults_s;		/* in the present stretch */
	uint32_t	next, prev;		/* of its node in order of entry, or in the hold queue */
	uint32_t	steps;			/* of STEPS that its memory has grown */
	uint8_t		state, limited;
};

struct list {
	uint32_t	head, tail;
};

struct node {
	struct list	jobs, held;
	struct sim_view	now, before;		/* its jobs; as they were before `changed` */
	struct sim_view	coming;			/* on their way here, known to all */
	uint64_t	changed, since;		/* since: the present stretch began */
	uint64_t	milestone, check;	/* a job ends or grows; migration is considered */
	uint64_t	last_check;
	double		oversize, faults_s;
};

struct transfer {
	uint64_t	at, order;
	uint32_t	job, to;
};

typedef struct transfer heap_entry;
#include "heap.h"

struct sim {
	uint64_t	now;
	struct sim_params par;
	const struct sim_job *jobs;		/* by arrival */
	struct job	*state;
	struct sim_record *records;
	uint32_t	nr_jobs, nr_arrived, nr_gone;
	struct node	*nodes;
	struct sim_view	*views;			/* room to look at all nodes */
	uint64_t	*due;			/* each node's next event */
	uint32_t	*tree, leaves;		/* tournament of the nodes by it */
	struct heap	transfers;		/* under way */
	uint64_t	order;			/* of the next transfer */
	uint64_t	retry, bus_free;
	uint32_t	nr_held, inside;	/* inside: arrived and not gone */
	struct sim_task	*tasks;			/* room to look at the jobs of a node */
	struct sim_stats stats;
	wide		area, wall, work;
	uint64_t	area_since;
	const char	*trouble;
};

static void append(struct sim *s, struct list *list, uint32_t j)
{
	s->state[j].prev = list->tail;
	s->state[j].next = NIL;
	if (list->tail == NIL)
		list->head = j;
	else
		s->state[list->tail].next = j;
	list->tail = j;
}

static void take(struct sim *s, struct list *list, uint32_t j)
{
	uint32_t prev = s->state[j].prev, next = s->state[j].next;

	*(prev == NIL ? &list->head : &s->state[prev].next) = next;
	*(next == NIL ? &list->tail : &s->state[next].prev) = prev;
}

/* The tournament: the node whose event is due first, ties to the lowest. */
static void due_at(struct sim *s, uint32_t node, uint64_t time)
{
	s->due[node] = time;
	for (uint32_t i = (s->leaves + node) >> 1; i; i >>= 1) {
		uint32_t a = s->tree[2 * i], b = s->tree[2 * i + 1];

		s->tree[i] = s->due[b] < s->due[a] ? b : a;
	}
}

static void count_time(struct sim *s)
{
	s->area += (wide)s->inside * (s->now - s->area_since);
	s->area_since = s->now;
}

/* --- what nodes know --- */

static uint64_t last_refresh(const struct sim *s)
{
	return s->now - s->now % s->par.refresh_ns;
}

/* A node's jobs are about to change: keep its last collected state. */
static void remember(struct sim *s, struct node *n)
{
	if (n->changed <= last_refresh(s))
		n->before = n->now;
	n->changed = s->now;
}

/* The known state of all nodes at `here`: the node's own state, the last collected state of the others, and sent jobs.
 * */
static const struct sim_view *look(struct sim *s, uint32_t here)
{
	uint64_t refresh = last_refresh(s);

	for (uint32_t k = 0; k < s->par.nodes; k++) {
		struct node *n = &s->nodes[k];
		struct sim_view v = k == here || n->changed <= refresh ? n->now : n->before;

		v.load += n->coming.load;
		v.request += n->coming.request;
		v.jobs += n->coming.jobs;
		s->views[k] = v;
	}
	return s->views;
}

#endif /* SIM_STATE_H */
