/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Each CPU's next event, least first. For engines whose struct sim has
 * tree[2 * leaves], leaves (a power of two, at least 2) and shift = log2(leaves).
 */
#ifndef SIM_TOURNAMENT_H
#define SIM_TOURNAMENT_H

/* A tournament for so many nodes, without events yet; -1: no memory. */
static int make_tournament(struct sim *s, uint32_t nodes)
{
	for (s->leaves = 1; s->leaves < nodes; s->leaves *= 2)
		s->shift++;
	if (s->leaves < 2)
		s->leaves = 2;
	s->tree = malloc(2ULL * s->leaves * sizeof(*s->tree));
	if (!s->tree)
		return -1;
	memset(s->tree, 0xff, 2ULL * s->leaves * sizeof(*s->tree));
	return 0;
}

/* The tournament: the node whose CPU has the earliest event, ties to the lowest node. */
static inline void cpu_at(struct sim *s, uint32_t node, uint64_t time)
{
	uint32_t i = s->leaves + node;
	uint64_t least = time == NEVER ? NEVER : time << s->shift | node;

	s->tree[i] = least;
	for (; i > 1; i >>= 1) {
		uint64_t other = s->tree[i ^ 1];

		least = other < least ? other : least;
		s->tree[i >> 1] = least;
	}
}

/* For loop.h: how many bits a time may have, of which the tree keeps all but the node's. */
static inline uint32_t clock_bits(const struct sim *s)
{
	return 63 - s->shift;
}

#endif /* SIM_TOURNAMENT_H */
