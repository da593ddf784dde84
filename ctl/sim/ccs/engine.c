// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The engine: a non-dedicated, heterogeneous cluster, event by event (CCS
 * sec. 3 to 5; parameters: params.py).
 *
 *	new, or awake ──> insert_RQ ──> dispatch ──> CPU ──> end
 *	     ^                ^                       ├──> no message, page, or input yet ──> (awake)
 *	     │                └── next epoch <── set aside: quantum used up, or stopped
 *
 * CPU time is given in epochs, as in Linux 2.4: a task runs until it waits or
 * has used up its quantum, then it is set aside. When the ready queue is empty and a task that is not stopped is set
 * aside, the epoch is over: Set_Memory decides, the node tells the other nodes, Set_Quantum gives every task its
 * quantum and half of its rest (B-CCS-31), and the tasks set aside are inserted in their order. An epoch that this does
 * not end is ended by epoch_ns: a node where all is stopped must notice that the user has gone.
 *
 * Events are each CPU's next one, in a tournament, and timers, in a heap; at
 * equal times timers first, in the order in which they were set. Each kind of event has one function.
 *
 * With SIM_CHECK the engine checks itself while it runs.
 */
#include "epoch.h"

/* --- messages --- */

static void send(struct sim *s, const struct task *t, uint32_t index, int last)
{
	set_timer(s, (struct timer){ .at = s->now + s->jobs[t->job].script.delay, .what = TIMER_MESSAGE, .to = t->to,
				     .to_generation = t->to_generation, .from = index,
				     .from_generation = t->generation, .last = (uint32_t)last });
}

static void wake(struct sim *s, uint32_t index)
{
	struct node *n = &s->nodes[s->tasks[index].node];

	s->stats.wakes++;
	make_ready(s, n, index, CAUSE_WAKE);
	if (n->running == NIL)
		dispatch(s, n);
}

static void block(struct sim *s, struct node *n, struct task *t)
{
	s->stats.blocks++;
	leave_cpu(s, n);
	ready(s, n, -1);
	t->state = TASK_BLOCKED;
	t->spins = 0;
	dispatch(s, n);
}

/* --- the events of a CPU --- */

/* A parallel task has run to a point where it sends to its successor and needs one message of its predecessor. */
static void on_message_due(struct sim *s, struct node *n, uint32_t index)
{
	struct task *t = &s->tasks[index];

	t->message_left = exponential_ns(&t->gaps, t->gap);
	t->rq.com++;
	t->fresh++;
	send(s, t, index, 0);
	t->needs = 1;
	read_message(t);
	if (t->needs && s->env.rule == RULE_IMPLICIT && s->par.spin_ns) {
		t->spins = 1;
		t->spin_left = s->par.spin_ns;
	} else if (t->needs) {
		block(s, n, t);
		return;
	}
	begin(s, n, t, s->now);
}

/* A local task's burst is over: the task waits for its user. A task that never waits goes on until its time is over. */
static void on_burst_end(struct sim *s, struct node *n, uint32_t index)
{
	struct task *t = &s->tasks[index];
	uint64_t think = t->think_ns > 0 ? exponential_ns(&t->gaps, t->think_ns) : 0;

	if (!think && t->alone_ns + t->cycle_ns < t->planned_ns) {
		t->alone_ns += t->cycle_ns;
		t->whole = s->now;
		next_cycle(t);
		begin(s, n, t, s->now);
		return;
	}
	leave_cpu(s, n);
	ready(s, n, -1);
	t->state = TASK_THINKING;
	t->message_left = NEVER;
	t->cycle_ns += think;
	set_timer(s, (struct timer){ .at = s->now + think, .what = TIMER_THINK, .to = index,
				     .to_generation = t->generation });
	dispatch(s, n);
}

static void on_expiry(struct sim *s, struct node *n, uint32_t index)
{
	s->stats.expiries++;
	leave_cpu(s, n);
	set_aside(s, n, index);
	dispatch(s, n);
}

static void on_end(struct sim *s, struct node *n, uint32_t index)
{
	struct task *t = &s->tasks[index];
	uint32_t number = t->job;
	struct job *j = &s->jobs[number];

	CHECK(s, !t->work_left, "a task ended before its work was done");
	s->stats.ends++;
	leave_cpu(s, n);
	ready(s, n, -1);
	task_areas(s, -1);
	s->tr_sum += s->now - j->record.began;
	s->work_sum += t->work;
	j->record.cpu += t->cpu;
	j->record.faults += t->faults;
	if (t->to != index)
		send(s, t, index, 1);
	end_task(s, index);
	if (!--j->left) {
		j->record.ended = s->now;
		s->nr_done++;
		job_areas(s, -1);
		admit(s);
	}
	if (n->running == NIL)
		dispatch(s, n);
}

static void on_cpu(struct sim *s, struct node *n)
{
	uint32_t index = n->running;

	CHECK(s, index != NIL && s->tasks[index].state == TASK_RUNNING, "a CPU without a task had an event");
	stop(s, n, &s->tasks[index]);
	switch (n->cpu_event) {
	case CPU_MESSAGE:
		if (parallel(&s->tasks[index]))
			on_message_due(s, n, index);
		else
			on_burst_end(s, n, index);
		break;
	case CPU_FAULT:
		leave_cpu(s, n);
		begin_fault(s, n, index);
		dispatch(s, n);
		break;
	case CPU_SPUN:
		block(s, n, &s->tasks[index]);
		break;
	case CPU_END:
		on_end(s, n, index);
		break;
	default:
		on_expiry(s, n, index);
	}
}

/* --- timers --- */

static void on_message(struct sim *s, const struct timer *m)
{
	struct task *t = &s->tasks[m->to], *from = &s->tasks[m->from];

	s->stats.messages++;
	if (!m->last && from->generation == m->from_generation)
		from->rq.com--;
	if (t->generation != m->to_generation)
		return;
	if (m->last) {
		t->alone = 1;
	} else {
		t->rq.rec++;
		t->rq.com++;
		t->fresh++;
	}
	if (t->state == TASK_BLOCKED) {
		wake(s, m->to);
	} else if (t->state == TASK_RUNNING && t->spins) {
		stop(s, &s->nodes[t->node], t);
		read_message(t);
		begin(s, &s->nodes[t->node], t, s->now);
	}
}

static void on_page(struct sim *s, const struct timer *page)
{
	struct task *t = &s->tasks[page->to];

	if (t->generation != page->to_generation)
		return;
	CHECK(s, t->state == TASK_FAULTING, "a page came for a task that awaits none");
	for (uint32_t i = 0; i < s->par.cluster; i++)
		memory_load(s, &s->nodes[t->node], t);
	wake(s, page->to);
}

/* A local task's wait is over: a system call returns. Its cycle is whole. */
static void on_think(struct sim *s, const struct timer *think)
{
	struct task *t = &s->tasks[think->to];

	t->alone_ns += t->cycle_ns;
	t->whole = s->now;
	if (t->alone_ns >= t->planned_ns) {
		end_user(s, think->to);
		return;
	}
	next_cycle(t);
	t->woke = s->now;
	t->needs = 1;
	wake(s, think->to);
}

static void on_event(struct sim *s, uint32_t index)
{
	struct note note = s->notes[index];
	struct node *n = &s->nodes[note.to];
	struct task *t = task_of(s, n, note.job);

	s->notes[index].next = s->free_note;
	s->free_note = index;
	s->stats.heard++;
	if (t)
		receive(s, n, t, &note);
}

/* The governor looks at CPU load and memory asked for (CCS sec. 5.2, B-CCS-30). */
static void on_sample(struct sim *s)
{
	uint32_t last = NIL;
	int over = 0;

	for (uint32_t k = 0; k < s->par.nodes; k++) {
		struct node *n = &s->nodes[k];
		uint64_t load;

		node_areas(s, n);
		load = (uint64_t)n->load;
		over |= (double)(load - n->sampled) > s->par.cpu_max * (double)s->par.sample_ns;
		over |= (double)(n->mem - n->mem_held) > s->par.memory_max * n->frames;
		n->sampled = load;
	}
	for (uint32_t j = 0; over && j < s->nr_arrived; j++)
		if (s->jobs[j].left && (last == NIL || s->jobs[j].launch > s->jobs[last].launch))
			last = j;
	if (last != NIL && s->nr_running > 1) {
		s->bound = s->nr_running - 1;
		s->calm = 0;
		if (s->bound < s->stats.least_jobs)
			s->stats.least_jobs = s->bound;
		s->jobs[last].left = 0;
		kill_job(s, last);
	} else if (!over && ++s->calm >= s->par.calm) {
		s->calm = 0;
		if (s->bound <= s->nr_running && s->bound < s->par.mpl * s->par.nodes)
			s->bound++;
	}
	admit(s);
	set_timer(s, (struct timer){ .at = s->now + s->par.sample_ns, .what = TIMER_SAMPLE });
}

#include "run.h"
