/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The end of engine.c: the loop, and what Python calls (sim.h). */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include "interface.h"

static inline void check_state(struct sim *s)
{
#ifdef SIM_CHECK
	uint32_t tasks = 0;

	for (uint32_t k = 0; k < s->par.nodes; k++) {
		struct node *n = &s->nodes[k];
		uint32_t nr = 0, nr_expired = 0, nr_held = 0, before = NIL, is_ready = n->running != NIL;
		uint64_t held = 0;

		CHECK(s, n->running != NIL || n->head == NIL, "a CPU is idle beside a ready task");
		CHECK(s, n->running != NIL || n->nr_expired == n->nr_held, "a CPU is idle beside a task set aside");
		for (uint32_t i = n->head; i != NIL; before = i, i = s->tasks[i].next, nr++)
			CHECK(s, s->tasks[i].state == TASK_QUEUED && s->tasks[i].prev == before &&
			      !s->tasks[i].held, "a queue is torn");
		CHECK(s, nr == n->nr && n->tail == before, "a queue's length or tail is wrong");
		for (uint32_t i = n->expired; i != NIL; i = s->tasks[i].next, nr_expired++)
			nr_held += s->tasks[i].held;
		CHECK(s, nr_expired == n->nr_expired && nr_held == n->nr_held, "the tasks set aside do not add up");
		for (uint32_t i = n->tasks; i != NIL; i = s->tasks[i].neighbour) {
			held += s->tasks[i].held ? s->tasks[i].vir : 0;
			tasks += parallel(&s->tasks[i]);
			CHECK(s, !s->tasks[i].held || i != n->running, "a stopped task runs");
		}
		CHECK(s, held == n->mem_held, "the memory of stopped tasks does not add up");
		CHECK(s, n->ready == is_ready + nr + nr_expired - nr_held, "the ready tasks do not add up");
	}
	CHECK(s, tasks == s->live, "a task was lost");
#else
	(void)s;
#endif
}

/* Little's law and the conservation of work, exactly, in nanoseconds. */
static void check_sums(struct sim *s)
{
	unsigned __int128 busy = 0;

	task_areas(s, 0);
	for (uint32_t k = 0; k < s->par.nodes; k++)
		busy += s->nodes[k].busy[CLASS_PARALLEL];
	if (s->task_area != s->tr_sum)
		s->trouble = "Little's law does not hold: the tasks' time in the system does not add up";
	else if (busy != s->work_sum)
		s->trouble = "work was lost or gained: the CPUs' busy time is not what the tasks asked for";
}

static void on_timer(struct sim *s)
{
	struct timer t = heap_take(&s->timers);

	switch (t.what) {
	case TIMER_ARRIVAL:
		on_arrival(s);
		break;
	case TIMER_PAGE:
		on_page(s, &t);
		break;
	case TIMER_MESSAGE:
		on_message(s, &t);
		break;
	case TIMER_THINK:
		on_think(s, &t);
		break;
	case TIMER_EVENT:
		on_event(s, t.to);
		break;
	case TIMER_EPOCH:
		on_epoch(s, t.to);
		break;
	default:
		on_sample(s);
	}
}

enum { NEXT_TIMER, NEXT_CPU };

static inline struct event next_event(const struct sim *s)
{
	struct event next = { .at = heap_next(&s->timers), .what = NEXT_TIMER };
	uint64_t cpu = s->tree[1] == NEVER ? NEVER : s->tree[1] >> s->shift;

	return cpu < next.at ? (struct event){ .at = cpu, .what = NEXT_CPU } : next;
}

/* Epochs go on when all jobs have ended. */
static inline int is_over(const struct sim *s, uint64_t next)
{
	(void)next;
	return s->nr_done == s->nr_all;
}

static inline int take_event(struct sim *s, int what)
{
	s->stats.events++;
	if (what == NEXT_CPU)
		on_cpu(s, &s->nodes[s->tree[1] & ((1ULL << s->shift) - 1)]);
	else
		on_timer(s);
	return GO_ON;
}

#include "loop.h"

static void make_nodes(struct sim *s)
{
	s->smallest = UINT32_MAX;
	for (uint32_t k = 0; k < s->par.nodes; k++) {
		struct node *n = &s->nodes[k];

		*n = (struct node){ .running = NIL, .head = NIL, .tail = NIL, .expired = NIL, .last_expired = NIL,
				    .tasks = NIL, .last = NIL, .frames = s->par.frames[k], .quiet = QUIET,
				    .weight = s->par.weight[k], .mpl = mpl_of(s->par.mpl, s->par.weight[k]) };
		if (n->frames < s->smallest)
			s->smallest = n->frames;
	}
}

static void first_timers(struct sim *s)
{
	if (s->nr_all)
		set_timer(s, (struct timer){ .at = s->jobs[0].script.arrives, .what = TIMER_ARRIVAL });
	for (uint32_t k = 0; k < s->par.nodes; k++)
		set_timer(s, (struct timer){ .at = s->par.epoch_ns, .what = TIMER_EPOCH, .to = k });
	if (s->par.sample_ns)
		set_timer(s, (struct timer){ .at = s->par.sample_ns, .what = TIMER_SAMPLE });
}

struct sim *sim_new(const struct sim_params *params, const struct sim_script *script, uint32_t nr_script)
{
	struct sim *s = new_sim(params);
	uint64_t at = 0;

	if (!s)
		return NULL;
	s->env = (struct insert_env){ .rule = params->rule, .mnol = params->mnol, .mnod = params->mnod };
	s->nr_all = nr_script ? nr_script : params->jobs;
	s->nr_tasks = params->nodes * (params->mpl + 1);
	for (uint32_t i = 0; i < nr_script; i++)
		s->nr_tasks += script[i].size;
	s->nr_notes = 64;
	s->waiting = s->last_waiting = NIL;
	s->bound = s->stats.least_jobs = params->mpl;
	s->notes = malloc(s->nr_notes * sizeof(*s->notes));
	s->nodes = calloc(params->nodes, sizeof(*s->nodes));
	s->tasks = calloc(s->nr_tasks, sizeof(*s->tasks));
	s->peers = calloc((uint64_t)s->nr_tasks * params->nodes, sizeof(*s->peers));
	s->jobs = calloc(s->nr_all + 1ULL, sizeof(*s->jobs));
	if (make_tournament(s, params->nodes) || make_heap(&s->timers, 1024) || !s->notes || !s->nodes || !s->tasks ||
	    !s->peers || !s->jobs) {
		sim_free(s);
		return NULL;
	}
	for (uint32_t i = 0; i < s->nr_tasks; i++)
		s->tasks[i].next = i + 1 < s->nr_tasks ? i + 1 : NIL;
	for (uint32_t i = 0; i < s->nr_notes; i++)
		s->notes[i].next = i + 1 < s->nr_notes ? i + 1 : NIL;
	for (int i = 0; i < ALL_PURPOSES; i++)
		s->streams[i] = stream_of(params->seed, UINT64_MAX, 0, (enum purpose)i);
	make_nodes(s);
	for (uint32_t i = 0; i < s->nr_all; i++) {
		struct job *j = &s->jobs[i];

		if (nr_script)
			j->script = script[i];
		else
			draw_job(s, i, &at);
		j->record = (struct sim_record){ .size = j->script.size, .program = j->script.program,
						 .vir = j->script.vir };
	}
	for (uint32_t i = 0; i < params->locals; i++)
		start_user(s);
	first_timers(s);
	return s;
}

void sim_free(struct sim *s)
{
	if (!s)
		return;
	free(s->tree);
	free(s->timers.entries);
	free(s->notes);
	free(s->nodes);
	free(s->tasks);
	free(s->peers);
	free(s->jobs);
	free(s->log);
	free(s);
}

/* The time of present users counts to their last whole cycle. */
static void count_users(struct sim *s, struct sim_stats *st)
{
	for (uint32_t i = 0; i < s->nr_tasks; i++) {
		struct task *t = &s->tasks[i];

		if (t->state == TASK_FREE || parallel(t))
			continue;
		st->local_wall += (double)(t->whole - t->began) / 1e9;
		st->local_alone += (double)t->alone_ns / 1e9;
	}
}

const struct sim_stats *sim_stats(struct sim *s)
{
	static __thread struct sim_stats out;
	struct sim_stats *st = &out;
	uint32_t held = 0;
	double with_user = 0, short_of = 0;

	*st = s->stats;
	st->now = s->now;
	st->window = (double)s->now / 1e9;
	job_areas(s, 0);
	st->mpl = s->now ? (double)s->job_area / (double)s->now : 0;
	for (uint32_t k = 0; k < s->par.nodes; k++) {
		struct node *n = &s->nodes[k];
		double dt = s->now ? (double)s->now * s->par.nodes : 1;

		node_areas(s, n);
		st->busy_local += (double)n->busy[CLASS_LOCAL] / 1e9;
		st->busy_parallel += (double)n->busy[CLASS_PARALLEL] / 1e9;
		st->spun += (double)n->spun / 1e9;
		st->load += (double)n->load / dt;
		st->load_square += (double)n->load_square / dt;
		st->memory += n->memory / dt;
		st->memory_square += n->memory_square / dt;
		st->asked += n->asked / dt;
		st->withheld += n->withheld / dt;
		with_user += (double)n->with_user;
		short_of += (double)n->short_of;
	}
	for (uint32_t i = 0; i < s->nr_tasks; i++)
		held += s->tasks[i].state != TASK_FREE && s->tasks[i].held;
	st->short_of = with_user > 0 ? short_of / with_user : 0;
	st->stopped = s->stopped + held * st->window;
	count_users(s, st);
	return st;
}

void sim_records(struct sim *s, struct sim_record *records)
{
	for (uint32_t i = 0; i < s->nr_all; i++)
		records[i] = s->jobs[i].record;
}

void sim_node(struct sim *s, uint32_t node, struct sim_node_view *view)
{
	struct node *n = &s->nodes[node];
	int user = local_user(s, n);
	uint32_t pool = pool_of(s);

	*view = (struct sim_node_view){
		.weight = n->weight, .mpl = n->mpl, .frames = n->frames, .m_paral = pool, .m_local = n->frames - pool,
		.local_user = (uint32_t)user,
		.quantum_local = quantum_of(&s->par, n->weight, user, 0, STATE_FREE),
		.quantum_parallel = quantum_of(&s->par, n->weight, user, 1, STATE_FREE),
		.quantum_slowed = quantum_of(&s->par, n->weight, user, 1, STATE_SLOWED),
	};
}

uint32_t sim_node_tasks(struct sim *s, uint32_t node, struct sim_view *views, uint32_t room)
{
	struct node *n = &s->nodes[node];
	uint32_t nr = 0;

	for (uint32_t i = n->tasks; i != NIL && nr < room; i = s->tasks[i].neighbour, nr++) {
		struct task *t = &s->tasks[i];
		uint64_t ran = i == n->running && s->now > n->since ? s->now - n->since : 0;

		views[nr] = (struct sim_view){ .job = t->job, .class_ = t->class_, .state = t->contract,
					       .vir = t->vir, .res = t->res, .wrk = t->wrk, .faults = t->faults,
					       .cpu_ns = t->cpu + ran };
	}
	return nr;
}

SIM_SIZES(SIM_SIZE(struct sim_params), SIM_SIZE(struct sim_script), SIM_SIZE(struct sim_record),
	  SIM_SIZE(struct sim_stats), SIM_SIZE(struct sim_view), SIM_SIZE(struct sim_decision),
	  SIM_SIZE(struct sim_node_view), SIM_SIZE(struct contract_op), SIM_SIZE(struct contract_said),
	  SIM_SIZE(struct memory_epoch))

#include "rules.h"

#endif /* SIM_RUN_H */
