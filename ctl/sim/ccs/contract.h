/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The social contract on one node: Set_Quantum (CCS Alg. 2, bpf/set_quantum.h)
 * and Set_Memory (CCS Alg. 3, with B-CCS-6, 8 and 9). Set_Memory's rule is that
 * of ctl/node/set_memory.py; tests compare the two. The agent does not share
 * this text, because each works on its own state: linked tasks of an event loop
 * here, jobs with reasons for people in the agent.
 */
#ifndef SIM_CONTRACT_H
#define SIM_CONTRACT_H

#include "set_quantum.h"
#include "state.h"

#define QUIET		2	/* epochs without a page coming back until a job may go on */
#define MOST_QUIET	32
#define SETTLE		3	/* epochs in which the pages of a task that goes on come back */
#define PAGING_S	4	/* page faults a second from which on a node swaps */

/* The quantum of a task (CCS Alg. 2, eq. 3); L counts once (B-CCS-14). 0 for a stopped task. */
static uint64_t quantum_of(const struct sim_params *p, double weight, int user, int is_parallel, uint32_t state)
{
	uint32_t stretch = (uint32_t)((1 << MES_SHIFT) / weight + 0.5);
	uint32_t share_l = (uint32_t)((1 << MES_SHIFT) * p->share_l + 0.5);

	if (state == STATE_STOPPED)
		return 0;
	if (!p->set_quantum)
		return p->quantum_ns;
	return set_quantum(p->quantum_ns, stretch, share_l, is_parallel && (user || state == STATE_SLOWED));
}

/* MPL(N_k) = MPL(N_max) W(N_k), the integer part, at least 1 (CCS eq. 4, B-CCS-22) */
static uint32_t mpl_of(uint32_t mpl, double weight)
{
	uint32_t bound = (uint32_t)(mpl * weight + 1e-9);

	return bound ? bound : 1;
}

/* M_Paral = min M * L (CCS eq. 5) */
static uint32_t pool_of(const struct sim *s)
{
	return (uint32_t)(s->smallest * s->par.share_l);
}

/* Whether another node wants this task stopped. */
static int stopped_elsewhere(struct sim *s, const struct task *t)
{
	const struct peer *peers = peers_of(s, t);

	for (uint32_t k = 0; k < s->par.nodes; k++)
		if (peers[k].stop)
			return 1;
	return 0;
}

static void take_stop_back(struct sim *s, struct task *t, uint32_t patience)
{
	t->order = 0;
	t->patience = patience;
	s->stats.resumes++;
}

/* The task that was stopped next after `order`; NULL: none. */
static struct task *next_stop(struct sim *s, const struct node *n, uint32_t order)
{
	struct task *found = NULL;

	for (uint32_t i = n->tasks; i != NIL; i = s->tasks[i].neighbour) {
		struct task *t = &s->tasks[i];

		if (t->order > order && (!found || t->order < found->order))
			found = t;
	}
	return found;
}

/* Take back stops (B-CCS-8); did any? */
static int let_go_on(struct sim *s, struct node *n, int user, uint64_t used, uint32_t pool)
{
	struct task *first = next_stop(s, n, 0), *t;
	uint64_t free = n->frames > n->resident ? n->frames - n->resident : 0;
	uint32_t patience;

	if (!first)
		return 0;
	if (!user) {
		while ((t = next_stop(s, n, 0)))
			take_stop_back(s, t, QUIET);
		return 1;
	}
	for (t = first; t; t = next_stop(s, n, t->order)) {
		if (used + t->stop_need <= pool) {
			take_stop_back(s, t, QUIET);
			return 1;
		}
	}
	patience = first->patience ? first->patience : QUIET;
	if (n->quiet < (first->vir - first->res <= free ? patience : MOST_QUIET))
		return 0;
	take_stop_back(s, first, 2 * patience < MOST_QUIET ? 2 * patience : MOST_QUIET);
	n->quiet = 0;
	return 1;
}

/* stoptask := the parallel task with the largest RMS (CCS Alg. 3) */
static void stop_largest(struct sim *s, struct node *n)
{
	struct task *largest = NULL;

	for (uint32_t i = n->tasks; i != NIL; i = s->tasks[i].neighbour) {
		struct task *t = &s->tasks[i];

		if (!parallel(t) || t->order || stopped_elsewhere(s, t))
			continue;
		if (!largest || t->res > largest->res || (t->res == largest->res && t->job > largest->job))
			largest = t;
	}
	if (!largest)
		return;
	largest->order = ++n->order;
	largest->stop_need = largest->vir;
	s->stats.stops++;
}

/* Once an epoch: decide the tasks to stop, and the tasks to let go on. Leaves it in the tasks' order. */
static void set_memory(struct sim *s, struct node *n, int user, int swapping, uint32_t pool)
{
	uint32_t settling = n->settling;
	uint64_t used = 0;

	for (uint32_t i = n->tasks; i != NIL; i = s->tasks[i].neighbour)
		if (parallel(&s->tasks[i]) && s->tasks[i].contract != STATE_STOPPED)
			used += s->tasks[i].vir;
	n->quiet = swapping ? 0 : n->quiet < MOST_QUIET ? n->quiet + 1 : MOST_QUIET;
	n->settling = settling ? settling - 1 : 0;
	if (let_go_on(s, n, user, used, pool))
		n->settling = SETTLE;
	else if (!settling && swapping && user && used >= pool)
		stop_largest(s, n);
}

#endif /* SIM_CONTRACT_H */
