// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The engine: a cluster of nodes, event by event (CSM sec. 5.1, F. 3).
 *
 *	arrival ──> insert_RQ ──> dispatch ──> CPU ──> end
 *	               ^             │          ├──> slice used up ───────> insert_RQ
 *	               │             │          └──> no message to read ─┐
 *	               │             └──> page not resident ─┐           │
 *	               └───────────────── page has come <────┘           │
 *	               └───────────────── message has come <─────────────┘
 *
 * Four kinds of event, each from a source that is in order by itself: the next
 * arrival (or injected fault); page faults, which all take equally long, so the first to begin is
 * the first to end; messages, likewise; and each CPU's next event, in a
 * tournament. The earliest is taken, at equal times in the order of this list,
 * then of nodes. No event is cancelled: a displaced task's next event is overwritten.
 *
 * With SIM_CHECK the engine checks itself while it runs.
 */
#include "workload.h"

#define INJECTION_RETRY	100000	/* ns */

/* --- the CPU --- */

/* Account the running task's CPU time; until begin() no task owns the CPU. */
static inline void stop(struct sim *s, struct node *n, struct task *t)
{
	uint64_t ran = s->now > n->since ? s->now - n->since : 0;

	n->busy += ran;
	t->work_left -= ran;
	t->slice_left -= ran < t->slice_left ? ran : t->slice_left;
	if (t->message_left != NEVER)
		t->message_left -= ran;
	t->last_run = s->now;
	if (LIKELY(ran < t->phase_left)) {
		t->phase_left -= ran;
	} else {	/* a phase is over; its changes are seen at the next dispatch or insertion, not before */
		while (ran >= t->phase_left) {
			ran -= t->phase_left;
			new_phase(s, t, s->jobs[t->job].tc);
		}
		t->phase_left -= ran;
	}
}

/* When does a slice end that begins, or goes on, at from? Where there are ticks, with the first after it. */
static inline uint64_t slice_end(const struct sim *s, uint64_t from, uint64_t left)
{
	uint64_t past = s->par.tick_ns ? (from + left) % s->par.tick_ns : 0;

	return past ? left + s->par.tick_ns - past : left;
}

/* The next event of the running task, and its time. */
static inline void begin(struct sim *s, struct node *n, const struct task *t, uint64_t from)
{
	uint64_t due = slice_end(s, from, t->slice_left);

	n->cpu_event = CPU_EXPIRE;
	due = message_or_end(n, t, due);
	n->since = from;
	cpu_at(s, (uint32_t)(n - s->nodes), from + due);
}

/* The running task goes back to the head of the queue. */
static void displace(struct sim *s, struct node *n, uint32_t index)
{
	struct task *t = &s->tasks[index];

	stop(s, n, t);
	t->state = TASK_QUEUED;
	n->running = NIL;
	link_behind(s, n, index, NIL);
	s->stats.preempts++;
}

static void begin_fault(struct sim *s, struct node *n, uint32_t index)
{
	struct task *t = &s->tasks[index];
	struct fault *f = &s->faults[s->end_fault++ & s->fault_mask];

	t->state = TASK_FAULTING;
	t->faults++;
	home(s, n)->faults++;
	s->stats.faults++;
	f->done = s->now + s->par.fault_ns;
	f->task = index;
	if (s->next_fault == NEVER)
		s->next_fault = f->done;
}

/* The CPU is free: the head of the queue that has its page runs. */
static void dispatch(struct sim *s, struct node *n)
{
	while (n->head != NIL) {
		uint32_t index = take_head(s, n);
		struct task *t = &s->tasks[index];
		uint64_t from = s->now;

		s->stats.dispatches++;
		s->stats.de[t->rq.de < SIM_DE_MAX ? t->rq.de : SIM_DE_MAX - 1]++;
		t->last_run = s->now;
		if (refers_to_missing(t, s->par.refs)) {
			begin_fault(s, n, index);
			continue;
		}
		if (n->last != index) {
			s->stats.switches++;
			from += s->par.switch_ns;
			n->last = index;
		}
		if (t->needs) {		/* the awaited message is read now */
			t->needs = 0;
			if (t->rq.rec) {
				t->rq.rec--;
				t->rq.com--;
			}
		}
		if (!t->in_slice) {
			t->slice_left = s->par.equal_slices ? (uint64_t)s->par.slice_ns :
				exponential_ns(&t->slices, s->par.slice_ns);
			t->in_slice = 1;
		}
		t->state = TASK_RUNNING;
		n->running = index;
		begin(s, n, t, from);
		return;
	}
	n->running = NIL;
	cpu_at(s, (uint32_t)(n - s->nodes), NEVER);
}

/* --- messages --- */

static void send(struct sim *s, const struct task *t, uint32_t from, int last)
{
	struct message *m;

	if (s->end_message - (s->first_message < s->unsent ? s->first_message : s->unsent) > s->message_mask)
		drain_send_queues(s);
	if (s->end_message - (s->first_message < s->unsent ? s->first_message : s->unsent) > s->message_mask) {
		uint64_t mask = 2 * s->message_mask + 1;
		struct message *more = malloc((mask + 1) * sizeof(*more));
		uint64_t i = s->first_message < s->unsent ? s->first_message : s->unsent;

		if (!more) {
			s->trouble = "out of memory for messages";
			return;
		}
		for (; i != s->end_message; i++)
			more[i & mask] = s->messages[i & s->message_mask];
		free(s->messages);
		s->messages = more;
		s->message_mask = mask;
	}
	m = &s->messages[s->end_message++ & s->message_mask];
	m->sent = s->now;
	m->from = from;
	m->from_generation = t->generation;
	m->to = t->to;
	m->to_generation = t->to_generation;
	m->last = last;
	if (s->next_message == NEVER)
		s->next_message = s->now + s->par.latency_ns;
}

static void wake(struct sim *s, uint32_t index)
{
	struct node *n = &s->nodes[s->tasks[index].node];

	s->stats.wakes++;
	insert(s, n, index, CAUSE_WAKE);
	if (n->running == NIL)
		dispatch(s, n);
}

/* --- the events --- */

/* A task has run to a point where it sends to its successor and needs one message of its predecessor (B-CSM-24). */
static void on_message_due(struct sim *s, struct node *n, uint32_t index)
{
	struct task *t = &s->tasks[index];

	t->message_left = exponential_ns(&t->gaps, s->par.mfreq_ns);
	t->rq.com++;
	t->fresh++;
	send(s, t, index, 0);
	if (t->rq.rec || t->alone) {
		if (t->rq.rec) {
			t->rq.rec--;
			t->rq.com--;
		}
		begin(s, n, t, s->now);
		return;
	}
	s->stats.blocks++;
	t->needs = 1;
	t->in_slice = 0;
	t->state = TASK_BLOCKED;
	n->running = NIL;
	dispatch(s, n);
}

static void on_expiry(struct sim *s, struct node *n, uint32_t index)
{
	s->stats.expiries++;
	s->tasks[index].in_slice = 0;
	n->running = NIL;
	insert(s, n, index, CAUSE_EXPIRE);
	dispatch(s, n);
}

static void on_end(struct sim *s, struct node *n, uint32_t index)
{
	struct task *t = &s->tasks[index];
	struct job *j = &s->jobs[t->job];

	CHECK(s, !t->work_left, "a task ended before its work was done");
	areas(s);
	s->stats.ends++;
	s->live[t->class_]--;
	s->live_mem -= t->vir;
	s->tr_sum += s->now - j->arrived;
	s->tc_sum += j->tc;
	memory_leave(s, home(s, n), index);
	home(s, n)->executed++;
	n->here--;
	n->running = NIL;
	n->last = NIL;
	if (t->to != NIL)
		send(s, t, index, 1);
	if (j->left == j->size)
		j->fast = s->now - j->arrived;
	j->faults += t->faults;
	if (!--j->left) {
		record_job(s, j);
		j->left = s->free_job;
		s->free_job = t->job;
	}
	t->state = TASK_FREE;
	t->generation++;
	t->next = s->free_task;
	s->free_task = index;
	dispatch(s, n);
}

static void on_cpu(struct sim *s, struct node *n)
{
	uint32_t index = n->running;

	CHECK(s, index != NIL && s->tasks[index].state == TASK_RUNNING, "a CPU without a task had an event");
	stop(s, n, &s->tasks[index]);
	if (n->cpu_event == CPU_MESSAGE)
		on_message_due(s, n, index);
	else if (n->cpu_event == CPU_EXPIRE)
		on_expiry(s, n, index);
	else
		on_end(s, n, index);
}

static void on_message(struct sim *s)
{
	struct message m = s->messages[s->first_message++ & s->message_mask];
	struct task *t = &s->tasks[m.to];

	s->next_message = NEVER;
	if (s->first_message != s->end_message)
		s->next_message = s->messages[s->first_message & s->message_mask].sent + s->par.latency_ns;
	s->stats.messages++;
	if (t->generation != m.to_generation)
		return;
	if (m.last) {
		t->alone = 1;
	} else {
		t->rq.rec++;
		t->rq.com++;
		t->fresh++;
	}
	if (t->state == TASK_BLOCKED)
		wake(s, m.to);
}

static void on_page(struct sim *s)
{
	uint32_t index = s->faults[s->first_fault++ & s->fault_mask].task;
	struct task *t = &s->tasks[index];

	s->next_fault = s->first_fault == s->end_fault ? NEVER : s->faults[s->first_fault & s->fault_mask].done;
	CHECK(s, t->state == TASK_FAULTING, "a page came for a task that awaits none");
	memory_load(s, home(s, &s->nodes[t->node]), t);
	wake(s, index);
}

/*
 * Take a resident page from the parallel task that runs on the node, which it
 * refers to at once. If no such task runs there, the fault waits for one.
 */
static void on_injection(struct sim *s)
{
	struct node *n = &s->nodes[s->par.inject_node];
	uint32_t index = n->running;
	struct task *t = index == NIL ? NULL : &s->tasks[index];

	if (!t || t->class_ == CLASS_LOCAL || !t->res) {
		s->next_injection = s->nr_done == s->nr_all ? NEVER : s->now + INJECTION_RETRY;
		next_arrival(s);
		return;
	}
	s->next_injection = s->now + exponential_ns(&s->injections, s->par.inject_ns);
	next_arrival(s);
	s->stats.injected++;
	stop(s, n, t);
	t->in_slice = 0;
	n->running = NIL;
	memory_lose(s, home(s, n), t);
	begin_fault(s, n, index);
	dispatch(s, n);
}

static int on_arrival(struct sim *s)
{
	struct sim_script j = s->next_job;
	uint32_t job, first = NIL, last = NIL;

	if (s->next_injection < s->job_comes) {
		on_injection(s);
		return 0;
	}
	if (s->free_job == NIL && more_jobs(s))
		return -1;
	areas(s);
	s->stats.arrivals++;
	job = s->free_job;
	s->free_job = s->jobs[job].left;
	s->jobs[job] = (struct job){ .arrived = s->now, .tc = j.tc, .number = s->nr_arrived, .size = j.size,
				     .left = j.size, .class_ = j.class_, .vir = j.vir };
	s->records[s->nr_arrived] = (struct sim_record){ .arrived = s->now, .tc = j.tc, .class_ = j.class_,
							 .size = j.size, .vir = j.vir };
	map_job(s, &j);
	for (uint32_t rank = 0; rank < j.size; rank++) {
		uint32_t index;

		if (s->free_task == NIL && more_tasks(s))
			return -1;
		index = new_task(s, job, rank, (uint32_t)s->choice[rank]);
		if (last == NIL) {
			first = index;
		} else {
			s->tasks[last].to = index;
			s->tasks[last].to_generation = s->tasks[index].generation;
		}
		s->choice[rank] = index;
		last = index;
	}
	if (j.size > 1 && j.class_ != CLASS_LOCAL) {
		s->tasks[last].to = first;
		s->tasks[last].to_generation = s->tasks[first].generation;
	}
	for (uint32_t rank = 0; rank < j.size; rank++) {
		uint32_t index = (uint32_t)s->choice[rank];
		struct node *n = &s->nodes[s->tasks[index].node];

		insert(s, n, index, CAUSE_FORK);
		if (n->running == NIL)
			dispatch(s, n);
	}
	if (s->live[0] + s->live[1] + s->live[2] > s->stats.most_tasks)
		s->stats.most_tasks = s->live[0] + s->live[1] + s->live[2];
	count_arrival(s);
	next_job(s);
	return 0;
}

#include "run.h"
