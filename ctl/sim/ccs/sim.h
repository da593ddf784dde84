/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The inputs and outputs of the engine of model ccs, shared with Python. Times are whole nanoseconds of simulated time,
 * memory is pages of 4 KB. CPU times are those of the fastest node; a node of weight W takes 1/W as long.
 */
#ifndef SIM_H
#define SIM_H

#include <stdint.h>

#include "decision.h"

/* cdef begin */
#define SIM_NODES	64	/* most nodes: sets of them are words */
#define SIM_PROGRAMS	8
#define SIM_PROFILES	4
#define SIM_SCL_MS	8192	/* histogram of system call latency; the last bucket is "so long or longer" */
#define SIM_DE_MAX	65
#define SIM_WINDOWS	8	/* of FLT, as the kernel side's: 8 of 2^27 ns are 1.07 s */

enum sim_class { CLASS_LOCAL, CLASS_PARALLEL };

enum sim_status {
	SIM_DONE,		/* every parallel job has come and gone */
	SIM_PAUSED,		/* `until` or `events` is reached: call again */
	SIM_BROKEN,		/* see sim_trouble() */
};

/* A parallel program (CCS T. 3): of the whole job work and memory, of each task the rest. */
struct sim_program {
	double		work_ns;
	double		gap_ns;			/* mean CPU time between two messages; 0: none */
	uint64_t	delay_ns;		/* of a message, from the sender to the receiver */
	uint32_t	memory;
};

/* A kind of local user (CCS T. 2): parts of a CPU and of the node's memory, mean and standard deviation. */
struct sim_profile {
	double		part;			/* of the users; they add up to 1 */
	double		cpu, cpu_sd;
	double		memory, memory_sd;
};

/* A model's parameters, in the engine's units; params.py has them with names, ranges and sources. */
struct sim_params {
	uint64_t	seed;
	uint32_t	rule;			/* enum insert_rule */
	uint32_t	nodes, jobs;
	uint32_t	mnol, mnod;
	uint32_t	p;			/* weight of the past in mes, fixed point */
	uint32_t	top_next;		/* the top is next, the running task stays */
	uint32_t	set_quantum, set_memory, events;	/* modules */
	uint32_t	credit;			/* a local task that slept goes ahead (B-CCS-31) */
	uint32_t	enter_free;
	uint32_t	cluster;		/* pages that a fault brings */
	uint32_t	mpl;			/* of the fastest node */
	uint32_t	jobs_at_once;		/* in the whole cluster; 0: any number */
	uint32_t	size_low, size_high;	/* log2 of a job's tasks */
	uint32_t	base;			/* pages that each task has beside its part of the job's */
	uint32_t	nr_programs, nr_profiles;
	uint32_t	locals;			/* local users in the cluster, each on a node of its own */
	uint32_t	locals_first;		/* on the first nodes, not on any */
	uint32_t	calm;			/* governor: samples without overload before one more job may run */
	double		weight[SIM_NODES];	/* W */
	uint32_t	frames[SIM_NODES];	/* M */
	double		share_l;
	double		mit_ns;			/* mean time between two jobs' arrivals */
	struct sim_program programs[SIM_PROGRAMS];
	struct sim_profile profiles[SIM_PROFILES];
	double		wrk_mean[2], wrk_sd;	/* working set, part of vir, by class */
	double		user_ns[2], user_first;	/* how long users stay: means of two phases, P(the first) */
	double		cycle_ns;		/* a local task's CPU burst and its wait, together, in the mean */
	double		touch_ns;		/* CPU time between two references to pages; 0: one at each dispatch */
	double		loss;			/* P(an event is lost) */
	double		cpu_max, memory_max;	/* governor */
	uint64_t	quantum_ns;		/* Def_Q of the operating system */
	uint64_t	fault_ns, switch_ns, spin_ns;
	uint64_t	idle_ns;		/* a user is gone so long after the last input */
	uint64_t	epoch_ns;		/* the longest epoch */
	uint64_t	event_ns, jitter_ns, lease_ns;
	uint64_t	sample_ns;		/* governor; 0: none */
};

/* A job given, not drawn; CPU times and memory of each task. */
struct sim_script {
	uint64_t	arrives, work, delay;
	double		gap;
	uint32_t	vir, size;
	uint32_t	program;
	uint32_t	node;			/* of its first task, the others follow; UINT32_MAX: mapped */
};

/* The outcome of a job. */
struct sim_record {
	uint64_t	arrived, began, ended;	/* began: the last time, where it was killed */
	uint64_t	work;			/* CPU time of all its tasks on the fastest node */
	uint64_t	cpu;			/* CPU time used on all its nodes */
	uint64_t	all_run, any_run;	/* sums of k(k-1) and k over time, k of its tasks running */
	uint32_t	size, program, vir, faults, kills;
};

struct sim_stats {
	uint64_t	now;
	uint64_t	events;
	uint64_t	arrivals, starts, kills, messages, wakes, expiries, ends, blocks;
	uint64_t	dispatches, switches, preempts, faults;
	uint64_t	insertions, tails, tops, walks;
	uint64_t	parallel_insertions, by_mes, by_rec, by_flt, promotions, passed, looks;
	uint64_t	credits;		/* insertions on credit */
	uint64_t	de[SIM_DE_MAX];
	uint64_t	epochs, forced_epochs;	/* forced: by epoch_ns */
	uint64_t	stops, resumes;		/* of Set_Memory */
	uint64_t	said, heard, lost;	/* events of Sending_Events, each to each node */
	uint64_t	users, sojourns;	/* arrived local users; gone local users */
	uint64_t	calls;			/* system calls */
	uint64_t	scl[SIM_SCL_MS];	/* by latency, ms */
	double		scl_sum, scl_max;	/* s */
	double		local_wall, local_alone;	/* s, sums over the users, to each one's last whole cycle */
	double		bounded;		/* sum of bounded slowdowns of the users gone ... */
	double		drawn_cpu, drawn_memory;	/* sums over the users */
	double		busy_local, busy_parallel, spun;	/* s of CPU */
	double		window;			/* s, in which ... */
	double		load, load_square;	/* ... mean ready and running tasks of a node, and mean of the square */
	double		memory, memory_square;	/* ... mean part of memory asked for by tasks not stopped */
	double		asked, withheld;	/* ... the same by parallel tasks, those stopped included; by those stopped */
	double		mpl;			/* ... mean parallel jobs at once */
	double		short_of;		/* part of the nodes' time with a user in which Mem > M, stopped tasks included */
	uint32_t	most_jobs;		/* parallel jobs at once */
	uint32_t	least_jobs;		/* the governor's lowest bound */
	double		stopped;		/* task seconds in which a parallel task was stopped */
};

struct sim_node_view {
	double		weight;
	uint64_t	quantum_local, quantum_parallel, quantum_slowed;	/* ns, by Alg. 2 as of now */
	uint32_t	mpl, frames, m_paral, m_local;
	uint32_t	local_user;
};

/* One task of a node. */
struct sim_view {
	uint32_t	job, class_, state;	/* state: enum contract_state */
	uint32_t	vir, res, wrk, faults;
	uint64_t	cpu_ns;
};

enum contract_state { STATE_FREE, STATE_SLOWED, STATE_STOPPED };

/* Something that happens to one node's contract, in engines that check themselves. */
enum contract_what { OP_HOLD, OP_RELEASE, OP_USER, OP_WANTS, OP_RECEIVE, OP_TICK };
struct contract_op {
	uint64_t	now;
	uint64_t	wants;			/* OP_WANTS: set of jobs */
	uint32_t	what, job;
	uint32_t	node, seq, local, stop;	/* OP_RECEIVE; OP_USER: local */
};
struct contract_said {
	uint32_t	op, job, seq, local, stop;
};
struct memory_job {
	uint32_t	held, res, need, elsewhere;
};
struct memory_epoch {
	uint32_t	local_user, swapping, pool, free;
	struct memory_job jobs[8];
};

typedef struct sim sim;
sim *sim_new(const struct sim_params *params, const struct sim_script *script, uint32_t nr_script);
void sim_free(sim *s);
int sim_run(sim *s, uint64_t until, uint64_t events);
const struct sim_stats *sim_stats(sim *s);
void sim_records(sim *s, struct sim_record *records);
const char *sim_trouble(sim *s);
void sim_node(sim *s, uint32_t node, struct sim_node_view *view);
uint32_t sim_node_tasks(sim *s, uint32_t node, struct sim_view *views, uint32_t room);
uint32_t sim_log(sim *s, struct sim_decision *log, uint32_t room);	/* decisions since the last call */
/* Rules by themselves, for tests. SIM_CHECK only, else -1. States and stops: 8 for each step. */
int sim_contract(const struct contract_op *ops, uint32_t n, uint64_t lease, uint32_t *states,
		 struct contract_said *said, uint32_t room);
int sim_set_memory(const struct memory_epoch *epochs, uint32_t n, uint32_t *stops);
uint64_t sim_set_quantum(uint64_t quantum, double weight, double share_l, uint32_t on, uint32_t local_user,
			 uint32_t parallel, uint32_t state);
/* cdef end */

#endif /* SIM_H */
