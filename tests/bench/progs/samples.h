/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a benchmark prints of many samples. */
#ifndef SAMPLES_H
#define SAMPLES_H

#include "bench.h"
#include "../../progs/percentile.h"

static inline int order(const void *a, const void *b)
{
	long long x = *(const long long *)a, y = *(const long long *)b;

	return (x > y) - (x < y);
}

/* Sorts n samples, ns, and prints their mean and percentiles; `switched`: context switches meanwhile. */
static inline void print_samples(long long *samples, long n, long long switched)
{
	double sum = 0;

	for (long i = 0; i < n; i++)
		sum += samples[i];
	qsort(samples, n, sizeof(*samples), order);
	printf("{\"value\": %.0f, \"p50\": %lld, \"p99\": %lld, \"max\": %lld, \"samples\": %ld, \"switches\": %.3f}\n",
	       sum / n, samples[rank_of(n, 50)], samples[rank_of(n, 99)], samples[n - 1], n, (double)switched / n);
}

#endif /* SAMPLES_H */
