/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sending_Events and Receiving_Events (CCS sec. 4.3): LOCAL_U, NO_LOCAL, STOP
 * and RESUME, each saying how things are on the node that sends it, so that a
 * lost or overtaken one does no harm (B-CCS-12, 13). A job is stopped here
 * while any node stops it, else slowed while any has a local user. The rules,
 * which job stops where several should (B-CCS-11) included, are those of
 * ctl/cluster/machine.py; tests compare them.
 */
#ifndef SIM_EVENTS_H
#define SIM_EVENTS_H

#include "contract.h"

#define REPEATS	2	/* how often "free" is repeated */

/* Room for one more event under way, doubled when there is none; NIL: no memory. */
static uint32_t new_note(struct sim *s)
{
	uint32_t index = s->free_note, old = s->nr_notes;

	if (index == NIL) {
		struct note *more = realloc(s->notes, 2ULL * old * sizeof(*more));

		if (!more) {
			s->trouble = "out of memory for events";
			return NIL;
		}
		for (uint32_t i = old; i < 2 * old; i++)
			more[i].next = i + 1 < 2 * old ? i + 1 : NIL;
		s->notes = more;
		s->nr_notes = 2 * old;
		index = old;
	}
	s->free_note = s->notes[index].next;
	return index;
}

/* The task of a job on a node; NULL: none. */
static struct task *task_of(struct sim *s, const struct node *n, uint32_t job)
{
	for (uint32_t i = n->tasks; i != NIL; i = s->tasks[i].neighbour)
		if (parallel(&s->tasks[i]) && s->tasks[i].job == job)
			return &s->tasks[i];
	return NULL;
}

/* How things are with a job here, to every other node that holds it. */
static void send_event(struct sim *s, const struct node *n, const struct task *t)
{
	uint64_t *network = &s->streams[DRAW_NETWORK];

	for (uint32_t k = 0; k < s->par.nodes; k++) {
		uint64_t late = s->par.event_ns;
		uint32_t note;

		if (&s->nodes[k] == n || !task_of(s, &s->nodes[k], t->job))
			continue;
		s->stats.said++;
		if (s->par.jitter_ns)
			late += (uint64_t)((double)s->par.jitter_ns * uniform(network));
		if (s->par.loss > 0 && uniform(network) <= s->par.loss) {
			s->stats.lost++;
			continue;
		}
		note = new_note(s);
		if (note == NIL)
			return;
		s->notes[note] = (struct note){ .job = t->job, .node = (uint32_t)(n - s->nodes), .to = k, .seq = n->seq,
						.local = t->said_local, .stop = t->said_stop };
		set_timer(s, (struct timer){ .at = s->now + late, .what = TIMER_EVENT, .to = note });
	}
}

/* Say how things are with a job here; `again`: it is news, and will be repeated. */
static void say(struct sim *s, struct node *n, struct task *t, int again)
{
	n->seq++;
	if (again)
		t->repeats = REPEATS;
	t->again = t->said_local || t->said_stop || t->repeats ? s->now + s->par.lease_ns / 3 : NEVER;
	if (s->overheard && s->nr_overheard < s->room_overheard)
		s->overheard[s->nr_overheard++] = (struct contract_said){
			.job = t->job, .seq = n->seq, .local = t->said_local, .stop = t->said_stop };
	else if (s->par.events)
		send_event(s, n, t);
}

/* Whether the job is among the jobs that this node stops: the wanted jobs among the lowest of all stopped jobs. */
static int own_stop(struct sim *s, const struct node *n, const struct task *t)
{
	uint32_t wanted = 0, lower = 0;

	if (!t->wanted)
		return 0;
	for (uint32_t i = n->tasks; i != NIL; i = s->tasks[i].neighbour) {
		struct task *q = &s->tasks[i];

		wanted += q->wanted;
		lower += q->job < t->job && parallel(q) && (q->wanted || stopped_elsewhere(s, q));
	}
	return lower < wanted;
}

static void end_leases(struct sim *s, struct task *t)
{
	struct peer *peers = peers_of(s, t);

	for (uint32_t k = 0; k < s->par.nodes; k++)
		if (peers[k].ends <= s->now)
			peers[k].local = peers[k].stop = 0;
}

static uint32_t decide(struct sim *s, const struct node *n, const struct task *t)
{
	const struct peer *peers = peers_of(s, t);
	int local = n->local;

	if (t->said_stop || stopped_elsewhere(s, t))
		return STATE_STOPPED;
	for (uint32_t k = 0; k < s->par.nodes; k++)
		local |= peers[k].local;
	return local ? STATE_SLOWED : STATE_FREE;
}

/* Derive all states from the known events. `only`: the others' events changed for this job alone (NULL: any job). */
static void settle(struct sim *s, struct node *n, const struct task *only)
{
	uint8_t keep[SIM_NODES + 1];
	uint32_t i, k;

	for (i = n->tasks; i != NIL; i = s->tasks[i].neighbour)
		if (parallel(&s->tasks[i]) && (!only || only == &s->tasks[i] || s->tasks[i].wanted))
			end_leases(s, &s->tasks[i]);
	for (i = n->tasks, k = 0; i != NIL; i = s->tasks[i].neighbour, k++)
		keep[k] = (uint8_t)own_stop(s, n, &s->tasks[i]);
	for (i = n->tasks, k = 0; i != NIL; i = s->tasks[i].neighbour, k++) {
		struct task *t = &s->tasks[i];

		if (!parallel(t) || (only && only != t && !t->wanted))
			continue;
		if (t->said_local != n->local) {
			t->said_local = n->local;
			say(s, n, t, 1);
		}
		if (t->said_stop != keep[k]) {
			t->said_stop = keep[k];
			say(s, n, t, 1);
		}
		t->contract = (uint8_t)decide(s, n, t);
	}
}

/* A job has a task here now; with a local user present this is a LOCAL_U. */
static void hold(struct sim *s, struct node *n, struct task *t)
{
	memset(peers_of(s, t), 0, s->par.nodes * sizeof(struct peer));
	t->said_local = n->local;
	t->said_stop = 0;
	say(s, n, t, 1);
	settle(s, n, NULL);
}

/* It has ended here. Call this while the slot still has the task's data, after the task left n->tasks. */
static void release(struct sim *s, struct node *n, struct task *t)
{
	t->said_local = t->said_stop = t->wanted = 0;
	say(s, n, t, 1);
	settle(s, n, NULL);
}

/* Time has passed: end leases, and send due repetitions. The job that came first is first, as in machine.py. */
static void tick(struct sim *s, struct node *n)
{
	uint32_t oldest = n->tasks;

	while (oldest != NIL && s->tasks[oldest].neighbour != NIL)
		oldest = s->tasks[oldest].neighbour;
	for (uint32_t i = oldest; i != NIL; i = s->tasks[i].behind) {
		struct task *t = &s->tasks[i];
		const struct peer *peers = peers_of(s, t);
		int ended = 0;

		if (!parallel(t))
			continue;
		for (uint32_t k = 0; k < s->par.nodes; k++)
			ended |= peers[k].ends <= s->now && (peers[k].local || peers[k].stop);
		if (ended)
			settle(s, n, t);
		if (t->again <= s->now) {
			t->repeats -= t->repeats > 0;
			say(s, n, t, 0);
		}
	}
}

/* Handle another node's event about a job here, if it is new. */
static void receive(struct sim *s, struct node *n, struct task *t, const struct note *note)
{
	struct peer *p = &peers_of(s, t)[note->node];

	if (note->seq <= p->seq)
		return;
	*p = (struct peer){ .ends = s->now + s->par.lease_ns, .seq = note->seq, .local = note->local,
			    .stop = note->stop };
	settle(s, n, t);
}

#endif /* SIM_EVENTS_H */
