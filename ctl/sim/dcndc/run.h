/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The end of engine.c: tasks that come, the loop, and what Python calls (sim.h). */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include "interface.h"

static void sort(uint64_t *a, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++) {
		uint64_t x = a[i];
		uint32_t j = i;

		for (; j && a[j - 1] > x; j--)
			a[j] = a[j - 1];
		a[j] = x;
	}
}

/* A task of Monito sec. 5.3. Each of the task's numbers has a stream of its own, so policies meet the same tasks. */
static void draw_task(struct sim *s)
{
	const struct sim_params *p = &s->par;
	struct sim_script *t = &s->next_task;
	uint64_t class_ = stream_of(p->seed, s->nr_arrived, 0, DRAW_CLASS);
	uint64_t service = stream_of(p->seed, s->nr_arrived, 0, DRAW_TC);
	uint64_t number = stream_of(p->seed, s->nr_arrived, 0, DRAW_SIZE);
	uint64_t offsets = stream_of(p->seed, s->nr_arrived, 0, DRAW_MESSAGE);
	uint64_t points = stream_of(p->seed, s->nr_arrived, 0, DRAW_PHASE);

	t->arrives += exponential_ns(&s->gaps, p->mit_ns);
	t->service = exponential_ns(&service, p->mst_ns);
	t->parallel = uniform(&class_) <= p->pdt;
	t->messages = t->parallel ? below(&number, p->mm + 1) : 0;
	for (uint32_t k = 0; k < t->messages; k++) {
		t->offset[k] = (uint64_t)(uniform(&offsets) * p->offset_ns);
		t->point[k] = (uint64_t)((unsigned __int128)draw(&points) * t->service >> 64);
	}
	sort(t->point, t->messages);
}

static void next_task(struct sim *s)
{
	if (s->script && s->nr_arrived == s->nr_script) {
		s->next_arrival = NEVER;
		return;
	}
	if (s->script)
		s->next_task = s->script[s->nr_arrived];
	else
		draw_task(s);
	s->next_arrival = s->next_task.arrives;
}

/* Room for one more, doubled when there is none. */
static int more_tasks(struct sim *s)
{
	uint32_t old = s->nr_tasks, nr = old ? 2 * old : 64;
	struct task *tasks = realloc(s->tasks, nr * sizeof(*tasks));

	if (!tasks)
		return -1;
	s->tasks = tasks;
	for (uint32_t i = old; i < nr; i++)
		tasks[i] = (struct task){ .next = i + 1 < nr ? i + 1 : s->free_task };
	s->free_task = old;
	s->nr_tasks = nr;
	return 0;
}

static int more_records(struct sim *s)
{
	uint32_t nr = s->room_records ? 2 * s->room_records : 1024;
	struct sim_record *records = realloc(s->records, nr * sizeof(*records));

	if (!records)
		return -1;
	s->records = records;
	s->room_records = nr;
	return 0;
}

static int on_arrival(struct sim *s)
{
	const struct sim_script *given = &s->next_task;
	uint32_t index, generation;
	struct task *t;

	if ((s->free_task == NIL && more_tasks(s)) || (s->nr_arrived == s->room_records && more_records(s)))
		return -1;
	index = s->free_task;
	t = &s->tasks[index];
	s->free_task = t->next;
	generation = t->generation;
	*t = (struct task){ .number = s->nr_arrived, .generation = generation, .arrived = s->now,
			    .service = given->service, .slice_left = s->par.slice_ns,
			    .receives = s->par.async_ ? 0 : given->messages };
	t->rq.flags = given->parallel ? TASK_PARALLEL : 0;
	memcpy(t->point, given->point, sizeof(t->point));
	s->records[s->nr_arrived] = (struct sim_record){ .arrived = s->now, .service = given->service,
							 .parallel = given->parallel, .messages = given->messages };
	for (uint32_t k = 0; k < given->messages; k++) {
		struct message m = { .at = s->now + given->offset[k], .order = s->nr_arrived * (uint64_t)SIM_MESSAGES + k,
				     .to = index, .generation = generation };

		if (heap_add(&s->messages, m))
			return -1;
	}
	areas(s);
	s->live++;
	s->stats.arrivals++;
	s->nr_arrived++;
	next_task(s);
	insert(s, index, s->tail, CAUSE_FORK);
	if (s->running == NIL)
		dispatch(s);
	return 0;
}

/* --- the loop --- */

static inline void check_state(struct sim *s)
{
#ifdef SIM_CHECK
	uint32_t nr = 0, holders = 0, live = 0, before = NIL;

	for (uint32_t i = s->head; i != NIL; before = i, i = s->tasks[i].next, nr++) {
		CHECK(s, s->tasks[i].state == TASK_QUEUED && s->tasks[i].prev == before, "the queue is torn");
		holders += s->tasks[i].rq.rec > 0;
	}
	for (uint32_t i = 0; i < s->nr_tasks; i++)
		live += s->tasks[i].state != TASK_FREE;
	CHECK(s, nr == s->nr && s->tail == before && holders == s->holders, "the queue is not as long as it says");
	CHECK(s, live == s->live, "a task was lost");
	CHECK(s, s->running != NIL || s->head == NIL, "the CPU is idle beside a ready task");
	CHECK(s, (s->running == NIL) == (s->cpu_due == NEVER), "the CPU is idle and has an event");
#else
	(void)s;
#endif
}

/* Little's law and the conservation of work, exactly, in nanoseconds. */
static void check_sums(struct sim *s)
{
	unsigned __int128 there = s->response;
	uint64_t work = s->spun;

	areas(s);
	if (s->running != NIL)
		stop(s);
	for (uint32_t i = 0; i < s->nr_tasks; i++) {
		if (s->tasks[i].state == TASK_FREE)
			continue;
		there += s->now - s->tasks[i].arrived;
		work += s->tasks[i].done;
	}
	for (uint32_t i = 0; i < s->nr_arrived; i++)
		work += s->records[i].ended ? s->records[i].service : 0;
	if (s->task_area != there)
		s->trouble = "Little's law does not hold: the tasks' time in the system does not add up";
	else if (s->busy != work)
		s->trouble = "work was lost or gained: the CPU's busy time is not what the tasks had and polled";
}

enum { NEXT_ARRIVAL, NEXT_MESSAGE, NEXT_CPU };

static inline struct event next_event(const struct sim *s)
{
	struct event next = { .at = s->next_arrival, .what = NEXT_ARRIVAL };
	uint64_t message = heap_next(&s->messages);

	if (message < next.at)
		next = (struct event){ .at = message, .what = NEXT_MESSAGE };
	if (s->cpu_due < next.at)
		next = (struct event){ .at = s->cpu_due, .what = NEXT_CPU };
	return next;
}

static inline int is_over(const struct sim *s, uint64_t next)
{
	(void)next;
	return s->nr_served >= s->par.served;
}

static inline int take_event(struct sim *s, int what)
{
	s->stats.events++;
	if (what == NEXT_CPU)
		on_cpu(s);
	else if (what == NEXT_MESSAGE)
		on_message(s);
	else if (on_arrival(s))
		s->trouble = "out of memory for tasks and their messages";
	return GO_ON;
}

static inline uint32_t clock_bits(const struct sim *s)
{
	(void)s;
	return 63;
}

#include "loop.h"

struct sim *sim_new(const struct sim_params *params, const struct sim_script *script, uint32_t nr_script)
{
	struct sim *s = new_sim(params);

	if (!s)
		return NULL;
	s->script = nr_script ? script : NULL;
	s->nr_script = nr_script;
	if (nr_script)
		s->par.served = nr_script;
	s->env = (struct insert_env){ .rule = params->rule, .mnol = params->mno, .mnod = params->mno,
				      .share_ns = params->share_ns };
	s->free_task = s->running = s->head = s->tail = NIL;
	s->cpu_due = NEVER;
	s->gaps = stream_of(params->seed, UINT64_MAX, 0, DRAW_ARRIVAL);
	if (make_heap(&s->messages, 1024) || more_tasks(s) || more_records(s)) {
		sim_free(s);
		return NULL;
	}
	next_task(s);
	return s;
}

void sim_free(struct sim *s)
{
	if (!s)
		return;
	free(s->messages.entries);
	free(s->tasks);
	free(s->records);
	free(s->log);
	free(s);
}

const struct sim_stats *sim_stats(struct sim *s)
{
	areas(s);
	s->stats.now = s->now;
	s->stats.busy = (double)s->busy / 1e9;
	s->stats.spun = (double)s->spun / 1e9;
	s->stats.task_area = (double)s->task_area / 1e9;
	return &s->stats;
}

uint32_t sim_records(struct sim *s, const struct sim_record **records)
{
	*records = s->records;
	return s->nr_arrived;
}

SIM_SIZES(SIM_SIZE(struct sim_params), SIM_SIZE(struct sim_script), SIM_SIZE(struct sim_record),
	  SIM_SIZE(struct sim_stats), SIM_SIZE(struct sim_decision))

#endif /* SIM_RUN_H */
