/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The end of an epoch: stops, events to other nodes, new quanta (CCS sec. 3.1, 4.2, 4.3). */
#ifndef SIM_EPOCH_H
#define SIM_EPOCH_H

#include "cpu.h"

/* A task is stopped from now on, or no longer. */
static void set_held(struct sim *s, struct node *n, uint32_t index, int held)
{
	struct task *t = &s->tasks[index];
	int is_ready = t->state == TASK_QUEUED || t->state == TASK_RUNNING || t->state == TASK_EXPIRED;
	double now = (double)s->now / 1e9;

	node_areas(s, n);
	n->mem_held += held ? t->vir : -(uint64_t)t->vir;
	s->stopped += held ? -now : now;
	n->ready += is_ready ? (held ? -1 : 1) : 0;
	if (t->state == TASK_EXPIRED)
		n->nr_held += held ? 1 : -1;
	t->held = (uint8_t)held;
	if (!held || !is_ready || t->state == TASK_EXPIRED)
		return;
	if (t->state == TASK_RUNNING)
		leave_cpu(s, n);
	else
		take(s, n, index);
	set_aside(s, n, index);
}

/* Set_Quantum, at the roll-over (CCS Alg. 2, B-CCS-17), with half of the last quantum's rest (B-CCS-31). */
static void assign_quanta(struct sim *s, struct node *n, int user)
{
	for (uint32_t i = n->tasks; i != NIL; i = s->tasks[i].neighbour) {
		struct task *t = &s->tasks[i];
		uint64_t quantum = quantum_of(&s->par, n->weight, user, parallel(t), t->contract);

		t->quantum = quantum;
		t->counter = quantum ? (uint64_t)next_quantum((long long)t->counter, quantum, 1) : 0;
		if (t->held != !quantum)
			set_held(s, n, i, !quantum);
	}
}

/* The epoch is over. The caller dispatches if the CPU is free then. */
static void roll_over(struct sim *s, struct node *n)
{
	int user = local_user(s, n);
	uint64_t length = s->now - n->epoch_began;

	s->stats.epochs++;
	n->epochs++;
	if (n->running != NIL)
		stop(s, n, &s->tasks[n->running]);
	n->local = (uint8_t)user;
	tick(s, n);
	if (s->par.set_memory) {
		int swapping = n->epoch_faults && n->epoch_faults * 1000000000ULL >= PAGING_S * length;

		set_memory(s, n, user, swapping, pool_of(s));
		for (uint32_t i = n->tasks; i != NIL; i = s->tasks[i].neighbour)
			s->tasks[i].wanted = s->tasks[i].order > 0;
	}
	settle(s, n, NULL);
	assign_quanta(s, n, user);
	for (uint32_t i = n->expired, next; i != NIL; i = next) {
		next = s->tasks[i].next;
		if (s->tasks[i].counter) {
			take_back(s, n, i);
			insert(s, n, i, CAUSE_EXPIRE);
		}
	}
	n->epoch_began = s->now;
	n->epoch_faults = 0;
	if (n->running != NIL)
		begin(s, n, &s->tasks[n->running], s->now);
}

static void on_epoch(struct sim *s, uint32_t node)
{
	struct node *n = &s->nodes[node];

	if (s->now - n->epoch_began >= s->par.epoch_ns) {
		s->stats.forced_epochs++;
		roll_over(s, n);
		if (n->running == NIL)
			dispatch(s, n);
	}
	set_timer(s, (struct timer){ .at = n->epoch_began + s->par.epoch_ns, .what = TIMER_EPOCH, .to = node });
}

#endif /* SIM_EPOCH_H */
