/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What will happen, the earliest first: a binary heap. No two entries are alike
 * in time and order, so in what sequence they come out does not depend on how
 * they lie here.
 *
 * For engines that have, before they include this: heap_entry, a struct with the
 * time `at` and, of entries at the same time, the `order`.
 */
#ifndef SIM_HEAP_H
#define SIM_HEAP_H

#include "engine.h"

struct heap {
	heap_entry	*entries;
	uint32_t	nr, room;
};

/* An empty one with room for so many entries, at least 1, which grows; -1: no memory. */
static int make_heap(struct heap *h, uint32_t room)
{
	*h = (struct heap){ .entries = malloc(room * sizeof(*h->entries)), .room = room };
	return h->entries ? 0 : -1;
}

/* When the next is due; NEVER: there is none. */
static inline uint64_t heap_next(const struct heap *h)
{
	return h->nr ? h->entries[0].at : NEVER;
}

static inline int heap_before(const heap_entry *a, const heap_entry *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

/* -1: no memory, and the entry is not in it. */
static int heap_add(struct heap *h, heap_entry e)
{
	uint32_t i = h->nr;

	if (i == h->room) {
		heap_entry *more = realloc(h->entries, 2ULL * i * sizeof(*more));

		if (!more)
			return -1;
		h->entries = more;
		h->room = 2 * i;
	}
	h->nr++;
	for (; i && heap_before(&e, &h->entries[(i - 1) / 2]); i = (i - 1) / 2)
		h->entries[i] = h->entries[(i - 1) / 2];
	h->entries[i] = e;
	return 0;
}

/* Take out the next, which there is. */
static heap_entry heap_take(struct heap *h)
{
	heap_entry first = h->entries[0], last = h->entries[--h->nr];
	uint32_t i = 0, child;

	for (; (child = 2 * i + 1) < h->nr; i = child) {
		child += child + 1 < h->nr && heap_before(&h->entries[child + 1], &h->entries[child]);
		if (!heap_before(&h->entries[child], &last))
			break;
		h->entries[i] = h->entries[child];
	}
	h->entries[i] = last;
	return first;
}

#endif /* SIM_HEAP_H */
