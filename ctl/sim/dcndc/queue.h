/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The ready queue. bpf/insert_rq.h decides the place of a task. This file has the list, and Monito's Algorithm 1 for
 * displaced tasks.
 */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include "state.h"

static void link_behind(struct sim *s, uint32_t index, uint32_t ahead)
{
	uint32_t after = ahead == NIL ? s->head : s->tasks[ahead].next;

	s->tasks[index].prev = ahead;
	s->tasks[index].next = after;
	*(ahead == NIL ? &s->head : &s->tasks[ahead].next) = index;
	*(after == NIL ? &s->tail : &s->tasks[after].prev) = index;
	s->nr++;
	s->holders += s->tasks[index].rq.rec > 0;
	s->tasks[index].state = TASK_QUEUED;
}

static void unlink_task(struct sim *s, uint32_t index)
{
	struct task *t = &s->tasks[index];

	*(t->prev == NIL ? &s->head : &s->tasks[t->prev].next) = t->next;
	*(t->next == NIL ? &s->tail : &s->tasks[t->next].prev) = t->prev;
	s->nr--;
	s->holders -= t->rq.rec > 0;
}

/* The running task, with the CPU time that it has had by now. */
static struct rq_task as_running(const struct sim *s)
{
	struct rq_task e = s->tasks[s->running].rq;

	e.cpu_ns += s->now - s->since;
	return e;
}

static struct sim_decision *log_situation(struct sim *s, const struct task *h, uint32_t ahead)
{
#ifdef SIM_CHECK
	if (s->log && s->nr_log < SIM_LOG_ROOM && s->nr <= SIM_LOG_QUEUE) {
		struct sim_decision *d = &s->log[s->nr_log++];

		*d = (struct sim_decision){ .env = s->env, .h = h->rq, .has_running = s->running != NIL };
		if (d->has_running)
			d->running = as_running(s);
		for (uint32_t i = s->head; i != NIL; i = s->tasks[i].next) {
			d->queue[d->nr++] = s->tasks[i].rq;
			if (i == ahead)
				d->start = d->nr;
		}
		return d;
	}
#endif
	(void)s, (void)h, (void)ahead;
	return NULL;
}

static void log_outcome(struct sim_decision *d, uint32_t passed, int preempt, int charged)
{
	if (!d)
		return;
	d->position = d->start - passed;
	d->passed = passed;
	d->preempt = preempt;
	d->charged_running = charged;
}

/* The tasks that h passes, from the place behind `ahead` on. Returns the task behind which h comes. */
static uint32_t walk(struct sim *s, const struct task *h, uint32_t ahead, uint32_t *passed)
{
	for (; ahead != NIL; ahead = s->tasks[ahead].prev, ++*passed) {
		struct task *q = &s->tasks[ahead];

		if (!may_overtake(&s->env, &q->rq, &h->rq))
			break;
		q->rq.de++;
		CHECK(s, q->rq.de <= s->par.mno, "a task was overtaken more than the maximum");
	}
	return ahead;
}

static void displace(struct sim *s);

/*
 * A task became ready (its place is then behind all others), or a message came for a queued task (it is then behind
 * `ahead`, unlinked). Returns whether the running task was displaced: the caller then dispatches (Alg. 2 line 9).
 */
static int insert(struct sim *s, uint32_t index, uint32_t ahead, enum insert_cause cause)
{
	struct task *h = &s->tasks[index];
	struct rq_task e = { 0 };
	uint32_t passed = 0, start = ahead;
	int has = s->running != NIL, preempt = 0, charged = 0;
	struct sim_decision *logged;
	enum insert_plan plan;

	if (cause != CAUSE_MESSAGE)
		h->rq.de = 0;
	if (has)
		e = as_running(s);
	s->env.cause = cause;
	logged = log_situation(s, h, ahead);
	plan = insert_plan(&s->env, &h->rq, has ? &e : NULL);
	if (plan == PLAN_TOP && s->par.wake_bottom)
		plan = PLAN_TAIL;
	if (plan == PLAN_TOP) {
		for (; ahead != NIL; ahead = s->tasks[ahead].prev)
			passed++;
		preempt = has;
	} else if (plan == PLAN_WALK) {
		ahead = walk(s, h, ahead, &passed);
		if (ahead == NIL && has)
			preempt = charged = may_overtake(&s->env, &e, &h->rq);
	}
	log_outcome(logged, passed, preempt, charged);
	s->stats.insertions++;
	s->stats.promotions += ahead != start || preempt;
	s->stats.passed += passed + preempt;
	link_behind(s, index, ahead);
	if (preempt) {
		s->tasks[s->running].rq.de += charged;
		displace(s);
	}
	return preempt;
}

#endif /* SIM_QUEUE_H */
