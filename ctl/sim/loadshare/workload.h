/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Workloads that are drawn: a month like those of Table 1 (LoadShare sec.
 * 2.2; lognormal, where the paper has logs) and the arrivals of eq. 3.6
 * (B-LS-24).
 */
#ifndef SIM_WORKLOAD_H
#define SIM_WORKLOAD_H

#include "state.h"

static int by_arrival(const void *a, const void *b)
{
	uint64_t x = ((const struct sim_job *)a)->arrives, y = ((const struct sim_job *)b)->arrives;

	return x < y ? -1 : x > y;
}

/* Lognormal of mean 1. */
static double lognormal(uint64_t *stream, double cv)
{
	double square = ln(1 + cv * cv), x = __builtin_sqrt(square) * normal(stream) - square / 2;

	return x < 0 ? 1 / exponent(-x) : exponent(x);
}

void sim_month(uint64_t seed, uint32_t n, uint32_t days, double cpu_s, double cpu_cv, double kb, double kb_cv,
	       double ratio, struct sim_job *jobs)
{
	uint64_t arrivals = stream_of(seed, 0, 0, DRAW_ARRIVAL), cpus = stream_of(seed, 0, 0, DRAW_TC);
	uint64_t memories = stream_of(seed, 0, 0, DRAW_MEMORY);
	double by_day = 10 * ratio, all = by_day + 14, cpu = 0, memory = 0;	/* 10 hours of day, 14 of night */

	log_tables();
	for (uint32_t i = 0; i < n; i++) {
		double day = below(&arrivals, days), u = uniform(&arrivals) * all, hour;

		if (u < by_day)
			hour = 8 + u / ratio;
		else
			hour = u - by_day < 8 ? u - by_day : 10 + (u - by_day);
		jobs[i] = (struct sim_job){ .arrives = (uint64_t)((day * 24 + hour) * 3600e9) };
	}
	qsort(jobs, n, sizeof(*jobs), by_arrival);
	for (uint32_t i = 0; i < n; i++) {
		double c = lognormal(&cpus, cpu_cv), m = lognormal(&memories, kb_cv);

		jobs[i].cpu = (uint64_t)(c * 1e9);
		jobs[i].request = (uint64_t)(m * (1 << 20));
		cpu += c;
		memory += m;
	}
	for (uint32_t i = 0; i < n; i++) {
		uint64_t day = jobs[i].arrives / 86400000000000ULL;

		jobs[i].cpu = 1 + (uint64_t)((double)jobs[i].cpu * (cpu_s * n / cpu));
		jobs[i].request = 1 + (uint64_t)((double)jobs[i].request / (1 << 20) * (kb * n / memory));
		jobs[i].node = (uint32_t)(day < days ? day : days - 1);
	}
}

void sim_burst(uint64_t seed, uint32_t n, double end_s, double mu, double sigma, double unit_s, uint32_t nodes,
	       uint32_t programs, const double *shares, struct sim_job *jobs, uint32_t *program)
{
	uint64_t arrivals = stream_of(seed, 1, 0, DRAW_ARRIVAL), places = stream_of(seed, 1, 0, DRAW_MAP);
	uint64_t classes = stream_of(seed, 1, 0, DRAW_CLASS);

	log_tables();
	for (uint32_t i = 0; i < n; ) {
		double t = uniform(&arrivals) * end_s, z = (ln(t / unit_s) - mu) / sigma;

		if (exponential(&arrivals) < z * z / 2)		/* with probability exp(-z^2 / 2) it is one */
			continue;
		jobs[i++] = (struct sim_job){ .arrives = (uint64_t)(t * 1e9) };
	}
	qsort(jobs, n, sizeof(*jobs), by_arrival);
	for (uint32_t i = 0; i < n; i++) {
		double u = uniform(&classes);
		uint32_t k = 0;

		jobs[i].node = below(&places, nodes);
		while (k + 1 < programs && u > shares[k])
			u -= shares[k++];
		program[i] = k;
	}
}

#endif /* SIM_WORKLOAD_H */
