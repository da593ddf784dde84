/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state of a simulated cluster: nodes, tasks, jobs, and what will happen.
 *
 * Everything is found by index, never by pointer, because the arrays of tasks
 * and jobs grow when more are in the system at once than ever before; nothing
 * else allocates. A task's slot is used again after the task's end; the slot's generation marks messages to the former
 * holder.
 */
#ifndef SIM_STATE_H
#define SIM_STATE_H

#include "insert_rq.h"
#include "sim.h"
#include "engine.h"

enum task_state { TASK_FREE, TASK_QUEUED, TASK_RUNNING, TASK_BLOCKED, TASK_FAULTING };

/* The reasons for the next look at a running task: the first due reason counts. */
enum cpu_event { CPU_EXPIRE, CPU_MESSAGE, CPU_END };

struct task {
	struct rq_task	rq;			/* what insert_rq.h sees; rec and com are kept up to date */
	uint32_t	next, prev;		/* in the ready queue */
	uint32_t	node, job;
	uint64_t	work_left, message_left, slice_left, phase_left;	/* ns of CPU */
	uint64_t	last_run;		/* when it was last on the CPU, for LRU */
	uint32_t	vir, res, wrk;
	uint32_t	to, to_generation;	/* successor in the ring; NIL: talks to no task */
	uint32_t	generation;
	uint32_t	fresh;			/* messages sent and received since mes was last computed */
	uint32_t	faults;
	uint8_t		state;
	uint8_t		in_slice;		/* slice_left is what remains of a slice */
	uint8_t		needs;			/* awaits, or is to read when it runs, one message */
	uint8_t		alone;			/* its predecessor has ended: no message to await */
	uint8_t		class_;
	uint64_t	slices, gaps, pages, phases;	/* random streams */
	uint32_t	neighbour, behind;	/* the other tasks of its node */
};

/* A CPU and its ready queue. The data of a node are in the node's first CPU, its home. */
struct node {
	uint32_t	home, here;		/* here: tasks that this CPU has to run */
	uint32_t	running;
	uint32_t	head, tail;		/* of the ready queue, without the running task */
	uint32_t	nr;			/* in it */
	uint32_t	cpu_event;
	uint32_t	tasks, nr_tasks;	/* home: all of the node */
	uint32_t	last;			/* task last on the CPU */
	uint64_t	since;			/* the running task has the CPU since then */
	uint64_t	mem, resident;		/* home: sums of vir and res */
	uint64_t	faults, executed;	/* home */
	uint64_t	busy;
};

struct job {
	uint64_t	arrived, tc, fast;
	uint32_t	number, size, left, class_, vir, faults;
};

struct message {
	uint64_t	sent;
	uint32_t	from, from_generation;
	uint32_t	to, to_generation;
	uint32_t	last;			/* none will follow: the sender has ended */
};

struct fault {
	uint64_t	done;
	uint32_t	task;
};

struct sim {
	uint64_t	now;
	/* what will happen: the CPUs' next events in a tournament, the rest in order of time */
	uint64_t	*tree;			/* tree[1] is the least; leaves from tree[leaves] on; time << shift | node */
	uint32_t	leaves, shift;
	uint64_t	next_arrival, next_fault, next_message;
	uint64_t	job_comes, next_injection;	/* the sooner of them is next_arrival */
	struct fault	*faults;
	uint64_t	first_fault, end_fault;
	struct message	*messages;
	uint64_t	first_message, unsent, end_message;	/* unsent: first that is still in its send queue */
	uint64_t	message_mask, fault_mask;

	struct node	*nodes;
	struct task	*tasks;
	uint32_t	nr_tasks, free_task;	/* slots, head of the free ones */
	struct job	*jobs;
	uint32_t	nr_jobs, free_job;

	struct insert_env env;
	struct sim_params par;
	struct sim_stats stats;

	/* workload */
	const struct sim_script *script;
	struct sim_script next_job;
	uint32_t	nr_all, nr_arrived, nr_done, nr_early;
	uint64_t	streams[NR_PURPOSES];
	uint64_t	injections;		/* random stream */
	uint64_t	*choice;		/* room to order the nodes */
	struct sim_record *records;

	/* sums over time */
	uint64_t	live[NR_CLASSES], live_mem, changed;
	unsigned __int128 mem_area, task_area, local_area, mem_then, task_then, local_then;
	uint64_t	window_from;
	unsigned __int128 tr_sum, cpu_sum, tc_sum;	/* for Little's law and work conservation */

	const char	*trouble;
	struct sim_decision *log;
	uint32_t	nr_log;
};

static inline struct node *home(struct sim *s, const struct node *n)
{
	return &s->nodes[n->home];
}

static inline uint32_t real_nodes(const struct sim *s)
{
	return s->par.nodes / s->par.cpus;
}

#include "tournament.h"

/* Sums over time, up to now. Called before anything they add up changes. */
static void areas(struct sim *s)
{
	uint64_t dt = s->now - s->changed;

	s->mem_area += (unsigned __int128)s->live_mem * dt;
	s->local_area += (unsigned __int128)s->live[CLASS_LOCAL] * dt;
	s->task_area += (unsigned __int128)(s->live[0] + s->live[1] + s->live[2]) * dt;
	s->changed = s->now;
}

#endif /* SIM_STATE_H */
