/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A node's memory (CSM sec. 3.2, eq. 3, 4, 7): M frames, demand paging, global
 * replacement.
 *
 * Of a task's pages only the number that is resident is known. A running task touches all its pages, so the least
 * recently used page of the node belongs to the task that has not run for longest. Frames freed stay free until a fault
 * takes them.
 *
 * An engine that includes this file must first have: struct task with vir, res, wrk, last_run, pages, neighbour, behind
 * and rq; struct node with tasks, nr_tasks, mem, resident and running; frames(), the number of a node's frames;
 * resident_changed(), called when a task's res changed; and victim(), the task that loses a page when no frame is free.
 */
#ifndef SIM_FRAMES_H
#define SIM_FRAMES_H

/* The missing part of a task's working set, in 1/65536 (CSM eq. 3, B-CSM-1). */
static inline uint32_t missing(const struct task *t)
{
	return t->wrk <= t->res ? 0 : ((uint64_t)(t->wrk - t->res) << 16) / t->wrk;
}

static inline void check_memory(struct sim *s, const struct node *n)
{
#ifdef SIM_CHECK
	uint64_t mem = 0, resident = 0;

	for (uint32_t i = n->tasks; i != NIL; i = s->tasks[i].neighbour) {
		mem += s->tasks[i].vir;
		resident += s->tasks[i].res;
		CHECK(s, s->tasks[i].res <= s->tasks[i].vir, "a task has more pages resident than it has pages");
		CHECK(s, up_to_date(s, &s->tasks[i]), "a fault probability is out of date");
	}
	CHECK(s, mem == n->mem && resident == n->resident, "a node's memory does not add up");
	CHECK(s, resident <= frames(s, n), "more pages are resident than the node has frames");
#else
	(void)s, (void)n;
#endif
}

/* CSM eq. 7: the pages that a new task has at once. If there is no room, the other tasks shrink alike, or the new task
 * has the free pages only. */
static void memory_enter(struct sim *s, struct node *n, uint32_t index)
{
	struct task *t = &s->tasks[index];
	uint64_t room = frames(s, n), others = n->resident;

	n->mem += t->vir;
	t->res = n->mem < room ? t->vir : (uint64_t)t->vir * room / n->mem;
	if (s->par.enter_free && others + t->res > room)
		t->res = room - others;
	if (others + t->res > room) {
		n->resident = 0;
		for (uint32_t i = n->tasks; i != NIL; i = s->tasks[i].neighbour) {
			struct task *q = &s->tasks[i];

			q->res = (uint64_t)q->res * (room - t->res) / others;
			resident_changed(s, q);
			n->resident += q->res;
		}
	}
	n->resident += t->res;
	resident_changed(s, t);
	t->neighbour = n->tasks;
	t->behind = NIL;
	if (n->tasks != NIL)
		s->tasks[n->tasks].behind = index;
	n->tasks = index;
	n->nr_tasks++;
	check_memory(s, n);
}

static void memory_leave(struct sim *s, struct node *n, uint32_t index)
{
	struct task *t = &s->tasks[index];

	n->mem -= t->vir;
	n->resident -= t->res;
	if (t->behind != NIL)
		s->tasks[t->behind].neighbour = t->neighbour;
	else
		n->tasks = t->neighbour;
	if (t->neighbour != NIL)
		s->tasks[t->neighbour].behind = t->behind;
	n->nr_tasks--;
	check_memory(s, n);
}

/* Whether any of so many referenced pages is missing. Each reference is uniform over the working set. */
static inline int refers_to_missing(struct task *t, uint32_t refs)
{
	if (LIKELY(t->wrk <= t->res))
		return 0;
	for (uint32_t i = 0; i < refs; i++)
		if (below(&t->pages, t->wrk) >= t->res)
			return 1;
	return 0;
}

/* The task with the least recently used page. The running task comes last, t itself never; NULL: no task. */
static inline struct task *least_recent(struct sim *s, const struct node *n, const struct task *t)
{
	struct task *victim = NULL;

	for (uint32_t i = n->tasks; i != NIL; i = s->tasks[i].neighbour) {
		struct task *q = &s->tasks[i];

		if (q == t || !q->res || i == n->running)
			continue;
		if (!victim || q->last_run < victim->last_run)
			victim = q;
	}
	if (!victim && n->running != NIL && s->tasks[n->running].res)
		victim = &s->tasks[n->running];
	return victim;
}

/* A page has come: into a free frame, else into that of the victim. */
static void memory_load(struct sim *s, struct node *n, struct task *t)
{
	if (t->res >= t->vir)
		return;
	if (n->resident >= frames(s, n)) {
		struct task *v = victim(s, n, t);

		if (!v)
			return;		/* one page in, one page out */
		v->res--;
		resident_changed(s, v);
		n->resident--;
	}
	t->res++;
	resident_changed(s, t);
	n->resident++;
	check_memory(s, n);
}

#endif /* SIM_FRAMES_H */
