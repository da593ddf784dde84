/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Each CPU's next event, least first. For engines whose struct sim has
 * tree[2 * leaves], leaves (a power of two, at least 2) and shift = log2(leaves).
 */
#ifndef SIM_TOURNAMENT_H
#define SIM_TOURNAMENT_H

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

#endif /* SIM_TOURNAMENT_H */
