/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random numbers that are the same on every machine.
 *
 * A stream is SplitMix64: a counter that grows by an odd constant, mixed. Each
 * task has streams of its own, one per purpose, seeded by (seed, job, rank,
 * purpose): the third slice of task 7 is the same whatever the policy did
 * before, so policies are compared on common random numbers.
 *
 * No function comes from libm: logarithms are those of exp_log.h.
 */
#ifndef SIM_RANDOM_H
#define SIM_RANDOM_H

#include <stdint.h>

#include "exp_log.h"

enum purpose {
	DRAW_ARRIVAL, DRAW_CLASS, DRAW_SIZE, DRAW_TC, DRAW_MEMORY, DRAW_MAP,	/* of the workload */
	DRAW_SLICE, DRAW_MESSAGE, DRAW_PAGE, DRAW_PHASE,			/* of a task */
	NR_PURPOSES,
};

static inline uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static inline uint64_t draw(uint64_t *stream)
{
	return mix(*stream += 0x9e3779b97f4a7c15ULL);
}

static uint64_t stream_of(uint64_t seed, uint64_t job, uint64_t rank, enum purpose purpose)
{
	uint64_t z = mix(seed + 0x632be59bd9b4e019ULL);

	z = mix(z ^ (job + 0x9e3779b97f4a7c15ULL));
	return mix(z ^ (rank << 8 | purpose));
}

/* uniform in (0, 1] */
static inline double uniform(uint64_t *stream)
{
	return (double)((draw(stream) >> 11) + 1) * 0x1p-53;
}

/* -ln u, u uniform in (0, 1]: exponential of mean 1. Error below 1e-14. */
static inline double exponential(uint64_t *stream)
{
	double c, r;
	int e = log_parts((double)((draw(stream) >> 11) + 1), &c, &r);

	return (53 - e) * LN2 - c - log_rest(r);
}

static inline uint64_t exponential_ns(uint64_t *stream, double mean)
{
	return (uint64_t)(mean * exponential(stream)) + 1;
}

/* uniform in [0, n), n < 2^32; the bias is below n / 2^64 */
static inline uint32_t below(uint64_t *stream, uint32_t n)
{
	return (uint32_t)((unsigned __int128)draw(stream) * n >> 64);
}

/* standard normal, by the polar method */
static double normal(uint64_t *stream)
{
	for (;;) {
		double x = 2 * uniform(stream) - 1, y = 2 * uniform(stream) - 1, s = x * x + y * y;

		if (s > 0 && s < 1) {
			double c, r, log;
			int e = log_parts(s, &c, &r);

			/* two terms fewer than log_rest(): another sum would make every seed another run */
			log = e * LN2 + c + r * (1 + r * (-1.0 / 2 + r * (1.0 / 3 - r * (1.0 / 4))));
			return x * __builtin_sqrt(-2 * log / s);
		}
	}
}

/* hyper-exponential of two branches with balanced means (cv >= 1); cv 0 is constant */
static inline double hyperexponential(uint64_t *stream, double mean, double cv)
{
	double square = cv * cv, p;

	if (cv < 1)
		return mean;
	p = (1 + __builtin_sqrt((square - 1) / (square + 1))) / 2;
	if (uniform(stream) > p)
		p = 1 - p;
	return mean / (2 * p) * exponential(stream);
}

#endif /* SIM_RANDOM_H */
