/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A node's ready queue and its CPU. bpf/insert_rq.h, which the kernel runs, too, decides the place of a task; this file
 * has only the list.
 *
 * The running task, RQ[0], is apart from the list. A displaced task goes back to the head with its de and the rest of
 * its slice (B-CSM-4, B-CSM-12).
 *
 * For engines that have, before they include this: struct task with rq, next,
 * prev, state, message_left and work_left, struct node with running, head, tail,
 * nr and cpu_event, enum cpu_event, struct sim with tasks, env, par, stats, log
 * and trouble; overloaded(); in_turn(), the task
 * that would be displaced, if any; and observe(), which brings up to date what
 * the rules want to know. displace() they have later.
 */
#ifndef SIM_READY_QUEUE_H
#define SIM_READY_QUEUE_H

static inline void link_behind(struct sim *s, struct node *n, uint32_t index, uint32_t ahead)
{
	uint32_t after = ahead == NIL ? n->head : s->tasks[ahead].next;

	s->tasks[index].prev = ahead;
	s->tasks[index].next = after;
	*(ahead == NIL ? &n->head : &s->tasks[ahead].next) = index;
	*(after == NIL ? &n->tail : &s->tasks[after].prev) = index;
	n->nr++;
}

static inline uint32_t take_head(struct sim *s, struct node *n)
{
	uint32_t index = n->head;

	n->head = s->tasks[index].next;
	*(n->head == NIL ? &n->tail : &s->tasks[n->head].prev) = NIL;
	n->nr--;
	return index;
}

/* Take a task out from wherever it is in the queue. */
static inline void take(struct sim *s, struct node *n, uint32_t index)
{
	struct task *t = &s->tasks[index];

	*(t->prev == NIL ? &n->head : &s->tasks[t->prev].next) = t->next;
	*(t->next == NIL ? &n->tail : &s->tasks[t->next].prev) = t->prev;
	n->nr--;
}

static void count_insertion(struct sim *s, const struct task *h, enum insert_plan plan, uint32_t passed)
{
	struct sim_stats *st = &s->stats;
	unsigned int mode;

	st->insertions++;
	*(plan == PLAN_TAIL ? &st->tails : plan == PLAN_TOP ? &st->tops : &st->walks) += 1;
	st->promotions += passed > 0;
	st->passed += passed;
	if (!(h->rq.flags & TASK_PARALLEL))
		return;
	st->parallel_insertions++;
	mode = decided_by(&s->env, &h->rq);
	st->by_mes += mode == STAT_MODE_PRED;
	st->by_rec += mode == STAT_MODE_DYN;
	st->by_flt += mode == STAT_MODE_CSM;
}

/* Remember what a decision is based on, so that a test can decide it again. */
static struct sim_decision *log_situation(struct sim *s, const struct node *n, const struct task *h,
					  const struct task *running)
{
#ifdef SIM_CHECK
	if (s->log && s->nr_log < SIM_LOG_ROOM && n->nr <= SIM_LOG_QUEUE) {
		struct sim_decision *d = &s->log[s->nr_log++];

		*d = (struct sim_decision){ .env = s->env, .h = h->rq, .has_running = running != NULL };
		if (running)
			d->running = running->rq;
		for (uint32_t i = n->head; i != NIL; i = s->tasks[i].next)
			d->queue[d->nr++] = s->tasks[i].rq;
		return d;
	}
#endif
	(void)s, (void)n, (void)h, (void)running;
	return NULL;
}

static inline void log_outcome(struct sim_decision *d, uint32_t ahead_of, uint32_t passed, int preempt, int charged)
{
#ifdef SIM_CHECK
	if (d) {
		d->position = d->nr - ahead_of;
		d->passed = passed;
		d->preempt = preempt;
		d->charged_running = charged;
	}
#endif
	(void)d, (void)ahead_of, (void)passed, (void)preempt, (void)charged;
}

static void displace(struct sim *s, struct node *n, uint32_t index);

/* insert_RQ(h): place a task that became ready. The caller dispatches if the CPU is free afterwards. */
static void insert(struct sim *s, struct node *n, uint32_t index, enum insert_cause cause)
{
	struct task *h = &s->tasks[index];
	struct task *running = in_turn(s, n);
	uint32_t ahead = n->tail, overtaken = 0;
	int preempt = 0, charged = 0;
	enum insert_plan plan;
	struct sim_decision *logged;

	observe(s, n, h);
	h->state = TASK_QUEUED;
	s->env.cause = cause;
	s->env.overloaded = overloaded(s, n);
	logged = log_situation(s, n, h, running);
	plan = insert_plan(&s->env, &h->rq, running ? &running->rq : NULL);
	if (plan == PLAN_TOP) {
		ahead = NIL;
		overtaken = n->nr;
		preempt = running != NULL;
	} else if (plan == PLAN_WALK) {
		for (; ahead != NIL; ahead = s->tasks[ahead].prev, overtaken++) {
			s->stats.looks++;
			if (!may_overtake(&s->env, &s->tasks[ahead].rq, &h->rq))
				break;
			s->tasks[ahead].rq.de += charges(&s->env);
			CHECK(s, s->tasks[ahead].rq.de <= (s->tasks[ahead].rq.flags & TASK_PARALLEL ?
				s->par.mnod : s->par.mnol), "a task was overtaken more than MNO times");
		}
		if (ahead == NIL && running) {
			s->stats.looks++;
			preempt = may_overtake(&s->env, &running->rq, &h->rq);
			charged = preempt && charges(&s->env);
		}
	}
	log_outcome(logged, overtaken, overtaken + charged, preempt, charged);
	if (preempt && s->par.top_next)
		preempt = charged = 0;
	count_insertion(s, h, plan, overtaken + preempt);
	if (preempt) {
		running->rq.de += charged;
		displace(s, n, n->running);
	}
	link_behind(s, n, index, ahead);
}

/* Does the running task come to a message or to its end within `due` of CPU time? Sets which, and returns when. */
static inline uint64_t message_or_end(struct node *n, const struct task *t, uint64_t due)
{
	if (t->message_left <= due) {
		due = t->message_left;
		n->cpu_event = CPU_MESSAGE;
	}
	if (t->work_left <= due) {
		due = t->work_left;
		n->cpu_event = CPU_END;
	}
	return due;
}

#endif /* SIM_READY_QUEUE_H */
