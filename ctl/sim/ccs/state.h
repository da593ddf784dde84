/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state of a non-dedicated, heterogeneous cluster: nodes, tasks, jobs, the cooperating nodes' knowledge of each
 * other, and future events.
 *
 * All arrays but the timers' are made at the start: a node never holds more
 * tasks than its MPL and one local user's. A task's slot is used again after the task's end; the generation marks
 * events of the former holder.
 */
#ifndef SIM_STATE_H
#define SIM_STATE_H

#include "insert_rq.h"
#include "sim.h"
#include "engine.h"

/* Streams beside those of random.h. */
enum { DRAW_NETWORK = NR_PURPOSES, DRAW_USER, DRAW_THINK, ALL_PURPOSES };

enum task_state {
	TASK_FREE,
	TASK_QUEUED,
	TASK_RUNNING,
	TASK_BLOCKED,		/* no message to read */
	TASK_FAULTING,		/* awaits a page */
	TASK_THINKING,		/* a local one, between two bursts */
	TASK_EXPIRED,		/* ready, its quantum of this epoch used up, or stopped */
};

/* The reasons for the next look at a running task: the first due reason counts. */
enum cpu_event { CPU_EXPIRE, CPU_FAULT, CPU_SPUN, CPU_MESSAGE, CPU_END };

enum timer_what { TIMER_ARRIVAL, TIMER_PAGE, TIMER_MESSAGE, TIMER_THINK, TIMER_EVENT, TIMER_EPOCH, TIMER_SAMPLE };

struct timer {
	uint64_t	at, order;		/* order: of timers at the same time, the first set is the first due */
	uint32_t	what;			/* enum timer_what */
	uint32_t	to, to_generation;	/* a task; TIMER_EPOCH: a node; TIMER_EVENT: a note */
	uint32_t	from, from_generation;
	uint32_t	last;
};

typedef struct timer heap_entry;
#include "heap.h"

/* A node's event for another node, about a job. */
struct note {
	uint32_t	job, node, to, seq;
	uint32_t	next;			/* free ones */
	uint8_t		local, stop;
};

/* The last event of another node about a job here. */
struct peer {
	uint64_t	ends;			/* the lease */
	uint32_t	seq;
	uint8_t		local, stop;
};

struct task {
	struct rq_task	rq;			/* what insert_rq.h sees */
	uint32_t	next, prev;		/* in the ready queue, or among the expired */
	uint32_t	node, job;		/* job: number; of a local task, the user's */
	uint32_t	neighbour, behind;	/* the other tasks of its node */
	uint64_t	work_left, message_left, fault_left, spin_left;	/* ns of CPU; message: a local one's burst */
	uint64_t	counter, quantum;	/* ns of CPU left in this epoch, and Alg. 2's */
	uint64_t	work, cpu, last_run;
	double		gap;			/* mean, on this node */
	uint32_t	vir, res, wrk, faults;
	uint32_t	to, to_generation, generation;
	uint32_t	fresh;			/* messages since mes was last computed */
	uint8_t		state, class_, needs, alone, spins;
	uint64_t	gaps, pages;		/* random streams */
	uint64_t	flt_at;			/* time >> FLT_SHIFT of the newest window */
	uint16_t	flt[SIM_WINDOWS];

	/* of a local task */
	double		burst_ns, think_ns;
	uint64_t	woke;			/* a system call awaits the CPU since then; 0: none does */
	uint64_t	began, alone_ns, planned_ns, whole;	/* whole: when its last whole cycle ended */
	uint64_t	cycle_ns;		/* of the cycle under way */

	/* the contract (contract.h, events.h) */
	uint8_t		contract;		/* enum contract_state */
	uint8_t		held;			/* its quantum is 0 */
	uint8_t		wanted;			/* Set_Memory wants it stopped */
	uint8_t		said_local, said_stop;
	uint32_t	repeats;
	uint64_t	again;
	uint32_t	order;			/* of Set_Memory's stops, 0: none */
	uint32_t	stop_need, patience;
};

struct node {
	uint32_t	running;
	uint32_t	head, tail, nr;		/* the ready queue, without the running task */
	uint32_t	expired, last_expired;	/* ready, but not in this epoch */
	uint32_t	nr_expired, nr_held;	/* all of these; those stopped */
	uint32_t	cpu_event;
	uint32_t	tasks, nr_tasks, nr_parallel;
	uint32_t	last;			/* task last on the CPU */
	uint64_t	since;			/* the running task has the CPU since then */
	uint64_t	mem, resident, mem_held, paral;	/* sums of vir, res, vir of those stopped, vir of parallel ones */
	uint64_t	busy[2], spun;		/* by class */
	uint32_t	frames, mpl;
	double		weight;
	uint64_t	disk_free;
	uint64_t	user_until;		/* a local user is present until then; 0: never was */
	uint8_t		has_user;		/* a local user's task is here */
	uint64_t	epoch_began, epoch_faults, epochs;

	/* the contract */
	uint8_t		local;			/* as the others were told */
	uint32_t	seq;
	uint32_t	order, quiet, settling;

	/* sums over time */
	uint64_t	changed;
	uint32_t	ready;			/* tasks in the queue, expired and not stopped, or running */
	unsigned __int128 load, load_square;
	double		memory, memory_square, asked, withheld;
	uint64_t	with_user, short_of;	/* time with a user's task here; of this, with more asked for than there is */
	uint64_t	sampled;		/* load at the governor's last look */
};

struct job {
	struct sim_script script;
	struct sim_record record;
	uint32_t	left, runs;		/* tasks that have not ended; tasks on a CPU */
	uint64_t	changed;
	uint32_t	next;			/* waiting */
	uint32_t	first_task;		/* of those it has; a ring by `to` */
	uint32_t	launch;			/* when, among all launches */
};

struct sim {
	uint64_t	now;
	uint64_t	*tree;			/* the CPUs' next events (tournament.h) */
	uint32_t	leaves, shift;
	struct heap	timers;
	uint64_t	order;			/* of the next timer */
	struct note	*notes;
	uint32_t	nr_notes, free_note;

	struct node	*nodes;
	struct task	*tasks;
	struct peer	*peers;			/* [task][node] */
	uint32_t	nr_tasks, free_task;
	struct job	*jobs;
	uint32_t	waiting, last_waiting;	/* jobs that await nodes */
	uint32_t	nr_all, nr_arrived, nr_done, nr_running, launches;
	uint32_t	bound, calm;		/* of the governor */
	uint64_t	job_area, job_changed;
	uint32_t	smallest;		/* least M of all nodes */

	struct insert_env env;
	struct sim_params par;
	struct sim_stats stats;
	uint64_t	streams[ALL_PURPOSES];
	uint64_t	choice[SIM_NODES];

	unsigned __int128 task_area, tr_sum, cpu_sum, work_sum;	/* Little's law, conservation of work */
	uint64_t	area_changed, live;
	double		stopped;

	const char	*trouble;
	struct sim_decision *log;
	uint32_t	nr_log;
	struct contract_said *overheard;	/* what was said, instead of sending it */
	uint32_t	nr_overheard, room_overheard;
};

#include "tournament.h"

/* Timers at the same time are due in the order in which they were set. */
static void set_timer(struct sim *s, struct timer t)
{
	t.order = s->order++;
	if (heap_add(&s->timers, t))
		s->trouble = "out of memory for timers";
}

/* --- sums over time --- */

/* Of a node, up to now. Called before anything they add up changes. */
static void node_areas(struct sim *s, struct node *n)
{
	uint64_t dt = s->now - n->changed;
	double part = (double)(n->mem - n->mem_held) / n->frames;

	n->load += (unsigned __int128)n->ready * dt;
	n->load_square += (unsigned __int128)(n->ready * n->ready) * dt;
	n->memory += part * (double)dt;
	n->memory_square += part * part * (double)dt;
	n->asked += (double)n->paral / n->frames * (double)dt;
	n->withheld += (double)n->mem_held / n->frames * (double)dt;
	if (n->has_user) {
		n->with_user += dt;
		n->short_of += n->mem > n->frames ? dt : 0;
	}
	n->changed = s->now;
}

static inline void ready(struct sim *s, struct node *n, int by)
{
	node_areas(s, n);
	n->ready += by;
}

/* Parallel tasks in the system, up to now. */
static void task_areas(struct sim *s, int by)
{
	s->task_area += (unsigned __int128)s->live * (s->now - s->area_changed);
	s->area_changed = s->now;
	s->live += by;
}

/* Tasks of a job that are on a CPU. */
static inline void job_runs(struct sim *s, struct task *t, int by)
{
	struct job *j = &s->jobs[t->job];
	uint64_t dt = s->now - j->changed;

	j->record.any_run += j->runs * dt;
	if (j->runs > 1)
		j->record.all_run += (uint64_t)j->runs * (j->runs - 1) * dt;
	j->changed = s->now;
	j->runs += by;
}

/* Jobs that run, up to now. */
static void job_areas(struct sim *s, int by)
{
	s->job_area += s->nr_running * (s->now - s->job_changed);
	s->job_changed = s->now;
	s->nr_running += by;
	if (s->nr_running > s->stats.most_jobs)
		s->stats.most_jobs = s->nr_running;
}

static inline struct peer *peers_of(struct sim *s, const struct task *t)
{
	return &s->peers[(uint64_t)(t - s->tasks) * s->par.nodes];
}

static inline int parallel(const struct task *t)
{
	return t->class_ == CLASS_PARALLEL;
}

/* Is a local user present? Until idle_ns after the last input (B-CCS-18). */
static inline int local_user(const struct sim *s, const struct node *n)
{
	return n->has_user || n->user_until > s->now;
}

#endif /* SIM_STATE_H */
