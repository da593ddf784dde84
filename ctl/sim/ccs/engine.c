// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The engine: a non-dedicated, heterogeneous cluster, event by event (CCS
 * sec. 3 to 5; spec.md D.6).
 *
 *	new, or awake ──> insert_RQ ──> dispatch ──> CPU ──> end
 *	     ^                ^                       ├──> no message, page, or input yet ──> (awake)
 *	     │                └── next epoch <── set aside: quantum used up, or stopped
 *
 * CPU time is given in epochs, as in Linux 2.4: a task runs until it waits or
 * has used up its quantum, then it is set aside. When the ready queue is empty
 * and somebody is set aside who is not stopped, the epoch is over: Set_Memory
 * decides, the other nodes are told, Set_Quantum gives every task its quantum
 * and half of what it had left (B-CCS-31), and those set aside are inserted in
 * the order in which they were. An epoch that this does not end is ended by
 * epoch_ns: a node where all is stopped must notice that the user has gone.
 *
 * Events are each CPU's next one, in a tournament, and timers, in a heap; at
 * equal times timers first, in the order in which they were set. One kind of
 * event is one function.
 *
 * With SIM_CHECK the engine checks itself while it runs.
 */
#include "state.h"

static void dispatch(struct sim *s, struct node *n);
static void leave_cpu(struct sim *s, struct node *n);

#include "workload.h"

/* --- the CPU --- */

/* Account the CPU time that the running task had; it is then nobody's until begin(). */
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

/* What will the running task do next, and when? */
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
		if (t->message_left <= due) {
			due = t->message_left;
			n->cpu_event = CPU_MESSAGE;
		}
		if (t->work_left <= due) {
			due = t->work_left;
			n->cpu_event = CPU_END;
		}
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

/* What it waited for is read now, if it is there. */
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

/* --- epochs --- */

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

/* Set_Quantum, at the roll-over (CCS Alg. 2, B-CCS-17), and what is left of the last one (B-CCS-31). */
static void assign_quanta(struct sim *s, struct node *n, int user)
{
	for (uint32_t i = n->tasks; i != NIL; i = s->tasks[i].neighbour) {
		struct task *t = &s->tasks[i];
		uint64_t quantum = quantum_of(&s->par, n->weight, user, parallel(t), t->contract);
		uint64_t counter = t->counter / 2 + quantum;

		t->quantum = quantum;
		t->counter = !quantum ? 0 : counter < 2 * quantum ? counter : 2 * quantum;
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

/* A local task's burst is over: it waits for its user; one that never waits goes on, if its time is not over. */
static void on_burst_end(struct sim *s, struct node *n, uint32_t index)
{
	struct task *t = &s->tasks[index];
	uint64_t think = t->think_ns > 0 ? exponential_ns(&t->gaps, t->think_ns) : 0;

	if (!think && t->alone_ns + t->cycle_ns < t->planned_ns) {
		t->alone_ns += t->cycle_ns;
		t->whole = s->now;
		next_cycle(s, t);
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
	next_cycle(s, t);
	t->woke = s->now;
	t->needs = 1;
	wake(s, think->to);
}

static void on_event(struct sim *s, uint32_t index)
{
	struct note note = s->notes[index];
	struct node *n = &s->nodes[note.to];

	s->notes[index].next = s->free_note;
	s->free_note = index;
	s->stats.heard++;
	for (uint32_t i = n->tasks; i != NIL; i = s->tasks[i].neighbour) {
		if (parallel(&s->tasks[i]) && s->tasks[i].job == note.job) {
			receive(s, n, &s->tasks[i], &note);
			return;
		}
	}
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
