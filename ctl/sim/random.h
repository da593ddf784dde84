/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random numbers that are the same on every machine.
 *
 * A stream is SplitMix64: a counter that grows by an odd constant, mixed. Each
 * task has streams of its own, one per purpose, seeded by (seed, job, rank,
 * purpose): the third slice of task 7 is the same whatever the policy did
 * before, so policies are compared on common random numbers.
 *
 * No function comes from libm. The logarithm is a table and a polynomial, made of IEEE additions, multiplications and
 * divisions alone, which every machine rounds alike; the compiler is told not to fuse them (-ffp-contract=off).
 */
#ifndef SIM_RANDOM_H
#define SIM_RANDOM_H

#include <stdint.h>
#include <string.h>

enum purpose {
	DRAW_ARRIVAL, DRAW_CLASS, DRAW_SIZE, DRAW_TC, DRAW_MEMORY, DRAW_MAP,	/* of the workload */
	DRAW_SLICE, DRAW_MESSAGE, DRAW_PAGE, DRAW_PHASE,			/* of a task */
	NR_PURPOSES,
};

#define LN2 0.693147180559945309417232121458

static double log_c[128], log_inv[128];

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

/* ln of the middles of 128 equal parts of [1, 2), by 2 atanh((c-1)/(c+1)) */
static void log_tables(void)
{
	for (int i = 0; i < 128; i++) {
		double c = 1 + (i + 0.5) / 128, y = (c - 1) / (c + 1), square = y * y, sum = 0;

		for (int k = 45; k >= 1; k -= 2)
			sum = sum * square + 1.0 / k;
		log_c[i] = 2 * y * sum;
		log_inv[i] = 1 / c;
	}
}

/* uniform in (0, 1] */
static inline double uniform(uint64_t *stream)
{
	return (double)((draw(stream) >> 11) + 1) * 0x1p-53;
}

/* ln x = e ln 2 + c + ln(1 + r), |r| < 1/256; returns e */
static inline int log_parts(double x, double *c, double *r)
{
	uint64_t bits;
	double m;
	int e, i;

	memcpy(&bits, &x, 8);
	e = (int)(bits >> 52) - 1023;
	i = bits >> 45 & 127;
	bits = (bits & 0xfffffffffffffULL) | 0x3ff0000000000000ULL;
	memcpy(&m, &bits, 8);
	*c = log_c[i];
	*r = m * log_inv[i] - 1;
	return e;
}

/* -ln u, u uniform in (0, 1]: exponential of mean 1. Error below 1e-14. */
static inline double exponential(uint64_t *stream)
{
	double c, r;
	int e = log_parts((double)((draw(stream) >> 11) + 1), &c, &r);

	r = r * (1 + r * (-1.0 / 2 + r * (1.0 / 3 + r * (-1.0 / 4 + r * (1.0 / 5 - r * (1.0 / 6))))));
	return (53 - e) * LN2 - c - r;
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
			double c, r, ln;
			int e = log_parts(s, &c, &r);

			ln = e * LN2 + c + r * (1 + r * (-1.0 / 2 + r * (1.0 / 3 - r * (1.0 / 4))));
			return x * __builtin_sqrt(-2 * ln / s);
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
