/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The percentile of every p99, as in ctl/percentile.py: nearest rank. */
#ifndef PROGS_PERCENTILE_H
#define PROGS_PERCENTILE_H

/* The index in n sorted samples of the smallest that `percent` of them do not exceed. */
static inline long rank_of(long n, long percent)
{
	long rank = (n * percent + 99) / 100;

	return rank ? rank - 1 : 0;
}

#endif /* PROGS_PERCENTILE_H */
