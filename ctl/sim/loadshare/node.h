/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A stretch: the time on a node while its jobs stay the same.
 *
 * Round robin, faults and the FIFO pager repeat themselves until a job comes,
 * goes or grows, so a stretch is computed, not played: each job has a share of
 * the CPU and a part of the time for which it awaits pages.
 *
 * Known demands (sec. 2.2.1). All jobs fault alike, every b = 1/rate of CPU
 * time (B-LS-1, evenly spread), so they go round together: n jobs need n
 * bursts of the CPU and n times 10 ms of the pager, and the slower of both
 * sets the pace. A job that is alone does one after the other.
 *
 * Unknown demands (sec. 3.2). The node has R_p(Q_o, N_io) faults each second,
 * split among its jobs by weight (B-LS-17). Job i has lambda_i faults and is suspended for lambda_i (10 ms + W) of each
 * second. W is the wait at a FIFO server of constant service time (M/D/1), at most for a page of every other job. At
 * R_p = 100/s the pager is saturated; a job that thrashes keeps its part of `useful`. The CPU is shared equally among
 * the jobs that can use it.
 */
#ifndef SIM_NODE_H
#define SIM_NODE_H

#include "policy.h"

static uint64_t share(double x)
{
	return x <= 0 ? 0 : x >= 1 ? ONE : (uint64_t)(x * (double)ONE);
}

/* --- known demands --- */

static void rates_known(struct sim *s, struct node *n)
{
	const struct sim_params *p = &s->par;
	double jobs = n->now.jobs, cpu, paging = 0, per_ns = 0;
	double over = (double)n->now.load / (double)p->memory;

	if (n->now.load < p->memory || p->sigma == 0) {
		cpu = jobs < 2 ? 1 : (double)p->quantum_ns / (double)(p->quantum_ns + p->switch_ns) / jobs;
	} else {
		double burst = 1e9 / (p->sigma * over * p->mips), fault = (double)p->fault_ns, turn = burst, cycle;

		per_ns = 1 / burst;
		if (jobs > 1)	/* each quantum begins with a switch */
			turn += (double)p->switch_ns * (double)(1 + (uint64_t)(burst / (double)p->quantum_ns));
		cycle = jobs < 2 ? turn + fault : jobs * (turn > fault ? turn : fault);
		cpu = burst / cycle;
		paging = jobs < 2 || turn > fault ? fault / cycle : (cycle - turn) / cycle;
	}
	n->faults_s = 0;
	for (uint32_t j = n->jobs.head; j != NIL; j = s->state[j].next) {
		struct job *t = &s->state[j];

		t->cpu_share = share(cpu);
		t->paging_share = share(paging);
		t->faults_s = cpu * per_ns * 1e9;
		n->faults_s += t->faults_s;
	}
}

/* --- unknown demands --- */

double sim_fault_rate(const struct sim_params *p, double q, double ios)
{
	double memory = p->r_max - p->alpha / (p->beta * q * q + p->gamma * q + p->delta);
	double io = p->eta + p->mu * ios;

	if (p->rate == RATE_LITERAL)
		return q > 0 && memory + io > 0 ? memory + io : 0;
	if (q <= 0 || memory < 0)
		memory = 0;
	if (io < 0 || (q <= 0 && p->rate == RATE_CLAMPED))
		io = 0;
	return memory + io;
}

static double ios_of(const struct sim *s, uint32_t j)
{
	const struct sim_job *job = &s->jobs[j];

	return (double)job->ios * (double)s->state[j].done / (double)job->cpu;
}

/* I/O time for each ns of CPU time */
static double io_ratio(const struct sim *s, uint32_t j)
{
	return (double)s->jobs[j].io / (double)s->jobs[j].cpu;
}

/* MB that a job has grown by in a second at this share of the CPU */
static double growth(const struct sim *s, uint32_t j, double cpu)
{
	const struct sim_job *job = &s->jobs[j];

	if (s->state[j].steps == STEPS)
		return 0;
	return (double)(job->high - job->low) / (double)job->ramp * 1e9 * cpu / 1024;
}

/* Split the faults, given the CPU shares: sets faults_s and paging_share of each job. */
static void split_faults(struct sim *s, struct node *n)
{
	const struct sim_params *p = &s->par;
	double jobs = n->now.jobs, service = (double)p->fault_ns * 1e-9, busy = n->faults_s * service;
	double most = (jobs - 1) * service, wait = most, all = 0;

	if (busy < 1 && busy * service / (2 * (1 - busy)) < most)
		wait = busy * service / (2 * (1 - busy));	/* M/D/1 */
	for (uint32_t j = n->jobs.head; j != NIL; j = s->state[j].next) {
		struct job *t = &s->state[j];

		t->faults_s = growth(s, j, (double)t->cpu_share / (double)ONE) + p->stable * (double)t->ws / 1024;
		all += t->faults_s;
	}
	for (uint32_t j = n->jobs.head; j != NIL; j = s->state[j].next) {
		struct job *t = &s->state[j];
		double paging, most_paging = 1 - p->useful / jobs;

		t->faults_s = all > 0 ? n->faults_s * t->faults_s / all : n->faults_s / jobs;
		paging = t->faults_s * (service + wait);
		if (paging > most_paging) {
			t->faults_s = most_paging / (service + wait);
			paging = most_paging;
		}
		t->paging_share = share(paging);
	}
}

/* Share the CPU equally among the jobs, none getting more than paging and I/O leave it time for. */
static void share_cpu(struct sim *s, struct node *n)
{
	const struct sim_params *p = &s->par;
	uint32_t open = n->now.jobs;
	double left = open < 2 ? 1 : (double)p->quantum_ns / (double)(p->quantum_ns + p->switch_ns);
	int again = 1;

	for (uint32_t j = n->jobs.head; j != NIL; j = s->state[j].next)
		s->state[j].limited = 0;
	while (again && open) {
		double equal = left / open;

		again = 0;
		for (uint32_t j = n->jobs.head; j != NIL; j = s->state[j].next) {
			struct job *t = &s->state[j];
			double limit = (double)(ONE - t->paging_share) / (double)ONE / (1 + io_ratio(s, j));

			if (t->limited)
				continue;
			t->cpu_share = share(limit < equal ? limit : equal);
			if (limit < equal) {
				t->limited = 1;
				left -= limit;
				open--;
				again = 1;
			}
		}
	}
}

static void rates_unknown(struct sim *s, struct node *n)
{
	double ios = 0;
	int growing = 0;

	for (uint32_t j = n->jobs.head; j != NIL; j = s->state[j].next) {
		ios += ios_of(s, j);
		growing |= s->state[j].steps < STEPS;
		s->state[j].cpu_share = ONE / n->now.jobs;
	}
	n->faults_s = sim_fault_rate(&s->par, n->oversize, ios);
	/* growth makes faults, which slow growth: three rounds settle it */
	for (int round = n->faults_s > 0 && growing ? 3 : 1; round; round--) {
		split_faults(s, n);
		share_cpu(s, n);
	}
}

/* --- stretches --- */

/* CPU time at which a job's memory grows next, or at which it ends. */
static uint64_t next_step(const struct sim *s, uint32_t j)
{
	const struct sim_job *job = &s->jobs[j];
	uint32_t steps = s->state[j].steps;
	uint64_t at;

	if (steps == STEPS)
		return job->cpu;
	at = (uint64_t)((wide)job->ramp * (steps + 1) / STEPS);
	return at < job->cpu ? at : job->cpu;
}

/* Account the stretch until now. The node has not changed. */
static void settle(struct sim *s, struct node *n)
{
	uint64_t dt = s->now - n->since;

	if (!dt)
		return;
	n->since = s->now;
	if (n->faults_s > 0)
		s->stats.oversized_ns += dt;
	for (uint32_t j = n->jobs.head; j != NIL; j = s->state[j].next) {
		const struct sim_job *job = &s->jobs[j];
		struct job *t = &s->state[j];
		struct sim_record *r = &s->records[j];
		uint64_t cpu = (uint64_t)((wide)dt * t->cpu_share / ONE), paging, io, left = job->cpu - t->done;

		cpu = cpu < left ? cpu : left;
		t->done += cpu;
		io = (uint64_t)((wide)t->done * job->io / job->cpu) - t->io_done;
		t->io_done += io;
		paging = (uint64_t)((wide)dt * t->paging_share / ONE);
		if (cpu + io + paging > dt)
			paging = cpu + io > dt ? 0 : dt - cpu - io;
		r->cpu += cpu;
		r->io += io;
		r->paging += paging;
		r->queue += (int64_t)(dt - cpu - io - paging);
		r->faults += t->faults_s * (double)dt * 1e-9;
		s->work += cpu;
	}
}

/* Should this node migrate a job? From which Q_o on depends on MT (sec. 3.3.2, B-LS-21). */
static int over_threshold(const struct sim_params *p, const struct node *n)
{
	if (p->policy < POLICY_PF_RATE || n->oversize <= 0)
		return 0;
	return n->oversize >= (p->mt > 0 ? p->mt + p->internal : p->mt);
}

static void plan_check(struct sim *s, struct node *n)
{
	const struct sim_params *p = &s->par;
	uint64_t at;

	if (!over_threshold(p, n)) {
		n->check = NEVER;
		return;
	}
	if (n->check != NEVER)
		return;
	at = s->now + (p->mt == 0 ? p->delay_ns : 0);
	if (n->last_check != NEVER && at < n->last_check + p->check_ns)
		at = n->last_check + p->check_ns;
	n->check = (at + p->tick_ns - 1) / p->tick_ns * p->tick_ns;
}

/* A stretch begins: shares, and when it ends. */
static void begin(struct sim *s, struct node *n)
{
	uint64_t soonest = NEVER;

	n->oversize = oversize(&s->par, n->now.load);
	n->faults_s = 0;
	if (n->now.jobs && s->par.unknown)
		rates_unknown(s, n);
	else if (n->now.jobs)
		rates_known(s, n);
	for (uint32_t j = n->jobs.head; j != NIL; j = s->state[j].next) {
		struct job *t = &s->state[j];
		wide need = (wide)(next_step(s, j) - t->done) * ONE, wait;

		if (!t->cpu_share)
			t->cpu_share = 1;
		wait = (need + t->cpu_share - 1) / t->cpu_share;
		if (wait > NEVER / 2)
			s->trouble = "a job would take longer than the clock's range";
		else if (s->now + (uint64_t)wait < soonest)
			soonest = s->now + (uint64_t)wait;
	}
	n->milestone = soonest;
	plan_check(s, n);
	due_at(s, (uint32_t)(n - s->nodes), n->milestone < n->check ? n->milestone : n->check);
}

#endif /* SIM_NODE_H */
