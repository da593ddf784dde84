/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * e^x and ln x that are the same on every machine.
 *
 * No function comes from libm. Each is a power of two or a table, and a polynomial, made of IEEE additions,
 * multiplications and divisions alone, which every machine rounds alike; the compiler is told not to fuse them
 * (-ffp-contract=off).
 */
#ifndef SIM_EXP_LOG_H
#define SIM_EXP_LOG_H

#include <stdint.h>
#include <string.h>

#define LN2 0.693147180559945309417232121458
#define LN2_HIGH 0.693147180369123816490	/* of few bits: a multiple by a small whole number is exact */
#define LN2_LOW 1.90821492927058770002e-10

static double log_c[128], log_inv[128];

/* Before the first logarithm: ln of the middles of 128 equal parts of [1, 2), by 2 atanh((c-1)/(c+1)). */
static void log_tables(void)
{
	if (log_inv[127])
		return;
	for (int i = 0; i < 128; i++) {
		double c = 1 + (i + 0.5) / 128, y = (c - 1) / (c + 1), square = y * y, sum = 0;

		for (int k = 45; k >= 1; k -= 2)
			sum = sum * square + 1.0 / k;
		log_c[i] = 2 * y * sum;
		log_inv[i] = 1 / c;
	}
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

/* ln(1 + r), |r| < 1/256 */
static inline double log_rest(double r)
{
	return r * (1 + r * (-1.0 / 2 + r * (1.0 / 3 + r * (-1.0 / 4 + r * (1.0 / 5 - r * (1.0 / 6))))));
}

static inline double ln(double x)
{
	double c, r;
	int e = log_parts(x, &c, &r);

	return e * LN2 + c + log_rest(r);
}

/* e^x for 0 <= x < 700, by its series on [-ln 2 / 2, ln 2 / 2]; relative error below 1e-15 */
static inline double exponent(double x)
{
	static const double inverse[] = { 0, 1, 1.0 / 2, 1.0 / 3, 1.0 / 4, 1.0 / 5, 1.0 / 6, 1.0 / 7, 1.0 / 8,
					  1.0 / 9, 1.0 / 10, 1.0 / 11, 1.0 / 12, 1.0 / 13 };
	int k = (int)(x * (1 / LN2) + 0.5);
	double r = x - k * LN2_HIGH - k * LN2_LOW, sum = 1, power;
	uint64_t bits = (uint64_t)(1023 + k) << 52;

	for (int i = 13; i >= 1; i--)
		sum = 1 + sum * r * inverse[i];
	memcpy(&power, &bits, 8);
	return sum * power;
}

#endif /* SIM_EXP_LOG_H */
