/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A node's memory: the process that ran least recently loses pages.
 *
 * A process's resident pages are the ones it touched last, so it misses as the
 * walk's stack distances say. A new process has touched all its pages (B-PP-3).
 * A new page takes a free frame, else a frame of the process that ran least recently and has frames, its own process
 * last.
 */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include "state.h"

static void unlink_process(struct sim *s, struct node *n, uint32_t index)
{
	struct process *p = &s->processes[index];

	if (p->older == NIL)
		n->oldest = p->newer;
	else
		s->processes[p->older].newer = p->newer;
	if (p->newer == NIL)
		n->newest = p->older;
	else
		s->processes[p->newer].older = p->older;
}

static void link_newest(struct sim *s, struct node *n, uint32_t index)
{
	struct process *p = &s->processes[index];

	p->older = n->newest;
	p->newer = NIL;
	if (n->newest == NIL)
		n->oldest = index;
	else
		s->processes[n->newest].newer = index;
	n->newest = index;
}

/* Of the processes from *victim on, the first that has a page loses one. The victim is never beyond the newest process,
 * which asks. */
static inline void take_page(struct sim *s, uint32_t *victim, uint32_t for_)
{
	while (*victim != for_ && !s->processes[*victim].res)
		*victim = s->processes[*victim].newer;
	if (*victim == for_)
		return;		/* its own: as many as before */
	s->processes[*victim].res--;
	s->processes[for_].res++;
	s->stats.stolen++;
}

/* A process comes, and touches all its pages. */
static void memory_enter(struct sim *s, uint32_t index)
{
	struct process *p = &s->processes[index];
	struct node *n = &s->nodes[p->node];
	uint32_t victim;

	link_newest(s, n, index);
	p->res = p->pages < n->free ? p->pages : n->free;
	n->free -= p->res;
	for (victim = n->oldest; victim != index && p->res < p->pages; victim = s->processes[victim].newer) {
		uint32_t of = s->processes[victim].res, want = p->pages - p->res;
		uint32_t taken = of < want ? of : want;

		s->processes[victim].res -= taken;
		p->res += taken;
		s->stats.stolen += taken;
	}
}

static void memory_leave(struct sim *s, uint32_t index)
{
	struct process *p = &s->processes[index];
	struct node *n = &s->nodes[p->node];

	unlink_process(s, n, index);
	n->free += p->res;
}

/* A page of the running, newest, process comes in. */
static inline void memory_load(struct sim *s, struct node *n, uint32_t index, uint32_t *victim)
{
	if (n->free) {
		n->free--;
		s->processes[index].res++;
	} else {
		take_page(s, victim, index);
	}
}

static inline void check_memory(struct sim *s, uint32_t node)
{
#ifdef SIM_CHECK
	struct node *n = &s->nodes[node];
	uint64_t pages = n->free;
	uint32_t before = NIL, load = 0;

	for (uint32_t i = n->oldest; i != NIL; before = i, i = s->processes[i].newer, load++) {
		CHECK(s, s->processes[i].older == before && s->processes[i].node == node, "a node's list is torn");
		CHECK(s, s->processes[i].res <= s->processes[i].pages, "a process has more pages than it has");
		pages += s->processes[i].res;
	}
	CHECK(s, before == n->newest && load == n->load, "a node's processes are not those it counts");
	CHECK(s, pages == s->par.memory, "a page was lost");
#else
	(void)s, (void)node;
#endif
}

#endif /* SIM_MEMORY_H */
