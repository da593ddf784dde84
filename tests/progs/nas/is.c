// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Integer sort, in the style of IS: keys are made anew and counted, and a part of them goes to the ranks they belong to,
 * all to all. Right: every key that came belongs here, and no key was lost.
 */
#include "nas.h"

#define PARTS 16 /* a round redistributes one of so many parts of the keys */

static uint32_t *keys, *out, *in;
static long all_keys, part;
static int *counts, *came, *from, *to;
static int sound = 1;

static int owner(uint32_t key)
{
	return ((uint64_t)key * ranks) >> 32;
}

static void prepare(char *memory, size_t bytes)
{
	/* keys | out: a part | in: two parts, more than comes of keys that are evenly spread */
	all_keys = bytes / sizeof(*keys) * PARTS / (PARTS + 3);
	part = all_keys / PARTS;
	keys = (uint32_t *)memory;
	out = keys + all_keys;
	in = out + part;
	free(counts);
	sound = 1;
	counts = calloc(4 * ranks, sizeof(int));
	came = counts + ranks;
	from = came + ranks;
	to = from + ranks;
	for (long i = 0; i < all_keys; i++)
		keys[i] = (i * ranks + rank) * 2654435761u;
}

static void one_round(long number)
{
	uint32_t *mine = keys + number % PARTS * part;
	long total = 0, sent[2], got[2];
	int *next = calloc(ranks, sizeof(int));

	for (long i = 0; i < all_keys; i++) {
		uint32_t key = keys[i];

		for (long turn = 0; turn < work; turn++)
			key = key * 1664525u + 1013904223u;
		keys[i] = key;
	}
	memset(counts, 0, ranks * sizeof(int));
	for (long i = 0; i < part; i++)
		counts[owner(mine[i])]++;
	WAITING(MPI_Alltoall(counts, 1, MPI_INT, came, 1, MPI_INT, MPI_COMM_WORLD));
	for (int i = 0; i < ranks; i++) {
		from[i] = i ? from[i - 1] + counts[i - 1] : 0;
		to[i] = total;
		total += came[i];
		next[i] = from[i];
	}
	if (total > 2 * part) {
		fprintf(stderr, "is: %ld keys came, %ld are too many\n", total, 2 * part);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	for (long i = 0; i < part; i++)
		out[next[owner(mine[i])]++] = mine[i];
	WAITING(MPI_Alltoallv(out, counts, from, MPI_UINT32_T, in, came, to, MPI_UINT32_T, MPI_COMM_WORLD));
	for (long i = 0; i < total; i++)
		sound &= owner(in[i]) == rank;
	sent[0] = part;
	sent[1] = total;
	WAITING(MPI_Allreduce(sent, got, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
	sound &= got[0] == got[1];
	free(next);
}

static int right(long rounds)
{
	(void)rounds;
	return sound;
}
