/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The inputs and outputs of this engine, shared with Python. native.py reads the part between the "cdef" marks and
 * checks that both sides see the same sizes.
 *
 * The paper's time has no unit (B-MO-7): here the unit is 10^9 ns.
 */
#ifndef SIM_H
#define SIM_H

#include <stdint.h>

/* cdef begin */
#define SIM_MESSAGES	16	/* the most messages that a task receives */

enum sim_status {
	SIM_DONE,		/* as many tasks as wanted have been served */
	SIM_PAUSED,		/* `until` or `events` is reached: call again */
	SIM_BROKEN,		/* see sim_trouble() */
};

/* The parameters in the engine's units; params.py has them with names, ranges and sources. */
struct sim_params {
	uint64_t	seed;
	uint32_t	rule;			/* enum insert_rule */
	uint32_t	served;			/* nst: the end comes when so many tasks have ended */
	uint32_t	mm;			/* most messages of a distributed task */
	uint32_t	mno;			/* overtakes that a task may suffer */
	uint32_t	async_;			/* what has come is read at the dispatch: nobody waits */
	uint32_t	to_head;		/* a displaced task goes back to the head, not to the bottom */
	uint32_t	wake_bottom;		/* implicit: a blocked task goes to the bottom when its message comes */
	uint32_t	pad;
	double		mit_ns, mst_ns;
	double		pdt;
	double		offset_ns;		/* a message comes U(0, this) after its task */
	uint64_t	slice_ns;
	uint64_t	spin_ns;		/* how long a receive polls before it blocks; 0: blocks at once */
	uint64_t	share_ns;
};

/* A task given, not generated. */
struct sim_script {
	uint64_t	arrives, service;
	uint32_t	parallel, messages;
	uint64_t	offset[SIM_MESSAGES];	/* when the messages come, after its arrival */
	uint64_t	point[SIM_MESSAGES];	/* CPU time at which it receives, ascending, below service */
};

/* The outcome of a task. */
struct sim_record {
	uint64_t	arrived, service, ended;	/* ended 0: still there */
	uint32_t	parallel, messages;
};

struct sim_stats {
	uint64_t	now, events;
	uint64_t	arrivals, messages, ends, expiries, receives;
	uint64_t	blocks;			/* receives that gave up the CPU */
	uint64_t	spins, spins_met;	/* receives that polled; of these, while the message came */
	uint64_t	late;			/* messages for tasks that have ended */
	uint64_t	dispatches, preempts;
	uint64_t	insertions, promotions, passed;
	/* NodeCoDe (B-MO-8): opportunities at dispatches and at arrivals of messages, and how many were taken */
	uint64_t	at_dispatch, taken_at_dispatch;
	uint64_t	at_arrival, taken_at_arrival;
	uint64_t	served[2];		/* local, distributed */
	double		response[2], service[2];	/* s, sums over those served */
	double		busy, spun;		/* s of CPU */
	double		task_area;		/* tasks x s */
};

typedef struct sim sim;
sim *sim_new(const struct sim_params *params, const struct sim_script *script, uint32_t nr_script);
void sim_free(sim *s);
int sim_run(sim *s, uint64_t until, uint64_t events);
const struct sim_stats *sim_stats(sim *s);
uint32_t sim_records(sim *s, const struct sim_record **records);	/* in the order of arrival */
const char *sim_trouble(sim *s);
uint32_t sim_log(sim *s, struct sim_decision *log, uint32_t room);	/* decisions since the last call */
/* cdef end */

#endif /* SIM_H */
