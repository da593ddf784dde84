/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The policies: where a job goes, which job leaves, and to which node.
 *
 * All that they know is in the views. Ties go to the lowest number. Nodes are
 * alike, so the node with the most free memory passes wherever another does
 * (B-LS-20).
 */
#ifndef SIM_POLICY_H
#define SIM_POLICY_H

#include "state.h"

static inline double oversize(const struct sim_params *p, uint64_t load)
{
	return ((double)load - (double)p->memory) / (double)p->memory;
}

/* --- known demands (LoadShare sec. 2.1) --- */

/* The load index of a node: it is compared with the threshold, and it orders the nodes by load. */
static double load_index(const struct sim_params *p, const struct sim_view *v, uint64_t load)
{
	uint64_t ml = v->load + (p->include_arrival && v->jobs ? load : 0);
	int full = ml >= p->memory;

	switch (p->policy) {
	case POLICY_MEM:
		return (double)ml;
	case POLICY_HP:
		return full ? p->ct : v->jobs;
	case POLICY_HT:
		return full ? v->jobs * ((double)v->request / (double)p->memory) : v->jobs;
	default:
		return v->jobs;
	}
}

static int accepts(const struct sim_params *p, const struct sim_view *v, uint64_t load)
{
	double threshold = p->policy == POLICY_MEM ? (double)p->memory : p->ct;

	return load_index(p, v, load) < threshold;
}

static int choose_known(const struct sim_params *p, const struct sim_view *views, uint32_t here, uint64_t load)
{
	double least = 0;
	int best = -1;

	if (p->policy == POLICY_NONE || accepts(p, &views[here], load))
		return (int)here;
	for (uint32_t k = 0; k < p->nodes; k++) {
		double index = load_index(p, &views[k], load);

		if (k != here && (best < 0 || index < least)) {
			least = index;
			best = (int)k;
		}
	}
	if (best >= 0 && accepts(p, &views[best], load))
		return best;
	return p->place && (p->policy == POLICY_CPU || p->policy == POLICY_MEM) ? best : -1;
}

/* --- unknown demands (sec. 3.3) --- */

/* The other node with the largest free memory and fewer than CT jobs. */
static int freest(const struct sim_params *p, const struct sim_view *views, uint32_t here)
{
	int best = -1;

	for (uint32_t k = 0; k < p->nodes; k++)
		if (k != here && views[k].jobs < p->ct && (best < 0 || views[k].load < views[best].load))
			best = (int)k;
	return best;
}

static int choose_unknown(const struct sim_params *p, const struct sim_view *views, uint32_t here)
{
	double q = oversize(p, views[here].load);
	int k;

	if (p->policy == POLICY_NONE)
		return (int)here;
	if (p->policy == POLICY_BLOCKING)
		return q < p->block_at ? (int)here : -1;
	if (q < p->mt && views[here].jobs < p->ct)
		return (int)here;
	k = freest(p, views, here);
	return k >= 0 && oversize(p, views[k].load) < p->mt ? k : -1;
}

int sim_choose(const struct sim_params *p, const struct sim_view *views, uint32_t here, uint64_t load)
{
	return p->unknown ? choose_unknown(p, views, here) : choose_known(p, views, here, load);
}

/* The target of a job with working set ws. */
int sim_target(const struct sim_params *p, const struct sim_view *views, uint32_t here, uint64_t ws)
{
	int k = freest(p, views, here), fits;

	if (k < 0)
		return -1;
	fits = views[k].load + ws < p->memory;
	if (p->literal_target)
		return fits || oversize(p, views[k].load) < p->mt ? k : -1;
	return fits && oversize(p, views[k].load + ws) < p->mt ? k : -1;
}

/* Is the job old enough that moving it pays (B-LS-23)? */
static uint64_t move_ns(const struct sim_params *p, uint64_t ws)
{
	return p->remote_ns + (uint64_t)((double)ws * p->kb_ns);
}

static double part(double of, double most)
{
	return most > 0 ? of / most : 0;
}

static double weight(const struct sim_task *t, const struct sim_task *most)
{
	return (part((double)t->age_ns, (double)most->age_ns) + part(t->faults_s, most->faults_s)
		+ part((double)t->ws, (double)most->ws) + part(t->ios, most->ios)) / 4;	/* eq. 3.5 */
}

/* The job to be migrated; -1: none. Of equals, the job that came first. */
int sim_identify(const struct sim_params *p, const struct sim_task *tasks, uint32_t n)
{
	struct sim_task most = { 0 };
	double highest = 0;
	int best = -1;

	for (uint32_t i = 0; i < n; i++) {
		const struct sim_task *t = &tasks[i];

		most.age_ns = t->age_ns > most.age_ns ? t->age_ns : most.age_ns;
		most.ws = t->ws > most.ws ? t->ws : most.ws;
		most.faults_s = t->faults_s > most.faults_s ? t->faults_s : most.faults_s;
		most.ios = t->ios > most.ios ? t->ios : most.ios;
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct sim_task *t = &tasks[i];
		double value = p->policy == POLICY_PF_RATE ? t->faults_s
			     : p->policy == POLICY_WORKSIZE ? (double)t->ws
			     : p->policy == POLICY_AGE ? (double)t->age_ns : weight(t, &most);

		if (p->policy == POLICY_AGE && t->age_ns <= move_ns(p, t->ws))
			continue;
		if (best < 0 || value > highest) {
			highest = value;
			best = (int)i;
		}
	}
	return best;
}

#endif /* SIM_POLICY_H */
