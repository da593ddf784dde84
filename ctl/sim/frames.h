/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A node's memory (CSM sec. 3.2, eq. 3, 4, 7): M frames, demand paging, global
 * replacement.
 *
 * Of a task's pages only the number that is resident is known. Running touches
 * all of them, so the least recently used page of the node belongs to the task
 * that has not run for longest. Frames freed stay free until a fault takes
 * them.
 *
 * For engines that have, before they include this: struct task with vir, res,
 * wrk, last_run, pages, neighbour, behind and rq, struct node with tasks,
 * nr_tasks, mem, resident and running; frames(), how many a node has;
 * resident_changed(), called when a task's res did; and victim(), who loses a
 * page to a task when none is free.
 */
#ifndef SIM_FRAMES_H
#define SIM_FRAMES_H

/* The part of its working set that a task has not resident, in 1/65536 (CSM eq. 3, B-CSM-1). */
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

/* CSM eq. 7: what a new task has at once; the others shrink alike if there is no room for it,
 * or it has to do with what is free. */
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

/* Is one of so many pages that a task refers to not there? Each is uniform over its working set. */
static inline int refers_to_missing(struct task *t, uint32_t refs)
{
	if (LIKELY(t->wrk <= t->res))
		return 0;
	for (uint32_t i = 0; i < refs; i++)
		if (below(&t->pages, t->wrk) >= t->res)
			return 1;
	return 0;
}

/* Whose page was used least recently? That of the running task last, that of t itself never; NULL: nobody's. */
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
