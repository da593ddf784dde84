/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state of one node: its tasks, its ready queue, the messages under way.
 *
 * Tasks are found by index, as their array grows when more are there at once
 * than ever before; nothing else allocates but the heap of messages, likewise.
 * A slot is used again after its task's end; the slot's generation marks messages to the former holder.
 */
#ifndef SIM_STATE_H
#define SIM_STATE_H

#include "insert_rq.h"
#include "decision.h"
#include "sim.h"
#include "engine.h"

enum task_state { TASK_FREE, TASK_QUEUED, TASK_RUNNING, TASK_BLOCKED };

/* The next event of the running task. */
enum cpu_event { CPU_EXPIRE, CPU_RECEIVE, CPU_END, CPU_BLOCK };

struct task {
	struct rq_task	rq;			/* rec is the length of its MBQ */
	uint32_t	next, prev;		/* in the ready queue */
	uint32_t	number, generation;
	uint64_t	arrived, service;
	uint64_t	done;			/* CPU time had, without polling */
	uint64_t	slice_left, spin_left;
	uint64_t	decision;		/* since this dispatch ... */
	uint32_t	fresh;			/* ... so many messages came while it did not run */
	uint32_t	received, receives;	/* of its points */
	uint8_t		state;
	uint8_t		waits;			/* is at a receive whose message it has not read */
	uint64_t	point[SIM_MESSAGES];
};

struct message {
	uint64_t	at;
	uint64_t	order;			/* of those at the same time */
	uint32_t	to, generation;
};

typedef struct message heap_entry;
#include "heap.h"

struct sim {
	uint64_t	now;
	uint64_t	next_arrival, cpu_due;	/* NEVER: the CPU is idle */
	struct heap	messages;		/* that will come */

	struct task	*tasks;
	uint32_t	nr_tasks, free_task;	/* slots, head of the free ones */
	uint32_t	running;
	uint32_t	head, tail, nr;		/* of the ready queue, without the running task */
	uint32_t	holders;		/* in it that have messages */
	uint32_t	cpu_event;
	uint64_t	since;			/* the running task is accounted up to then */

	struct insert_env env;
	struct sim_params par;
	struct sim_stats stats;

	const struct sim_script *script;
	struct sim_script next_task;
	uint32_t	nr_script, nr_arrived, nr_served;
	uint64_t	gaps;			/* random stream of the arrivals */
	struct sim_record *records;
	uint32_t	room_records;

	uint64_t	live, changed;
	unsigned __int128 task_area, response;	/* for Little's law */
	uint64_t	busy, spun;

	const char	*trouble;
	struct sim_decision *log;
	uint32_t	nr_log;
};

/* Tasks in the system over time, up to now. Called before their number changes. */
static void areas(struct sim *s)
{
	s->task_area += (unsigned __int128)s->live * (s->now - s->changed);
	s->changed = s->now;
}

#endif /* SIM_STATE_H */
