/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Local users (CCS T. 2), each with a benchmark on a node without another user. */
#ifndef SIM_USERS_H
#define SIM_USERS_H

#include "workload.h"

#define USERS	(1ULL << 40)	/* streams of users, apart from those of jobs */

/* Normal, drawn again while it is not in [low, high]. */
static double truncated(uint64_t *stream, double mean, double sd, double low, double high)
{
	for (int i = 0; i < 1000; i++) {
		double x = mean + sd * normal(stream);

		if (x >= low && x <= high)
			return x;
	}
	return mean < low ? low : mean > high ? high : mean;
}

/* The next cycle of a local task: a burst, then a wait. */
static void next_cycle(struct task *t)
{
	uint64_t burst = exponential_ns(&t->gaps, t->burst_ns);

	t->message_left = burst;
	t->cycle_ns = burst;
}

/* A user comes to a node without a user, and starts the local benchmark. */
static void start_user(struct sim *s)
{
	uint32_t number = (uint32_t)s->stats.users++, free = 0, node = 0, i;
	uint64_t user = stream_of(s->par.seed, USERS + number, 0, 0);
	const struct sim_profile *profile = s->par.profiles;
	struct node *n;
	struct task *t;
	double u, cpu, memory;

	for (uint32_t k = 0; k < s->par.nodes; k++)
		free += !s->nodes[k].has_user;
	free = s->par.locals_first ? 0 : below(&s->streams[DRAW_USER], free);
	for (node = 0; s->nodes[node].has_user || free--; node++)
		;
	n = &s->nodes[node];
	u = uniform(&user);
	for (i = 1; i < s->par.nr_profiles && u > profile->part; i++)
		u -= profile++->part;
	cpu = truncated(&user, profile->cpu, profile->cpu_sd, 0.01, 1);
	memory = truncated(&user, profile->memory, profile->memory_sd, 0.001, 1);
	s->stats.drawn_cpu += cpu;
	s->stats.drawn_memory += memory;
	i = new_task(s, node, CLASS_LOCAL, number, USERS + number, (uint32_t)(memory * n->frames) + 1);
	t = &s->tasks[i];
	t->planned_ns = exponential_ns(&user, s->par.user_ns[uniform(&user) > s->par.user_first]);
	t->gaps = stream_of(s->par.seed, USERS + number, 0, (enum purpose)DRAW_THINK);
	t->burst_ns = cpu * s->par.cycle_ns;
	t->think_ns = (1 - cpu) * s->par.cycle_ns;
	t->began = t->whole = s->now;
	next_cycle(t);
	n->has_user = 1;	/* new_task() has brought the areas up to date */
	t->quantum = t->counter = quantum_of(&s->par, n->weight, 1, 0, STATE_FREE);
	make_ready(s, n, i, CAUSE_FORK);
	if (n->running == NIL)
		dispatch(s, n);
}

/* Its time is over. The user is taken to be there until idle_ns have passed. */
static void end_user(struct sim *s, uint32_t index)
{
	struct task *t = &s->tasks[index];
	struct node *n = &s->nodes[t->node];
	double wall = (double)(s->now - t->began) / 1e9, alone = (double)t->alone_ns / 1e9;

	s->stats.sojourns++;
	s->stats.local_wall += wall;
	s->stats.local_alone += alone;
	s->stats.bounded += wall / (alone < 10 ? 10 : alone) < 1 ? 1 : wall / (alone < 10 ? 10 : alone);
	node_areas(s, n);
	n->has_user = 0;
	n->user_until = s->now + s->par.idle_ns;
	end_task(s, index);
	start_user(s);
}

#endif /* SIM_USERS_H */
