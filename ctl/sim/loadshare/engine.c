// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The engine: a cluster whose nodes share load, event by event (LoadShare sec. 2.2 and 3.4).
 *
 *	arrival ──> here? ──yes──────────────────> node ──> end
 *	              ├──another──> transfer (r) ──> │
 *	              └──none──> held, until a job    └──> transfer (r + D/B): it is migrated
 *	                         ends here or the load
 *	                         information is renewed
 *
 * Four kinds of event: the next arrival; transfers, in a heap; the next look of
 * held jobs at renewed load information; and each node's next event, in a
 * tournament: a job ends, its memory grows, or migration is considered. The
 * earliest is taken, at equal times in the order of this list, then of nodes.
 * Between two events of a node its jobs share it as node.h says.
 *
 * Load information is renewed every refresh_ns. A renewal matters only if a job is held, so the renewal itself is no
 * event: look() returns the last collected state, with the jobs sent to a node since (known to all).
 *
 * With SIM_CHECK the engine checks itself while it runs.
 */
#include "workload.h"
#include "node.h"

static void add(struct sim_view *v, uint64_t load, uint64_t request)
{
	v->load += load;
	v->request += request;
	v->jobs++;
}

static void subtract(struct sim_view *v, uint64_t load, uint64_t request)
{
	v->load -= load;
	v->request -= request;
	v->jobs--;
}

/* --- jobs come and go --- */

static void gone(struct sim *s, uint32_t j, int killed)
{
	struct sim_record *r = &s->records[j];
	struct sim_stats *st = &s->stats;

	count_time(s);
	s->inside--;
	s->nr_gone++;
	s->wall += s->now - r->arrived;
	s->state[j].state = JOB_GONE;
	st->faults += r->faults;
	r->killed = killed;
	if (killed) {
		st->killed++;
		return;
	}
	r->ended = s->now;
	CHECK(s, r->cpu == s->jobs[j].cpu && r->io == s->jobs[j].io, "a job ended that has not had its time");
	CHECK(s, r->arrived + r->cpu + r->io + (uint64_t)r->queue + r->paging + r->migration == r->ended,
	      "the parts of a job's time do not add up");
	st->done++;
	st->slowdown += (double)(r->ended - r->arrived) / (double)(r->cpu + r->io);
	st->wall += (double)(r->ended - r->arrived) / 1e9;
	st->cpu += (double)r->cpu / 1e9;
	st->io += (double)r->io / 1e9;
	st->queue += (double)r->queue / 1e9;
	st->paging += (double)r->paging / 1e9;
	st->migration += (double)r->migration / 1e9;
}

/* A job is put on a node; the node's stretch is settled and the next not begun. */
static void enter(struct sim *s, struct node *n, uint32_t j)
{
	settle(s, n);
	remember(s, n);
	n->since = s->now;
	s->state[j].state = JOB_RESIDENT;
	append(s, &n->jobs, j);
	add(&n->now, s->state[j].ws, s->jobs[j].request);
	s->records[j].node = (uint32_t)(n - s->nodes);
}

static void leave(struct sim *s, struct node *n, uint32_t j)
{
	remember(s, n);
	take(s, &n->jobs, j);
	subtract(&n->now, s->state[j].ws, s->jobs[j].request);
}

/* Without load sharing the system kills the newest when swap is full. */
static void kill_newest(struct sim *s, struct node *n)
{
	const struct sim_params *p = &s->par;

	while (p->unknown && p->policy == POLICY_NONE && n->now.load > p->memory + p->swap) {
		uint32_t j = n->jobs.tail;

		leave(s, n, j);
		gone(s, j, 1);
	}
}

static void enter_and_run(struct sim *s, uint32_t node, uint32_t j)
{
	struct node *n = &s->nodes[node];

	enter(s, n, j);
	kill_newest(s, n);
	begin(s, n);
}

static void transfer(struct sim *s, uint32_t j, uint32_t to, uint64_t takes)
{
	struct transfer t = { .at = s->now + takes, .order = s->order++, .job = j, .to = to };

	s->records[j].migration += takes;
	s->state[j].state = JOB_COMING;
	add(&s->nodes[to].coming, s->state[j].ws, s->jobs[j].request);
	if (heap_add(&s->transfers, t))
		s->trouble = "out of memory for transfers";
}

/* A job that is nowhere yet goes to a node. */
static void place(struct sim *s, uint32_t j, uint32_t to)
{
	if (to == s->jobs[j].node) {
		enter_and_run(s, to, j);
		return;
	}
	s->stats.submissions++;
	s->records[j].submissions++;
	transfer(s, j, to, s->par.remote_ns);
}

static void retry_later(struct sim *s)
{
	if (s->nr_held && s->retry == NEVER)
		s->retry = last_refresh(s) + s->par.refresh_ns;
}

static void hold(struct sim *s, uint32_t j)
{
	append(s, &s->nodes[s->jobs[j].node].held, j);
	s->state[j].state = JOB_HELD;
	s->state[j].entered = s->now;
	s->nr_held++;
	s->stats.holds++;
	retry_later(s);
}

/* Place the first of a node's held jobs; returns whether it could be. */
static int release(struct sim *s, uint32_t node)
{
	uint32_t j = s->nodes[node].held.head;
	int to = sim_choose(&s->par, look(s, node), node, s->state[j].ws);

	if (to < 0)
		return 0;
	take(s, &s->nodes[node].held, j);
	s->nr_held--;
	s->records[j].queue += (int64_t)(s->now - s->state[j].entered);
	place(s, j, (uint32_t)to);
	return 1;
}

/* A node has more room: its held jobs see the room at once, held jobs of other nodes at the next renewal. */
static void room(struct sim *s, uint32_t node)
{
	while (s->nodes[node].held.head != NIL && release(s, node))
		;
	retry_later(s);
}

/* --- migration --- */

static uint32_t describe(struct sim *s, const struct node *n, struct sim_task *tasks, uint32_t most)
{
	uint32_t nr = 0;

	for (uint32_t j = n->jobs.head; j != NIL && nr < most; j = s->state[j].next) {
		const struct job *t = &s->state[j];

		tasks[nr++] = (struct sim_task){
			.ws = t->ws, .age_ns = t->done + t->io_done, .faults_s = t->faults_s, .ios = ios_of(s, j),
			.cpu_share = (double)t->cpu_share / (double)ONE,
			.paging_share = (double)t->paging_share / (double)ONE, .job = j,
		};
	}
	return nr;
}

/* Try to migrate a job; returns whether one left. A node that finds the bus busy runs on. */
static int migrate(struct sim *s, uint32_t node)
{
	struct node *n = &s->nodes[node];
	uint64_t takes;
	uint32_t j;
	int which, to;

	n->last_check = s->now;
	s->stats.checks++;
	if (s->par.bus && s->now < s->bus_free)
		return 0;
	which = sim_identify(&s->par, s->tasks, describe(s, n, s->tasks, s->nr_jobs));
	if (which < 0)
		return 0;
	j = s->tasks[which].job;
	to = sim_target(&s->par, look(s, node), node, s->state[j].ws);
	if (to < 0)
		return 0;
	leave(s, n, j);
	takes = move_ns(&s->par, s->state[j].ws);
	s->bus_free = s->now + takes;
	s->stats.moves++;
	s->records[j].moves++;
	transfer(s, j, (uint32_t)to, takes);
	return 1;
}

/* --- the events --- */

static void on_arrival(struct sim *s)
{
	uint32_t j = s->nr_arrived++, node = s->jobs[j].node;
	int to = -1;

	count_time(s);
	s->inside++;
	s->state[j] = (struct job){ .ws = s->jobs[j].low, .steps = s->jobs[j].ramp ? 0 : STEPS };
	s->records[j].arrived = s->now;
	if (s->nodes[node].held.head == NIL)
		to = sim_choose(&s->par, look(s, node), node, s->state[j].ws);
	if (to < 0)
		hold(s, j);
	else
		place(s, j, (uint32_t)to);
}

static void on_transfer(struct sim *s)
{
	struct transfer t = heap_take(&s->transfers);
	struct node *n = &s->nodes[t.to];

	subtract(&n->coming, s->state[t.job].ws, s->jobs[t.job].request);
	enter_and_run(s, t.to, t.job);
	add(&n->before, s->state[t.job].ws, s->jobs[t.job].request);
}

/* All nodes know of all: the held jobs are tried again, the longest held first. */
static void on_retry(struct sim *s)
{
	uint32_t nr = s->par.nodes;

	s->retry = NEVER;
	s->stats.retries++;
	for (uint32_t k = 0; k < nr; k++)
		s->views[nr + k].jobs = 0;	/* not refused yet */
	for (;;) {
		uint32_t first = NIL;

		for (uint32_t k = 0; k < nr; k++) {
			uint32_t j = s->nodes[k].held.head;

			if (j != NIL && !s->views[nr + k].jobs
			    && (first == NIL || j < s->nodes[first].held.head))
				first = k;
		}
		if (first == NIL)
			return;
		s->views[nr + first].jobs = !release(s, first);
	}
}

static void on_node(struct sim *s, uint32_t node)
{
	struct node *n = &s->nodes[node];
	int more_room = 0;

	settle(s, n);
	for (uint32_t j = n->jobs.head, next; j != NIL; j = next) {
		struct job *t = &s->state[j];
		const struct sim_job *job = &s->jobs[j];

		next = t->next;
		while (t->steps < STEPS && t->done >= next_step(s, j) && t->done < job->cpu) {
			uint64_t ws = job->low + (job->high - job->low) * ++t->steps / STEPS;

			remember(s, n);
			n->now.load += ws - t->ws;
			t->ws = ws;
		}
		if (t->done == job->cpu) {
			leave(s, n, j);
			gone(s, j, 0);
			more_room = 1;
		}
	}
	kill_newest(s, n);
	n->oversize = oversize(&s->par, n->now.load);
	if (s->now >= n->check) {
		n->check = NEVER;
		if (over_threshold(&s->par, n))
			more_room |= migrate(s, node);
	}
	begin(s, n);
	if (more_room)
		room(s, node);
}

#include "run.h"
