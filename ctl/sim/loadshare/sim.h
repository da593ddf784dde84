/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The inputs and outputs of the engine of load sharing, shared with Python.
 *
 * Times are whole nanoseconds of simulated time, memory is KB.
 */
#ifndef SIM_H
#define SIM_H

#include <stdint.h>

/* cdef begin */
enum sim_policy {
	POLICY_NONE,		/* a job runs where it arrives; unknown demands: the newest is killed for want of swap */
	POLICY_CPU,		/* known demands (LoadShare sec. 2.1) */
	POLICY_MEM,
	POLICY_HP,
	POLICY_HT,
	POLICY_BLOCKING,	/* unknown demands (sec. 3.3, 3.5.1) */
	POLICY_PF_RATE,
	POLICY_WORKSIZE,
	POLICY_AGE,
	POLICY_COMBINED,
};

enum sim_rate {			/* R_p of Q_o and N_io (B-LS-10, B-LS-11) */
	RATE_CLAMPED,		/* the sum of both terms, each at least 0; none while Q_o <= 0 */
	RATE_SUM,		/* the I/O term also while Q_o <= 0 */
	RATE_LITERAL,		/* eq. 3.4, at least 0 */
};

enum sim_status {
	SIM_DONE,		/* every job has come and gone */
	SIM_PAUSED,		/* `until` or `events` is reached: call again */
	SIM_BROKEN,		/* see sim_trouble() */
};

/* A model's parameters, in the engine's units; params.py has them with names, ranges and sources. */
struct sim_params {
	uint32_t	policy;			/* enum sim_policy */
	uint32_t	unknown;		/* the second model's fault rule and policies */
	uint32_t	nodes;
	uint32_t	ct;			/* CPU threshold, jobs */
	uint64_t	memory, swap;		/* of a node; memory is what jobs can have */
	uint64_t	fault_ns, quantum_ns, switch_ns;
	uint64_t	remote_ns;		/* r */
	uint64_t	refresh_ns;		/* period of the load information */
	/* known demands */
	double		sigma;			/* page faults per million instructions where allocation = load */
	double		mips;
	uint32_t	include_arrival;	/* the arriving job's load is part of the test (B-LS-2) */
	uint32_t	place;			/* CPU and MEM: a job that all refuse goes to the best (B-LS-8) */
	/* unknown demands */
	uint32_t	rate;			/* enum sim_rate */
	uint32_t	literal_target;		/* the disjunction as printed (B-LS-19) */
	uint32_t	bus;			/* one migration at a time */
	double		r_max, alpha, beta, gamma, delta, eta, mu;
	double		stable;			/* weight of the working set beside its growth (B-LS-17) */
	double		useful;			/* CPU share of a node all of whose jobs thrash */
	double		mt, internal;		/* memory threshold, and what Q_o must pass it by to migrate where mt > 0 */
	double		block_at;		/* Q_o from which POLICY_BLOCKING blocks */
	uint64_t	delay_ns, tick_ns, check_ns;
	double		kb_ns;			/* transfer time of 1 KB */
};

/* A job. Its memory grows from `low` to `high` in equal steps while its first `ramp` ns of CPU are used. */
struct sim_job {
	uint64_t	arrives;
	uint64_t	cpu, io;		/* demands; the I/O time is spread evenly over the CPU time */
	uint64_t	request;		/* declared memory */
	uint64_t	low, high, ramp;
	uint32_t	node, ios;		/* ios: reads and writes */
};

/* The outcome of a job: arrived + cpu + io + queue + paging + migration = ended. */
struct sim_record {
	uint64_t	arrived, ended;		/* ended 0: still there, or killed */
	uint64_t	cpu, io, paging, migration;
	int64_t		queue;			/* in hold and ready queues, and context switches */
	double		faults;
	uint32_t	node, moves, submissions, killed;
};

struct sim_stats {
	uint64_t	now, events;
	uint64_t	done, killed, holds, submissions, moves, checks, retries;
	uint64_t	oversized_ns;		/* node time with page faults */
	double		area;			/* jobs x s */
	double		wall, cpu, io, queue, paging, migration;	/* s, of all jobs that have ended */
	double		slowdown;		/* sum of wall / (cpu + io) over these */
	double		faults;
};

/* A node as the policies see it. */
struct sim_view {
	uint64_t	load, request;		/* KB: of running jobs, and what these declared */
	uint32_t	jobs;
};

/* A job of a node as the policies see it. */
struct sim_task {
	uint64_t	ws, age_ns;
	double		faults_s;		/* R_p(i) */
	double		ios;			/* N_io(i) */
	double		cpu_share, paging_share;
	uint32_t	job;
};

typedef struct sim sim;
sim *sim_new(const struct sim_params *params, const struct sim_job *jobs, uint32_t nr_jobs);
void sim_free(sim *s);
int sim_run(sim *s, uint64_t until, uint64_t events);
const struct sim_stats *sim_stats(sim *s);
const struct sim_record *sim_records(sim *s);
const char *sim_trouble(sim *s);
uint32_t sim_tasks(sim *s, uint32_t node, struct sim_task *tasks, uint32_t room);

/* The policies' choices: a node, or -1 for none; the index of a task, or -1 */
int sim_choose(const struct sim_params *params, const struct sim_view *views, uint32_t here, uint64_t load);
int sim_target(const struct sim_params *params, const struct sim_view *views, uint32_t here, uint64_t ws);
int sim_identify(const struct sim_params *params, const struct sim_task *tasks, uint32_t n);
double sim_fault_rate(const struct sim_params *params, double oversize, double ios);

/* Workloads. Lognormal demands with means exactly as given, in a day that has `ratio` times the arrivals from 8 to 18 h */
void sim_month(uint64_t seed, uint32_t n, uint32_t days, double cpu_s, double cpu_cv, double kb, double kb_cv,
	       double ratio, struct sim_job *jobs);
/* n instants in (0, end_s] of density exp(-(ln(t/unit) - mu)^2 / (2 sigma^2)), and for each a node and a program */
void sim_burst(uint64_t seed, uint32_t n, double end_s, double mu, double sigma, double unit_s, uint32_t nodes,
	       uint32_t programs, const double *shares, struct sim_job *jobs, uint32_t *program);
/* cdef end */

#endif /* SIM_H */
