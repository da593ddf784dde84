/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The end of engine.c: the loop, and what Python calls (sim.h). */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include "interface.h"

static inline void check_state(struct sim *s)
{
#ifdef SIM_CHECK
	uint32_t tasks = 0, here = 0;

	if (s->par.nodes > 64 && s->stats.events & 1023)
		return;
	for (uint32_t k = 0; k < s->par.nodes; k++) {
		struct node *n = &s->nodes[k];
		uint32_t nr = 0, before = NIL;

		CHECK(s, n->running != NIL || n->head == NIL, "a CPU is idle beside a ready task");
		for (uint32_t i = n->head; i != NIL; before = i, i = s->tasks[i].next, nr++)
			CHECK(s, s->tasks[i].state == TASK_QUEUED && s->tasks[i].prev == before, "a queue is torn");
		CHECK(s, nr == n->nr && n->tail == before, "a queue's length or tail is wrong");
		tasks += n->nr_tasks;
		here += n->here;
	}
	CHECK(s, tasks == s->live[0] + s->live[1] + s->live[2] && here == tasks, "a task was lost");
#else
	(void)s;
#endif
}

/* Little's law and the conservation of work, exactly, in nanoseconds. */
static void check_sums(struct sim *s)
{
	unsigned __int128 busy = 0;

	for (uint32_t k = 0; k < s->par.nodes; k++)
		busy += s->nodes[k].busy;
	if (s->task_area != s->tr_sum)
		s->trouble = "Little's law does not hold: the tasks' time in the system does not add up";
	else if (busy != s->tc_sum)
		s->trouble = "work was lost or gained: the CPUs' busy time is not what the tasks asked for";
}

enum { NEXT_ARRIVAL, NEXT_PAGE, NEXT_MESSAGE, NEXT_CPU };

static inline struct event next_event(const struct sim *s)
{
	struct event next = { .at = s->next_arrival, .what = NEXT_ARRIVAL };
	uint64_t cpu = s->tree[1] >> s->shift;

	if (s->next_fault < next.at)
		next = (struct event){ .at = s->next_fault, .what = NEXT_PAGE };
	if (s->next_message < next.at)
		next = (struct event){ .at = s->next_message, .what = NEXT_MESSAGE };
	if (cpu < next.at && s->tree[1] != NEVER)
		next = (struct event){ .at = cpu, .what = NEXT_CPU };
	return next;
}

/* Jobs have ended when messages to them may still be under way. */
static inline int is_over(const struct sim *s, uint64_t next)
{
	return next == NEVER && s->nr_done == s->nr_all;
}

static inline int take_event(struct sim *s, int what)
{
	s->stats.events++;
	if (what == NEXT_CPU)
		on_cpu(s, &s->nodes[s->tree[1] & ((1ULL << s->shift) - 1)]);
	else if (what == NEXT_MESSAGE)
		on_message(s);
	else if (what == NEXT_PAGE)
		on_page(s);
	else if (on_arrival(s))
		s->trouble = "out of memory for tasks";
	return GO_ON;
}

#include "loop.h"

struct sim *sim_new(const struct sim_params *params, const struct sim_script *script, uint32_t nr_script)
{
	struct sim *s = new_sim(params);
	uint32_t n = params->nodes;

	if (!s)
		return NULL;
	s->script = nr_script ? script : NULL;
	s->nr_all = nr_script ? nr_script : params->jobs;
	s->nr_early = s->nr_all / 10;
	s->env = (struct insert_env){ .rule = params->rule, .mnol = params->mnol, .mnod = params->mnod };
	s->free_task = s->free_job = NIL;
	s->next_fault = s->next_message = s->next_injection = NEVER;
	s->injections = stream_of(params->seed, UINT64_MAX, 1, DRAW_PAGE);
	if (params->inject_ns > 0)
		s->next_injection = exponential_ns(&s->injections, params->inject_ns);
	s->message_mask = 1023;
	s->messages = malloc(1024 * sizeof(*s->messages));
	s->nodes = calloc(n, sizeof(*s->nodes));
	s->choice = calloc(n + 1, sizeof(*s->choice));
	s->records = calloc(s->nr_all + 1, sizeof(*s->records));
	if (make_tournament(s, n) || !s->messages || !s->nodes || !s->choice || !s->records || more_tasks(s) || more_jobs(s)) {
		sim_free(s);
		return NULL;
	}
	for (uint32_t i = 0; i < n; i++)
		s->nodes[i] = (struct node){ .home = i - i % params->cpus, .running = NIL, .head = NIL, .tail = NIL, .tasks = NIL, .last = NIL };
	for (int i = 0; i < NR_PURPOSES; i++)
		s->streams[i] = stream_of(params->seed, UINT64_MAX, 0, i);
	next_job(s);
	return s;
}

void sim_free(struct sim *s)
{
	if (!s)
		return;
	free(s->messages);
	free(s->tree);
	free(s->nodes);
	free(s->choice);
	free(s->records);
	free(s->tasks);
	free(s->faults);
	free(s->jobs);
	free(s->log);
	free(s);
}

const struct sim_stats *sim_stats(struct sim *s)
{
	struct sim_stats *st = &s->stats;

	areas(s);
	st->now = s->now;
	st->mem_area = (double)s->mem_area / 1e9;
	st->task_area = (double)s->task_area / 1e9;
	st->busy = st->mean_pg_fault = 0;
	for (uint32_t k = 0; k < s->par.nodes; k++) {
		struct node *n = &s->nodes[k];

		st->busy += (double)n->busy / 1e9;
		if (n->executed)
			st->mean_pg_fault += (double)n->faults / (double)n->executed / real_nodes(s);
	}
	return st;
}

const struct sim_record *sim_records(struct sim *s)
{
	return s->records;
}

uint32_t sim_node_tasks(struct sim *s, uint32_t node, struct sim_view *views, uint32_t room)
{
	uint32_t nr = 0;

	for (uint32_t i = s->nodes[node * s->par.cpus].tasks; i != NIL && nr < room; i = s->tasks[i].neighbour, nr++) {
		struct task *t = &s->tasks[i];
		struct job *j = &s->jobs[t->job];
		struct node *n = &s->nodes[t->node];
		uint64_t ran = i == n->running && s->now > n->since ? s->now - n->since : 0;

		views[nr] = (struct sim_view){ .job = j->number, .class_ = t->class_, .vir = t->vir, .res = t->res,
					       .wrk = t->wrk, .faults = t->faults,
					       .cpu_ns = j->tc - t->work_left + ran };
	}
	return nr;
}

SIM_SIZES(SIM_SIZE(struct sim_params), SIM_SIZE(struct sim_script), SIM_SIZE(struct sim_record),
	  SIM_SIZE(struct sim_stats), SIM_SIZE(struct sim_view), SIM_SIZE(struct sim_decision))

/* n draws, for tests: 0 exponential(mean a), 1 normal, 2 hyper-exponential(mean a, cv b), 3 below a */
void sim_draw(uint32_t what, double a, double b, uint64_t seed, double *out, uint32_t n)
{
	uint64_t stream = stream_of(seed, 0, 0, what);

	log_tables();
	for (uint32_t i = 0; i < n; i++) {
		if (what == 0)
			out[i] = a * exponential(&stream);
		else if (what == 1)
			out[i] = normal(&stream);
		else if (what == 2)
			out[i] = hyperexponential(&stream, a, b);
		else
			out[i] = below(&stream, (uint32_t)a);
	}
}

/* The first computations between two messages of a job's tasks; jobs are numbered as they arrive. */
void sim_gaps(const struct sim_params *params, uint32_t job, uint64_t *ns, uint32_t n)
{
	uint64_t gaps = stream_of(params->seed, job, 0, DRAW_MESSAGE);

	log_tables();
	for (uint32_t i = 0; i < n; i++)
		ns[i] = exponential_ns(&gaps, params->mfreq_ns);
}

/* A node's memory under given operations; task k is slot k of a fresh simulation. */
int sim_memory(const struct sim_params *params, const struct sim_memory_op *ops, uint32_t n, uint32_t tasks,
	       uint32_t *res, uint32_t *flt)
{
#ifdef SIM_CHECK
	struct sim *s = sim_new(params, NULL, 0);

	for (uint32_t i = 0; s && i < n && !s->trouble; i++) {
		const struct sim_memory_op *op = &ops[i];
		struct task *t;

		while (s->nr_tasks <= op->task)
			more_tasks(s);
		t = &s->tasks[op->task];
		s->now++;
		if (op->what == MEMORY_ENTER) {
			*t = (struct task){ .vir = op->vir, .wrk = op->wrk, .last_run = s->now };
			memory_enter(s, s->nodes, op->task);
		} else if (op->what == MEMORY_LEAVE) {
			memory_leave(s, s->nodes, op->task);
			t->res = t->rq.flt = 0;
		} else if (op->what == MEMORY_RUN) {
			t->last_run = s->now;
		} else {
			memory_load(s, s->nodes, t);
		}
		for (uint32_t k = 0; k < tasks && k < s->nr_tasks; k++) {
			res[i * tasks + k] = s->tasks[k].res;
			flt[i * tasks + k] = s->tasks[k].rq.flt;
		}
	}
	int broken = !s || s->trouble;

	sim_free(s);
	return broken ? -1 : 0;
#else
	(void)params, (void)ops, (void)n, (void)tasks, (void)res, (void)flt;
	return -1;
#endif
}

#endif /* SIM_RUN_H */
