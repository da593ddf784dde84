/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The simulator's vocabulary: the inputs and outputs of an engine, shared with Python. native.py reads the part between
 * the "cdef" marks and checks, when it loads the engine, that both sides see the same sizes.
 *
 * Times are whole nanoseconds of simulated time, memory is pages of 4 KB.
 */
#ifndef SIM_H
#define SIM_H

#include <stdint.h>

#include "decision.h"

/* cdef begin */
#define SIM_DE_MAX	65	/* histogram of de at dispatch; the last bucket is "so often or oftener" */

enum sim_class {
	CLASS_LOCAL,
	CLASS_SMALL,
	CLASS_LARGE,
	NR_CLASSES,
};

enum sim_status {
	SIM_DONE,		/* every job has come and gone */
	SIM_PAUSED,		/* `until` or `events` is reached: call again */
	SIM_BROKEN,		/* see sim_trouble() */
};

/* A model's parameters, in the engine's units; sim/params.py has them with names, ranges and sources. */
struct sim_params {
	uint64_t	seed;
	uint32_t	rule;			/* enum insert_rule */
	uint32_t	nodes;			/* CPUs of all nodes: each has a ready queue */
	uint32_t	jobs;			/* that the generator makes */
	uint32_t	memory;			/* M of a node */
	uint32_t	mnol, mnod;
	uint32_t	p;			/* weight of the past in mes, fixed point */
	uint32_t	classify_mes;		/* local iff mes < MES_LOCAL (B-CSM-7) */
	uint32_t	backlog_only;		/* c_mes without what came since the last insertion (B-CSM-8) */
	uint32_t	eq3_printed;		/* pg_fault as printed, inverted (B-CSM-1) */
	uint32_t	top_next;		/* the top is next, the running task stays (B-CSM-4) */
	uint32_t	refs;			/* page references per dispatch (B-CSM-23) */
	uint32_t	equal_slices;		/* each slice is the mean */
	uint32_t	in_step;		/* the tasks of a job communicate at the same points of their progress */
	uint32_t	enter_free;		/* a new task has free frames only, and takes no frames of other tasks */
	double		mit_ns;			/* mean time between two jobs' arrivals */
	double		local_share;		/* P(a job is local) */
	double		large_share;		/* P(a parallel job is large) */
	double		tc_ns[3];		/* mean CPU time, by class */
	double		tc_cv;			/* its coefficient of variation; 0: constant */
	uint32_t	size_low[3], size_high[3];	/* log2 of the tasks of a job */
	uint32_t	vir_low[3], vir_high[3];	/* pages of a task */
	double		wrk_mean[3], wrk_sd[3];	/* working set, parts of vir */
	double		phase;			/* mean length of a phase, part of tc */
	double		slice_ns;		/* mean time slice */
	double		mfreq_ns;		/* mean CPU time between two messages of a task */
	uint64_t	latency_ns;		/* of a message */
	uint64_t	smq_ns;			/* how long it stays in the send queue */
	uint64_t	fault_ns;		/* of a page fault */
	uint64_t	tick_ns;		/* a slice ends with the first tick after it; 0: by itself */
	uint64_t	switch_ns;		/* of putting another task on the CPU */
	double		inject_ns;		/* mean time between two injected faults; 0: none */
	uint32_t	inject_node;		/* where they are */
	uint32_t	cpus;			/* of a node: these share its memory */
};

/* A job given, not generated. */
struct sim_script {
	uint64_t	arrives, tc;
	uint32_t	class_, size, vir;
	uint32_t	node;			/* of its first task, the others follow; UINT32_MAX: mapped by load */
};

/* The outcome of a job. */
struct sim_record {
	uint64_t	arrived, tc;
	uint64_t	fast, slow;		/* response time of its first and its last task to end; 0: still there */
	uint32_t	class_, size, vir;
	uint32_t	faults;
};

/* Sums over the jobs of one class. */
struct sim_sums {
	uint64_t	jobs, tasks;
	double		tr, tc;			/* s: of jobs; tr is that of the last task */
	double		ratio;			/* tr / tc */
};

struct sim_stats {
	uint64_t	now;
	uint64_t	events;
	uint64_t	arrivals, messages, wakes, expiries, ends, blocks, phases;
	uint64_t	dispatches, switches, preempts, faults;
	uint64_t	injected;		/* of the faults */
	uint64_t	insertions, tails, tops, walks;	/* by insert_plan() */
	uint64_t	parallel_insertions;
	uint64_t	by_mes, by_rec, by_flt;	/* of a parallel task, by the mode that decided (B-CSM-6) */
	uint64_t	promotions;		/* insertions that passed a task */
	uint64_t	passed;			/* tasks so passed */
	uint64_t	looks;			/* may_overtake() asked */
	uint64_t	de[SIM_DE_MAX];		/* how often a dispatched task had been overtaken */
	uint64_t	most_tasks;		/* in the system at once */
	double		busy;			/* s of CPU, all nodes */
	double		mean_pg_fault;		/* CSM eq. 8 */
	double		correlation_sum;	/* of (slow - fast) / tc, over ... */
	uint64_t	correlation_jobs;	/* ... the parallel jobs of two tasks or more */
	uint64_t	correlation_clipped;	/* of these, spread wider than tc (B-CSM-15) */
	struct sim_sums	sums[3];
	struct sim_sums	late[3];		/* without the first tenth of the jobs */
	double		mem_area, task_area;	/* pages x s and tasks x s, to the end */
	double		mem_load;		/* mean of sum N.mem / (n M), from the first tenth's last arrival to the last */
	double		tasks_per_node;		/* in the same window */
	double		local_residents;	/* part of these that is local */
	double		window;			/* s */
};

/* One task of a node, for traces. */
struct sim_view {
	uint32_t	job, class_;
	uint32_t	vir, res, wrk, faults;
	uint64_t	cpu_ns;
};

/* An operation on one node's memory, in engines that check themselves. */
enum sim_memory_what { MEMORY_ENTER, MEMORY_LEAVE, MEMORY_RUN, MEMORY_LOAD };
struct sim_memory_op {
	uint32_t	what;			/* enum sim_memory_what */
	uint32_t	task;			/* the n-th that entered */
	uint32_t	vir, wrk;		/* MEMORY_ENTER */
};

typedef struct sim sim;
sim *sim_new(const struct sim_params *params, const struct sim_script *script, uint32_t nr_script);
void sim_free(sim *s);
int sim_run(sim *s, uint64_t until, uint64_t events);
const struct sim_stats *sim_stats(sim *s);
const struct sim_record *sim_records(sim *s);
const char *sim_trouble(sim *s);
uint32_t sim_node_tasks(sim *s, uint32_t node, struct sim_view *views, uint32_t room);
uint32_t sim_log(sim *s, struct sim_decision *log, uint32_t room);	/* decisions since the last call */
void sim_draw(uint32_t what, double a, double b, uint64_t seed, double *out, uint32_t n);
void sim_gaps(const struct sim_params *params, uint32_t job, uint64_t *ns, uint32_t n);	/* CPU time between messages */
int sim_memory(const struct sim_params *params, const struct sim_memory_op *ops, uint32_t n, uint32_t tasks,
	       uint32_t *res, uint32_t *flt);	/* of each task after each operation; SIM_CHECK only, else -1 */
/* cdef end */

#endif /* SIM_H */
