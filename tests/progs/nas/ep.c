// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Independent computing, in the style of EP: a table of random number generators, each of which takes WORK steps in a
 * round; the ranks speak once, at the end, to sum up. Right: some generators, computed anew, are where they should be.
 */
#include "nas.h"

#define CHECKED 16 /* generators that are computed anew */

static uint64_t *table;
static long cells;

static uint64_t seed(long cell)
{
	return (cell + 1) * 0x9e3779b97f4a7c15u + rank;
}

static uint64_t steps(uint64_t state, long count)
{
	for (; count > 0; count--)
		state = state * 6364136223846793005u + 1442695040888963407u;
	return state;
}

static void prepare(char *memory, size_t bytes)
{
	table = (uint64_t *)memory;
	cells = bytes / sizeof(*table);
	for (long cell = 0; cell < cells; cell++)
		table[cell] = seed(cell);
}

static void one_round(long number)
{
	(void)number;
	for (long cell = 0; cell < cells; cell++)
		table[cell] = steps(table[cell], work);
}

static int right(long rounds)
{
	uint64_t sum = 0, all;
	int ok = 1;

	for (long cell = 0; cell < cells; cell++)
		sum += table[cell];
	WAITING(MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
	for (int i = 0; i < CHECKED; i++) {
		long cell = i * (cells - 1) / (CHECKED - 1);

		ok &= table[cell] == steps(seed(cell), rounds * work);
	}
	return ok;
}
