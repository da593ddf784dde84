// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The engine: one node under DCNDC's local scheduler, event by event (Monito
 * sec. 3, 5.3).
 *
 *	arrival ──> bottom of RQ ──> dispatch ──> CPU ──> end
 *	                 ^              ^          ├──> slice used up ──> bottom of RQ
 *	                 │              │          └──> receive, no message: block
 *	  a message ─────┴──────────────┘
 *	  for one that blocked: into RQ; for one that is queued: moved in RQ, if the
 *	  rule says so; either may reach the top, and so the CPU
 *
 * Three sources of events: the next arrival, the next message (a heap), and
 * what the running task does next. The earliest is taken, at equal times in
 * this order. No event is cancelled: the CPU's next event is overwritten.
 *
 * With SIM_CHECK the engine checks itself while it runs.
 */
#include "queue.h"

/* --- the CPU --- */

/* Account the CPU time that the running task had. */
static void stop(struct sim *s)
{
	struct task *t = &s->tasks[s->running];
	uint64_t ran = s->now - s->since;

	s->busy += ran;
	t->rq.cpu_ns += ran;
	t->slice_left -= ran;
	if (t->waits) {
		t->spin_left -= ran;
		s->spun += ran;
	} else {
		t->done += ran;
	}
	s->since = s->now;
}

/* The next event of the running task, and its time. */
static void begin(struct sim *s)
{
	struct task *t = &s->tasks[s->running];
	uint64_t due = t->slice_left;

	s->cpu_event = CPU_EXPIRE;
	if (t->waits) {
		if (t->spin_left <= due) {
			due = t->spin_left;
			s->cpu_event = CPU_BLOCK;
		}
	} else if (t->received < t->receives && t->point[t->received] - t->done <= due) {
		due = t->point[t->received] - t->done;
		s->cpu_event = CPU_RECEIVE;
	} else if (t->service - t->done <= due) {
		due = t->service - t->done;
		s->cpu_event = CPU_END;
	}
	s->since = s->now;
	s->cpu_due = s->now + due;
}

/* The task takes a message out of its MBQ, which is not empty. */
static void read_message(struct sim *s, struct task *t)
{
	t->rq.rec--;
	t->rq.com--;
	t->received++;
	t->waits = 0;
	t->rq.flags &= ~TASK_WAITING;
	s->stats.receives++;
}

/* Arrived messages are read at once if no task waits for messages. */
static void read_all(struct sim *s, struct task *t)
{
	s->stats.receives += t->rq.rec;
	t->rq.rec = t->rq.com = 0;
}

/* The dispatch decision: tasks with messages are its opportunities (B-MO-8). */
static void dispatch(struct sim *s)
{
	struct task *t;

	s->running = s->head;
	s->cpu_due = NEVER;
	if (s->head == NIL)
		return;
	t = &s->tasks[s->head];
	s->stats.at_dispatch += s->holders;
	s->stats.taken_at_dispatch += t->rq.rec > 0;
	if (t->decision == s->stats.dispatches)
		s->stats.taken_at_arrival += t->fresh;
	s->stats.dispatches++;
	unlink_task(s, s->head);
	t->state = TASK_RUNNING;
	if (s->par.async_)
		read_all(s, t);
	else if (t->waits && t->rq.rec)
		read_message(s, t);
	begin(s);
}

/* Alg. 1 line 6: a ready task that leaves the CPU goes to the bottom, as if it had just come (B-MO-2, B-MO-3). */
static void to_bottom(struct sim *s, enum insert_cause cause)
{
	uint32_t index = s->running;

	s->running = NIL;
	s->tasks[index].slice_left = s->par.slice_ns;
	if (s->tasks[index].waits)
		s->tasks[index].rq.flags |= TASK_WAITING;
	insert(s, index, s->tail, cause);
}

/* The running task gives way to the head of the queue. */
static void displace(struct sim *s)
{
	uint32_t index = s->running;

	stop(s);
	s->stats.preempts++;
	if (!s->par.to_head) {
		to_bottom(s, CAUSE_EXPIRE);
		return;
	}
	s->running = NIL;
	if (s->tasks[index].waits)
		s->tasks[index].rq.flags |= TASK_WAITING;
	link_behind(s, index, s->head);		/* right behind the displacing task (B-CSM-4) */
}

/* --- the events --- */

static void on_expiry(struct sim *s)
{
	s->stats.expiries++;
	to_bottom(s, CAUSE_EXPIRE);
	dispatch(s);
}

static void block(struct sim *s)
{
	s->stats.blocks++;
	s->tasks[s->running].state = TASK_BLOCKED;
	s->tasks[s->running].slice_left = s->par.slice_ns;
	dispatch(s);
}

static void on_receive(struct sim *s)
{
	struct task *t = &s->tasks[s->running];

	if (t->rq.rec) {
		read_message(s, t);
		begin(s);
		return;
	}
	t->waits = 1;
	t->spin_left = s->par.spin_ns;
	if (!t->spin_left) {
		block(s);
		return;
	}
	s->stats.spins++;
	begin(s);
}

static void on_end(struct sim *s)
{
	uint32_t index = s->running;
	struct task *t = &s->tasks[index];
	struct sim_record *r = &s->records[t->number];
	int kind = !!(t->rq.flags & TASK_PARALLEL);

	CHECK(s, t->done == t->service && !t->waits, "a task ended before its work was done");
	CHECK(s, s->par.async_ || (t->received == t->receives && !t->rq.rec), "a task ended with messages to receive");
	areas(s);
	s->live--;
	s->nr_served++;
	s->stats.ends++;
	s->stats.late += t->rq.rec;
	s->stats.served[kind]++;
	s->stats.response[kind] += (double)(s->now - t->arrived) / 1e9;
	s->stats.service[kind] += (double)t->service / 1e9;
	s->response += s->now - t->arrived;
	r->ended = s->now;
	t->state = TASK_FREE;
	t->generation++;
	t->next = s->free_task;
	s->free_task = index;
	dispatch(s);
}

static void on_cpu(struct sim *s)
{
	CHECK(s, s->running != NIL && s->tasks[s->running].state == TASK_RUNNING, "an idle CPU had an event");
	stop(s);
	if (s->cpu_event == CPU_EXPIRE)
		on_expiry(s);
	else if (s->cpu_event == CPU_RECEIVE)
		on_receive(s);
	else if (s->cpu_event == CPU_END)
		on_end(s);
	else
		block(s);
}

/* A message for a running task is read at once if the task polls or reads all messages; else it lies in the MBQ. */
static void deliver_to_running(struct sim *s, struct task *t)
{
	if (s->par.async_) {
		read_all(s, t);
	} else if (t->waits) {
		stop(s);
		s->stats.spins_met++;
		read_message(s, t);
		begin(s);
	}
}

/* Does a message move a task that is queued? Implicit coscheduling looks at those alone that wait for it. */
static int moves_queued(const struct sim *s, const struct task *t)
{
	return s->par.rule != RULE_FIFO && (s->par.rule != RULE_IMPLICIT || t->rq.flags & TASK_WAITING);
}

static void on_message(struct sim *s)
{
	struct message m = heap_take(&s->messages);
	struct task *t = &s->tasks[m.to];
	uint32_t ahead = s->tail;
	int was_queued = t->state == TASK_QUEUED;

	s->stats.messages++;
	if (t->generation != m.generation) {
		s->stats.late++;
		return;
	}
	if (was_queued) {
		ahead = t->prev;
		unlink_task(s, m.to);
	}
	t->rq.rec++;
	t->rq.com++;
	if (t->state == TASK_RUNNING) {
		deliver_to_running(s, t);
		return;
	}
	s->stats.at_arrival++;
	t->fresh = t->decision == s->stats.dispatches ? t->fresh + 1 : 1;
	t->decision = s->stats.dispatches;
	if (was_queued && !moves_queued(s, t)) {
		link_behind(s, m.to, ahead);
		return;
	}
	t->rq.flags &= ~TASK_WAITING;
	if (insert(s, m.to, ahead, was_queued ? CAUSE_MESSAGE : CAUSE_WAKE) || s->running == NIL)
		dispatch(s);
}

#include "run.h"
