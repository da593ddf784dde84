/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A node's CPU: the running task, its next event, and its needs. */
#ifndef SIM_CPU_H
#define SIM_CPU_H

#include "users.h"

/* Account the running task's CPU time; until begin() no task owns the CPU. */
static inline void stop(struct sim *s, struct node *n, struct task *t)
{
	uint64_t ran = s->now > n->since ? s->now - n->since : 0;

	if (s->now > n->since)
		n->since = s->now;
	t->counter -= ran;
	t->last_run = s->now;
	t->cpu += ran;
	if (t->spins) {
		n->spun += ran;
		t->spin_left -= ran;
		return;
	}
	n->busy[t->class_] += ran;
	if (t->work_left != NEVER)
		t->work_left -= ran;
	if (t->message_left != NEVER)
		t->message_left -= ran;
	if (t->fault_left != NEVER)
		t->fault_left -= ran;
}

/* The next event of the running task, and its time. */
static inline void begin(struct sim *s, struct node *n, const struct task *t, uint64_t from)
{
	uint64_t due = t->counter;

	n->cpu_event = CPU_EXPIRE;
	if (t->spins) {
		if (t->spin_left <= due) {
			due = t->spin_left;
			n->cpu_event = CPU_SPUN;
		}
	} else {
		if (t->fault_left <= due) {
			due = t->fault_left;
			n->cpu_event = CPU_FAULT;
		}
		due = message_or_end(n, t, due);
	}
	n->since = from;
	cpu_at(s, (uint32_t)(n - s->nodes), from + due);
}

/* The CPU is taken from the running task, whose time stop() has accounted. */
static void leave_cpu(struct sim *s, struct node *n)
{
	struct task *t = &s->tasks[n->running];

	stop(s, n, t);
	if (parallel(t))
		job_runs(s, t, -1);
	n->running = NIL;
}

/* The running task goes back to the head of the queue. */
static void displace(struct sim *s, struct node *n, uint32_t index)
{
	leave_cpu(s, n);
	s->tasks[index].state = TASK_QUEUED;
	link_behind(s, n, index, NIL);
	s->stats.preempts++;
}

/* The task, which is on no CPU, waits for a page: one disk for each node, first come, first served. */
static void begin_fault(struct sim *s, struct node *n, uint32_t index)
{
	struct task *t = &s->tasks[index];
	uint64_t from = n->disk_free > s->now ? n->disk_free : s->now;

	ready(s, n, -1);
	t->state = TASK_FAULTING;
	count_fault(s, n, t);
	n->disk_free = from + s->par.fault_ns;
	set_timer(s, (struct timer){ .at = n->disk_free, .what = TIMER_PAGE, .to = index,
				     .to_generation = t->generation });
}

/* Does the task, about to run, refer to a page that is not there? And when, while it runs, will it? */
static int faults_at_once(struct sim *s, struct task *t)
{
	uint32_t part;
	int call = !parallel(t) && t->needs;	/* a system call refers to one page */

	if (call || s->par.touch_ns <= 0) {
		if (call)
			t->needs = 0;
		if (refers_to_missing(t, 1))
			return 1;
	}
	t->fault_left = NEVER;
	part = missing(t);
	if (part && s->par.touch_ns > 0)
		t->fault_left = exponential_ns(&t->pages, s->par.touch_ns * 65536 / part);
	return 0;
}

static void count_call(struct sim *s, struct task *t)
{
	uint64_t ns = s->now - t->woke, ms = ns / 1000000;

	s->stats.calls++;
	s->stats.scl[ms < SIM_SCL_MS ? ms : SIM_SCL_MS - 1]++;
	s->stats.scl_sum += (double)ns / 1e9;
	if ((double)ns / 1e9 > s->stats.scl_max)
		s->stats.scl_max = (double)ns / 1e9;
	t->woke = 0;
}

/* Read the awaited message, if it is there. */
static inline void read_message(struct task *t)
{
	if (!t->rq.rec && !t->alone)
		return;
	t->needs = t->spins = 0;
	if (t->rq.rec) {
		t->rq.rec--;
		t->rq.com--;
	}
}

static void run_task(struct sim *s, struct node *n, uint32_t index)
{
	struct task *t = &s->tasks[index];
	uint64_t from = s->now;

	if (n->last != index) {
		s->stats.switches++;
		from += s->par.switch_ns;
		n->last = index;
	}
	if (t->woke)
		count_call(s, t);
	if (parallel(t)) {
		job_runs(s, t, 1);
		if (t->needs)
			read_message(t);
	}
	t->state = TASK_RUNNING;
	n->running = index;
	begin(s, n, t, from);
}

static void roll_over(struct sim *s, struct node *n);

/* The CPU is free: the head of the queue that has its page runs; none, and the epoch may be over. */
static void dispatch(struct sim *s, struct node *n)
{
	for (;;) {
		uint32_t index = n->head;

		if (index == NIL) {
			if (n->nr_expired == n->nr_held)
				break;
			roll_over(s, n);
			continue;
		}
		take_head(s, n);
		s->stats.dispatches++;
		s->stats.de[s->tasks[index].rq.de < SIM_DE_MAX ? s->tasks[index].rq.de : SIM_DE_MAX - 1]++;
		s->tasks[index].rq.flags &= ~(unsigned int)TASK_CREDIT;
		s->tasks[index].last_run = s->now;
		if (!faults_at_once(s, &s->tasks[index])) {
			run_task(s, n, index);
			return;
		}
		begin_fault(s, n, index);
	}
	n->running = NIL;
	cpu_at(s, (uint32_t)(n - s->nodes), NEVER);
}

#endif /* SIM_CPU_H */
