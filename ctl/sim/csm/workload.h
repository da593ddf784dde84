/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The jobs: drawn (CSM sec. 5.1) or given, mapped to nodes, started, ended.
 *
 * A job that is drawn is local with probability local_share, else large with
 * probability large_share, else small. A Poisson process of all jobs, split so,
 * is the paper's: independent ones to the cluster and to each node.
 */
#ifndef SIM_WORKLOAD_H
#define SIM_WORKLOAD_H

#include "queue.h"

static void draw_job(struct sim *s)
{
	const struct sim_params *p = &s->par;
	struct sim_script *j = &s->next_job;
	uint64_t *streams = s->streams;
	uint64_t gap = exponential_ns(&streams[DRAW_ARRIVAL], p->mit_ns);
	double u = uniform(&streams[DRAW_CLASS]), v = uniform(&streams[DRAW_CLASS]);
	uint32_t c = u <= p->local_share ? CLASS_LOCAL : v <= p->large_share ? CLASS_LARGE : CLASS_SMALL;
	double tc = hyperexponential(&streams[DRAW_TC], p->tc_ns[c], p->tc_cv);

	j->class_ = c;
	j->arrives += gap;
	j->tc = (uint64_t)tc + 1;
	j->size = 1U << (p->size_low[c] + below(&streams[DRAW_SIZE], p->size_high[c] - p->size_low[c] + 1));
	j->vir = p->vir_low[c] + below(&streams[DRAW_MEMORY], p->vir_high[c] - p->vir_low[c] + 1);
	j->node = c == CLASS_LOCAL ? below(&streams[DRAW_MAP], p->nodes) : NIL;
}

/* An injected fault comes as if it were an arrival, so that runs without any have no event to ask about. */
static void next_arrival(struct sim *s)
{
	s->next_arrival = s->job_comes < s->next_injection ? s->job_comes : s->next_injection;
}

/* Make ready what arrives next. */
static void next_job(struct sim *s)
{
	if (s->nr_arrived == s->nr_all) {
		s->job_comes = NEVER;
		next_arrival(s);
		return;
	}
	if (s->script)
		s->next_job = s->script[s->nr_arrived];
	else
		draw_job(s);
	s->job_comes = s->next_job.arrives;
	next_arrival(s);
}

/* Put the k least of choice[0..n) in front. */
static void select_least(uint64_t *a, uint32_t n, uint32_t k)
{
	uint32_t low = 0, high = n;

	while (high - low > 1) {
		uint64_t pivot = a[low + (high - low) / 2];
		uint32_t i = low, j = high - 1;

		for (;;) {
			while (a[i] < pivot)
				i++;
			while (a[j] > pivot)
				j--;
			if (i >= j)
				break;
			uint64_t swap = a[i];

			a[i++] = a[j];
			a[j--] = swap;
		}
		/* a[low..i) <= pivot <= a[i..high) */
		if (i == low)
			i++;
		if (k <= i)
			high = i;
		else
			low = i;
		if (k == i)
			return;
	}
}

/* The CPU of a node with the fewest tasks. */
static uint32_t idlest(struct sim *s, uint32_t cpu)
{
	uint32_t first = s->nodes[cpu].home, best = first;

	for (uint32_t i = first; i < first + s->par.cpus; i++)
		if (s->nodes[i].here < s->nodes[best].here)
			best = i;
	return best;
}

/*
 * The tasks of a job go to as many nodes with the least N.mem (uniform memory load), ties at random; on a node of
 * several CPUs first to the CPUs with the fewest tasks, one to each. A local task goes to the idlest CPU of its node.
 * Leaves the CPUs in choice[], low 32 bits.
 */
static void map_job(struct sim *s, const struct sim_script *j)
{
	uint32_t n = s->par.nodes;

	if (j->node != NIL && !s->script && s->par.cpus > 1) {
		s->choice[0] = idlest(s, j->node);
		return;
	}
	if (j->node != NIL) {
		for (uint32_t i = 0; i < j->size; i++)
			s->choice[i] = (j->node + i) % n;
		return;
	}
	/* memory above, then bits at random; the node takes their place once chosen */
	uint64_t salt = draw(&s->streams[DRAW_MAP]);

	for (uint32_t i = 0; i < n; i++) {
		const struct node *c = &s->nodes[i];
		uint64_t random = mix(salt + c->home * 0x9e3779b97f4a7c15ULL) & 0x3ff;

		if (s->par.cpus > 1)
			random = (random & 0x3f0) | (c->here < 15 ? c->here : 15);
		s->choice[i] = home(s, c)->mem << 28 | random << 18 | i;
	}
	select_least(s->choice, n, j->size);
	for (uint32_t i = 0; i < j->size; i++)
		s->choice[i] &= 0x3ffff;
}

/* Room for one more, doubled when there is none: the arrays' only allocation. */
static int more_tasks(struct sim *s)
{
	uint32_t old = s->nr_tasks, nr = old ? 2 * old : 256;
	struct task *tasks = realloc(s->tasks, nr * sizeof(*tasks));
	struct fault *faults = malloc((uint64_t)nr * sizeof(*faults));

	if (tasks)
		s->tasks = tasks;
	if (!tasks || !faults) {
		free(faults);
		return -1;
	}
	for (uint64_t i = s->first_fault; i != s->end_fault; i++)
		faults[i & (nr - 1)] = s->faults[i & s->fault_mask];
	free(s->faults);
	s->faults = faults;
	s->fault_mask = nr - 1;
	for (uint32_t i = old; i < nr; i++)
		tasks[i] = (struct task){ .next = i + 1 < nr ? i + 1 : s->free_task };
	s->free_task = old;
	s->nr_tasks = nr;
	return 0;
}

static int more_jobs(struct sim *s)
{
	uint32_t old = s->nr_jobs, nr = old ? 2 * old : 64;
	struct job *jobs = realloc(s->jobs, nr * sizeof(*jobs));

	if (!jobs)
		return -1;
	s->jobs = jobs;
	for (uint32_t i = old; i < nr; i++)
		jobs[i].left = i + 1 < nr ? i + 1 : s->free_job;
	s->free_job = old;
	s->nr_jobs = nr;
	return 0;
}

static void new_phase(struct sim *s, struct task *t, uint64_t tc)
{
	const struct sim_params *p = &s->par;
	double wrk = t->vir * (p->wrk_mean[t->class_] + p->wrk_sd[t->class_] * normal(&t->phases));

	s->stats.phases++;
	t->wrk = wrk < 1 ? 1 : wrk > t->vir ? t->vir : (uint32_t)wrk;
	t->rq.flt = fault_probability(s, t);
	t->phase_left = p->phase > 0 ? exponential_ns(&t->phases, p->phase * (double)tc) : NEVER;
}

static uint32_t new_task(struct sim *s, uint32_t job, uint32_t rank, uint32_t node)
{
	uint32_t index = s->free_task, generation;
	struct job *j = &s->jobs[job];
	struct task *t = &s->tasks[index];

	s->free_task = t->next;
	generation = t->generation;
	*t = (struct task){
		.node = node, .job = job, .work_left = j->tc, .vir = j->vir, .to = NIL, .generation = generation,
		.class_ = j->class_, .message_left = NEVER, .last_run = s->now,
		.slices = stream_of(s->par.seed, j->number, rank, DRAW_SLICE),
		.gaps = stream_of(s->par.seed, j->number, s->par.in_step ? 0 : rank, DRAW_MESSAGE),
		.pages = stream_of(s->par.seed, j->number, rank, DRAW_PAGE),
		.phases = stream_of(s->par.seed, j->number, rank, DRAW_PHASE),
	};
	t->rq.flags = j->class_ == CLASS_LOCAL || s->par.classify_mes ? 0 : TASK_PARALLEL;
	if (j->class_ != CLASS_LOCAL && j->size > 1)
		t->message_left = exponential_ns(&t->gaps, s->par.mfreq_ns);
	new_phase(s, t, j->tc);
	memory_enter(s, home(s, &s->nodes[node]), index);
	s->nodes[node].here++;
	s->live[t->class_]++;
	s->live_mem += t->vir;
	return index;
}

/* Sums that the load is judged by start when a tenth of the jobs has come, and end with the last arrival. */
static void count_arrival(struct sim *s)
{
	struct sim_stats *st = &s->stats;
	double window, tasks;

	if (s->nr_arrived++ == s->nr_early) {
		s->mem_then = s->mem_area;
		s->task_then = s->task_area;
		s->local_then = s->local_area;
		s->window_from = s->now;
	}
	if (s->nr_arrived < s->nr_all || s->now == s->window_from)
		return;
	window = (double)(s->now - s->window_from);
	tasks = (double)(s->task_area - s->task_then);
	st->window = window / 1e9;
	st->mem_load = (double)(s->mem_area - s->mem_then) / window / real_nodes(s) / s->par.memory;
	st->tasks_per_node = tasks / window / real_nodes(s);
	st->local_residents = tasks > 0 ? (double)(s->local_area - s->local_then) / tasks : 0;
}

/* The job has ended: its record, and the sums of its class. */
static void record_job(struct sim *s, const struct job *j)
{
	struct sim_record *r = &s->records[j->number];
	struct sim_stats *st = &s->stats;
	double tr, tc = (double)j->tc / 1e9;

	r->fast = j->fast;
	r->slow = s->now - j->arrived;
	r->faults = j->faults;
	tr = (double)r->slow / 1e9;
	for (int late = 0; late <= (j->number >= s->nr_early); late++) {
		struct sim_sums *sums = late ? &st->late[j->class_] : &st->sums[j->class_];

		sums->jobs++;
		sums->tasks += j->size;
		sums->tr += tr;
		sums->tc += tc;
		sums->ratio += tr / tc;
	}
	if (j->class_ != CLASS_LOCAL && j->size > 1) {
		double spread = (double)(r->slow - r->fast) / (double)j->tc;

		st->correlation_jobs++;
		st->correlation_clipped += spread > 1;
		st->correlation_sum += spread > 1 ? 1 : spread;
	}
	s->nr_done++;
}

#endif /* SIM_WORKLOAD_H */
