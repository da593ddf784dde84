/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Parallel jobs, drawn (CCS T. 3) or given, admitted in order of arrival and mapped by eq. 4. */
#ifndef SIM_WORKLOAD_H
#define SIM_WORKLOAD_H

#include "memory.h"

static void dispatch(struct sim *s, struct node *n);
static void leave_cpu(struct sim *s, struct node *n);

static void draw_job(struct sim *s, uint32_t number, uint64_t *at)
{
	const struct sim_params *p = &s->par;
	struct sim_script *j = &s->jobs[number].script;
	const struct sim_program *program;

	*at += exponential_ns(&s->streams[DRAW_ARRIVAL], p->mit_ns);
	j->arrives = *at;
	j->size = 1U << (p->size_low + below(&s->streams[DRAW_SIZE], p->size_high - p->size_low + 1));
	j->program = below(&s->streams[DRAW_CLASS], p->nr_programs);
	program = &p->programs[j->program];
	j->work = (uint64_t)(program->work_ns / j->size) + 1;
	j->gap = j->size > 1 ? program->gap_ns : 0;
	j->delay = program->delay_ns;
	j->vir = p->base + (program->memory + j->size - 1) / j->size;
	j->node = NIL;
}

/* --- tasks --- */

static uint32_t new_task(struct sim *s, uint32_t node, uint32_t class_, uint32_t job, uint64_t streams, uint32_t vir)
{
	uint32_t index = s->free_task;
	struct node *n = &s->nodes[node];
	struct task *t = &s->tasks[index];
	uint32_t generation = t->generation;
	uint64_t random;
	double wrk;

	CHECK(s, index != NIL, "a node holds more tasks than it may");
	s->free_task = t->next;
	*t = (struct task){ .node = node, .job = job, .generation = generation, .class_ = (uint8_t)class_, .vir = vir,
			    .to = NIL, .message_left = NEVER, .work_left = NEVER, .fault_left = NEVER,
			    .last_run = s->now, .flt_at = s->now >> FLT_SHIFT, .again = NEVER };
	t->rq.flags = class_ == CLASS_PARALLEL ? TASK_PARALLEL : 0;
	t->pages = stream_of(s->par.seed, streams, node, DRAW_PAGE);
	random = stream_of(s->par.seed, streams, node, DRAW_PHASE);
	wrk = vir * (s->par.wrk_mean[class_] + s->par.wrk_sd * normal(&random));
	t->wrk = wrk < 1 ? 1 : wrk > vir ? vir : (uint32_t)wrk;
	node_areas(s, n);
	memory_enter(s, n, index);
	if (class_ == CLASS_PARALLEL) {
		n->paral += vir;
		n->nr_parallel++;
	}
	return index;
}

/* The slot is free; an event under way to the task will find another generation. */
static void end_task(struct sim *s, uint32_t index)
{
	struct task *t = &s->tasks[index];
	struct node *n = &s->nodes[t->node];

	node_areas(s, n);
	memory_leave(s, n, index);
	if (t->held) {
		n->mem_held -= t->vir;
		s->stopped += (double)s->now / 1e9;
	}
	if (parallel(t)) {
		n->paral -= t->vir;
		n->nr_parallel--;
		release(s, n, t);
	}
	if (n->last == index)
		n->last = NIL;
	t->state = TASK_FREE;
	t->generation++;
	t->next = s->free_task;
	s->free_task = index;
}

/* Ready for a later epoch: its quantum is used up, or it is stopped. */
static void set_aside(struct sim *s, struct node *n, uint32_t index)
{
	struct task *t = &s->tasks[index];

	t->state = TASK_EXPIRED;
	t->next = NIL;
	t->prev = n->last_expired;
	*(n->last_expired == NIL ? &n->expired : &s->tasks[n->last_expired].next) = index;
	n->last_expired = index;
	n->nr_expired++;
	n->nr_held += t->held;
}

static void take_back(struct sim *s, struct node *n, uint32_t index)
{
	struct task *t = &s->tasks[index];

	*(t->prev == NIL ? &n->expired : &s->tasks[t->prev].next) = t->next;
	*(t->next == NIL ? &n->last_expired : &s->tasks[t->next].prev) = t->prev;
	n->nr_expired--;
	n->nr_held -= t->held;
}

/* A task has become ready. The caller dispatches if the CPU is free. */
static void make_ready(struct sim *s, struct node *n, uint32_t index, enum insert_cause cause)
{
	struct task *t = &s->tasks[index];

	if (!t->held)
		ready(s, n, 1);
	if (!t->counter) {
		set_aside(s, n, index);
		return;
	}
	if (cause == CAUSE_WAKE && s->par.credit && !parallel(t) && t->counter > t->quantum) {
		cause = CAUSE_CREDIT;
		t->rq.flags |= TASK_CREDIT;
		s->stats.credits++;
	}
	insert(s, n, index, cause);
}

/* --- parallel jobs --- */

/* The nodes with room that hold the fewest parallel tasks for their MPL, then ask for least memory, then any. */
static int map_job(struct sim *s, const struct sim_script *j, uint64_t salt)
{
	uint32_t n = s->par.nodes, found = 0;
	uint64_t *choice = s->choice;

	if (j->node != NIL) {
		for (uint32_t i = 0; i < j->size; i++)
			choice[i] = (j->node + i) % n;
		return 1;
	}
	for (uint32_t k = 0; k < n; k++) {
		struct node *node = &s->nodes[k];
		uint64_t part = node->nr_parallel * 256ULL / node->mpl;
		uint64_t memory = node->mem * 4096ULL / node->frames;

		if (node->nr_parallel >= node->mpl)
			continue;
		memory = memory > 0xfffff ? 0xfffff : memory;
		choice[found++] = part << 48 | memory << 28 | (mix(salt + k) & 0xfffff) << 8 | k;
	}
	if (found < j->size)
		return 0;
	for (uint32_t i = 0; i < j->size; i++) {	/* the least in front; there are at most SIM_NODES */
		uint32_t least = i;

		for (uint32_t k = i + 1; k < found; k++)
			if (choice[k] < choice[least])
				least = k;
		uint64_t chosen = choice[least];

		choice[least] = choice[i];
		choice[i] = chosen & 0xff;
	}
	return 1;
}

static void start_job(struct sim *s, uint32_t number)
{
	struct job *j = &s->jobs[number];
	uint32_t index[SIM_NODES] = { 0 };
	uint64_t work = 0;

	s->stats.starts++;
	job_areas(s, 1);
	task_areas(s, (int)j->script.size);
	j->record.began = s->now;
	j->left = j->script.size;
	j->runs = 0;
	j->changed = s->now;
	j->launch = ++s->launches;
	for (uint32_t rank = 0; rank < j->script.size; rank++) {
		uint32_t node = (uint32_t)s->choice[rank], i = new_task(s, node, CLASS_PARALLEL, number, number,
									j->script.vir);
		struct task *t = &s->tasks[i];
		double w = s->nodes[node].weight;

		t->work = t->work_left = (uint64_t)((double)j->script.work / w + 0.5);
		/* the tasks of a job communicate at the same points of their progress, as in model csm */
		t->gaps = stream_of(s->par.seed, number, 0, DRAW_MESSAGE);
		t->gap = j->script.gap / w;
		if (t->gap > 0)
			t->message_left = exponential_ns(&t->gaps, t->gap);
		work += j->script.work;
		index[rank] = i;
	}
	j->record.work = work;
	j->first_task = index[0];
	for (uint32_t rank = 0; rank < j->script.size; rank++) {
		struct task *t = &s->tasks[index[rank]];
		uint32_t to = index[(rank + 1) % j->script.size];

		t->to = to;
		t->to_generation = s->tasks[to].generation;
	}
	for (uint32_t rank = 0; rank < j->script.size; rank++) {
		struct task *t = &s->tasks[index[rank]];
		struct node *n = &s->nodes[t->node];

		hold(s, n, t);
		t->quantum = t->counter = quantum_of(&s->par, n->weight, local_user(s, n), 1, STATE_FREE);
		make_ready(s, n, index[rank], CAUSE_FORK);
	}
	for (uint32_t rank = 0; rank < j->script.size; rank++) {
		struct node *n = &s->nodes[s->tasks[index[rank]].node];

		if (n->running == NIL)
			dispatch(s, n);
	}
}

/* Start the jobs that wait, in order, while there is room for the first. */
static void admit(struct sim *s)
{
	while (s->waiting != NIL) {
		uint32_t number = s->waiting;

		if (s->par.jobs_at_once && s->nr_running >= s->par.jobs_at_once)
			return;
		if (s->par.sample_ns && s->nr_running >= s->bound)
			return;
		if (!map_job(s, &s->jobs[number].script, mix(s->par.seed ^ (uint64_t)number << 32)))
			return;
		s->waiting = s->jobs[number].next;
		if (s->waiting == NIL)
			s->last_waiting = NIL;
		start_job(s, number);
	}
}

static void on_arrival(struct sim *s)
{
	uint32_t number = s->nr_arrived++;

	s->stats.arrivals++;
	if (s->nr_arrived < s->nr_all)
		set_timer(s, (struct timer){ .at = s->jobs[s->nr_arrived].script.arrives, .what = TIMER_ARRIVAL });
	s->jobs[number].record.arrived = s->now;
	s->jobs[number].next = NIL;
	*(s->last_waiting == NIL ? &s->waiting : &s->jobs[s->last_waiting].next) = number;
	s->last_waiting = number;
	admit(s);
}

/* The governor's: a job is killed, its work is lost, and it is first in the queue again (B-CCS-30). */
static void kill_job(struct sim *s, uint32_t number)
{
	struct job *j = &s->jobs[number];
	uint32_t nodes[SIM_NODES], nr = 0;

	s->stats.kills++;
	j->record.kills++;
	task_areas(s, 0);
	for (uint32_t k = 0; k < s->par.nodes; k++) {
		struct node *n = &s->nodes[k];
		struct task *t = task_of(s, n, number);
		uint32_t i;

		if (!t)
			continue;
		i = (uint32_t)(t - s->tasks);
		if (t->state == TASK_RUNNING)
			leave_cpu(s, n);
		else if (t->state == TASK_QUEUED)
			take(s, n, i);
		else if (t->state == TASK_EXPIRED)
			take_back(s, n, i);
		if (!t->held && (t->state == TASK_RUNNING || t->state == TASK_QUEUED || t->state == TASK_EXPIRED))
			ready(s, n, -1);
		s->live--;
		s->work_sum += t->work - t->work_left;
		s->tr_sum += s->now - j->record.began;
		j->record.cpu += t->cpu;
		end_task(s, i);
		nodes[nr++] = k;
	}
	job_areas(s, -1);
	j->next = s->waiting;
	s->waiting = number;
	if (s->last_waiting == NIL)
		s->last_waiting = number;
	for (uint32_t k = 0; k < nr; k++)
		if (s->nodes[nodes[k]].running == NIL)
			dispatch(s, &s->nodes[nodes[k]]);
}

#endif /* SIM_WORKLOAD_H */
