// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The engine: a gang-scheduled cluster, slot by slot (ParPar sec. 3.2).
 *
 *	arrival ──> queue ──(scan: memory, controller, row)──> matrix ──> end
 *
 * The rows of the matrix have slots in turn; empty rows have none. In a slot
 * each node runs its process of that row, alone: it computes, waits for pages,
 * computes. Nodes do not touch each other within a slot, so each is followed to
 * the slot's end by itself. The host decides between slots: it notices arrived and ended jobs when the slot ends. A
 * slot ends early when no process of its row is left.
 *
 * Worked example, one node, slots of 1 s, A needs 1.5 s, B 0.5 s, both there at
 * 0 in rows 0 and 1: A runs 0 to 1, B 1 to 1.5 and ends, A 1.5 to 2 and ends.
 *
 * With SIM_CHECK the engine checks itself while it runs.
 */
#include "matrix.h"
#include "walk.h"

/* Mean CPU time of a process to its next fault; 0: it has all its pages. */
static inline double mean_gap(const struct sim *s, const struct process *p)
{
	uint32_t n = s->par.footprint;

	if (p->res >= p->pages)
		return 0;
	return s->gap[p->pages == n ? p->res : (uint32_t)((uint64_t)p->res * n / p->pages)];
}

/* Run a process until it ends or the slot does; returns when. */
static uint64_t run_process(struct sim *s, uint32_t index, uint64_t from, uint64_t to)
{
	struct process *p = &s->processes[index];
	struct node *n = &s->nodes[p->node];
	uint64_t t = p->ready > from ? p->ready : from;
	uint32_t victim;

	unlink_process(s, n, index);
	link_newest(s, n, index);
	victim = n->oldest;
	s->stats.runs++;
	s->stats.events++;
	while (t < to) {
		double mean = mean_gap(s, p);
		uint64_t gap = mean > 0 ? exponential_ns(&p->stream, mean) : NEVER;
		uint64_t run = to - t;

		if (gap < run)
			run = gap;
		if (p->work_left <= run) {
			t += p->work_left;
			s->busy += p->work_left;
			p->work_left = 0;
			return t;
		}
		t += run;
		p->work_left -= run;
		s->busy += run;
		if (run == gap) {	/* the disk goes on when the slot is over */
			t += s->par.fault_ns;
			p->ready = t;
			s->paging += s->par.fault_ns;
			s->stats.faults++;
			s->stats.events++;
			s->records[p->job].faults++;
			memory_load(s, n, index, &victim);
		}
	}
	return to;
}

static void end_process(struct sim *s, uint32_t row, uint32_t index, uint64_t at)
{
	struct process *p = &s->processes[index];
	const struct sim_job *j = &s->jobs[p->job];
	struct sim_record *r = &s->records[p->job];

	log_op(s, OP_END, p->job, row, p->node);
	memory_leave(s, index);
	s->nodes[p->node].load--;
	s->nodes[p->node].used -= counted(s, j);
	s->cells[(uint64_t)row * s->par.nodes + p->node] = NIL;
	s->in_row[row]--;
	s->nr_running--;
	s->changed = 1;
	if (r->ended == NEVER || r->ended < at)
		r->ended = at;		/* the job's end is the end of its last process; final when no process is left */
	if (!--s->left[p->job]) {
		s->stats.ends++;
		s->stats.events++;
		s->response_sum += r->ended - j->arrives;
		s->work += (unsigned __int128)j->cpu * j->size;
		s->ended[s->nr_done++] = p->job;
	}
	p->newer = s->free_process;
	s->free_process = index;
}

/* A slot of the next row with processes. */
static void slot(struct sim *s)
{
	uint64_t from = s->now, to = s->now + s->par.slot_ns, last = 0;
	uint32_t row = s->row, done = s->nr_done;
	uint64_t inside = s->nr_arrived - s->nr_done;

	do
		row = row + 1 < s->rows ? row + 1 : 0;
	while (!s->in_row[row]);
	if (row != s->row && s->row != NIL) {
		s->stats.switches++;
		from += s->par.switch_ns;
	}
	s->row = row;
	s->stats.slots++;
	for (uint32_t k = 0; k < s->par.nodes; k++) {
		uint32_t index = s->cells[(uint64_t)row * s->par.nodes + k];
		uint64_t at;

		if (index == NIL)
			continue;
		at = run_process(s, index, from, to);
		if (at > last)
			last = at;
		if (!s->processes[index].work_left)
			end_process(s, row, index, at);
		check_memory(s, k);
	}
	if (s->in_row[row] || last > to)
		last = to;
	s->job_area += (unsigned __int128)inside * (last - s->now);
	for (; done < s->nr_done; done++)
		s->job_area -= last - s->records[s->ended[done]].ended;
	s->now = last;
	while (s->rows && !s->in_row[s->rows - 1])
		s->rows--;
}

/* Jobs that have come by now join the queue's tail; stops at one whose estimate must be asked for. */
static void on_arrivals(struct sim *s)
{
	for (; s->nr_arrived < s->nr_jobs && s->jobs[s->nr_arrived].arrives <= s->now; s->nr_arrived++) {
		uint32_t job = s->nr_arrived;

		if (s->jobs[job].estimate == ASK) {
			s->asking = job;
			return;
		}
		s->job_area += s->now - s->jobs[job].arrives;
		s->queue[s->nr_queue++] = job;
		s->changed = 1;
		s->stats.arrivals++;
		s->stats.events++;
		log_op(s, OP_ARRIVE, job, 0, 0);
		if (s->nr_arrived + 1 - s->nr_done > s->stats.most_jobs)
			s->stats.most_jobs = s->nr_arrived + 1 - s->nr_done;
	}
}

/* Little's law and the conservation of work, exactly, in nanoseconds. */
static void check_sums(struct sim *s)
{
	if (s->job_area != s->response_sum)
		s->trouble = "Little's law does not hold: the jobs' time in the system does not add up";
	else if (s->busy != s->work)
		s->trouble = "work was lost or gained: the CPUs' busy time is not what the jobs asked for";
}

static inline void check_state(struct sim *s)
{
#ifdef SIM_CHECK
	uint32_t taken = 0;

	for (uint32_t row = 0; row < s->rows; row++) {
		uint32_t in_row = 0;

		for (uint32_t k = 0; k < s->par.nodes; k++) {
			uint32_t index = s->cells[(uint64_t)row * s->par.nodes + k];

			if (index == NIL)
				continue;
			in_row++;
			CHECK(s, s->processes[index].node == k, "a process is in another node's column");
			CHECK(s, s->records[s->processes[index].job].row == row, "a job is in two rows");
		}
		CHECK(s, in_row == s->in_row[row], "a row's processes are not those it counts");
		taken += in_row;
	}
	CHECK(s, taken == s->nr_running, "a process was lost");
	for (uint32_t i = 0; i < s->nr_queue; i++)
		CHECK(s, s->records[s->queue[i]].skips <= s->par.skips, "a job was skipped too often");
#else
	(void)s;
#endif
}

enum { NEXT_ASKS, NEXT_OVERLOAD, NEXT_SLOT, NEXT_ARRIVAL };

/* What the host decides between slots, and what is next then. */
static struct event next_event(struct sim *s)
{
	on_arrivals(s);
	if (s->asking != NIL)
		return (struct event){ .at = s->now, .what = NEXT_ASKS };
	if (s->changed)
		scan(s);
	if (s->par.at_most && s->nr_arrived - s->nr_done > s->par.at_most)
		s->stats.overload = 1;
	if (s->stats.overload)
		return (struct event){ .at = s->now, .what = NEXT_OVERLOAD };
	if (s->nr_running)
		return (struct event){ .at = s->now, .what = NEXT_SLOT, .lasts = 1 };
	return (struct event){ .at = s->nr_arrived < s->nr_jobs ? s->jobs[s->nr_arrived].arrives : NEVER,
				.what = NEXT_ARRIVAL };
}

static inline int is_over(const struct sim *s, uint64_t next)
{
	return next == NEVER && s->nr_done == s->nr_jobs && !s->nr_queue;
}

/* Slots, and what happens in them, count themselves; arrivals are counted when they are seen. */
static int take_event(struct sim *s, int what)
{
	if (what == NEXT_ASKS)
		return SIM_ASKS;
	if (what == NEXT_OVERLOAD)
		return SIM_PAUSED;
	if (what == NEXT_SLOT)
		slot(s);
	return GO_ON;
}

static inline uint32_t clock_bits(const struct sim *s)
{
	(void)s;
	return 63;
}

#include "loop.h"
#include "calls.h"
