/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ready queue: where insert_RQ's answer becomes a key of a vtime DSQ.
 *
 * Keys are 2^key_shift apart. Append: last key + spacing. Between two
 * neighbours: the midpoint. Ahead of the head: its key - spacing. Keys wrap
 * and compare by signed difference, as the kernel compares them, so only the
 * span of one queue matters. A midpoint that leaves no further one makes the
 * next dispatches open the gap: the tasks on one side of it get new keys, a few in
 * each dispatch. An insertion that needs a key before that is counted, and its task
 * takes the key of the neighbour ahead: equal keys keep insertion order, so it is
 * in its place unless both neighbours have that key. Then it goes behind both, and
 * its record says so (DEC_GAP).
 *
 * Everything here runs with the rq lock of the queue's CPU held. Only a
 * stealing CPU removes tasks without it; what we remember of the tail is
 * therefore checked before it is believed.
 */
#ifndef QUEUE_BPF_H
#define QUEUE_BPF_H

#include "compare.bpf.h"
#include "job.bpf.h"
#include "record.bpf.h"

static __always_inline u64 spacing(void)
{
	return 1ULL << (cfg.key_shift & 63);
}

/* Remember a key given out: is it the tail? */
static __always_inline void note_key(struct rq_ctx *rq, u32 tid, u64 key)
{
	if ((s64)(key - rq->tail_key) >= 0) {
		rq->tail_key = key;
		rq->tail_tid = tid;
	}
}

static __always_inline void place_tail(struct rq_ctx *rq, struct placing *w)
{
	w->key = rq->tail_key + spacing();
	w->limit = w->key + spacing();
}

static __always_inline void place_head(struct rq_ctx *rq, struct placing *w, s32 cpu)
{
	struct task_struct *head = scx_bpf_dsq_peek(cpu);

	w->head = true;
	if (head) {
		w->limit = head->scx.dsq_vtime;
		w->key = w->limit - spacing();
	} else {
		place_tail(rq, w);
	}
}

/* Is a displaced task about to come back, behind the task under @key? */
static __always_inline bool comes_back_behind(const struct rq_ctx *rq, u64 key)
{
	return rq->resume_tid && (s64)(rq->resume_key - key) > 0;
}

/*
 * Between two neighbours, of which the one ahead is @near, at most @step behind the one ahead, and ahead of the
 * displaced task that is about to come back between them.
 */
static __always_inline void place_between(struct rq_ctx *rq, struct placing *w, u64 ahead, u32 near,
					  u64 behind, u64 step, enum queue_end from)
{
	u64 gap;

	if (comes_back_behind(rq, ahead) && (s64)(behind - rq->resume_key) > 0)
		behind = rq->resume_key;
	gap = behind - ahead;
	if (gap < 4 && !rq->gap) {
		rq->gap = from;
		rq->gap_ahead = ahead;
		rq->gap_room = 0;
	}
	w->limit = behind;
	if (gap < 2) {
		w->key = ahead;
		if (bpf_ksym_exists(scx_bpf_dsq_insert_vtime_beside) && near && !w->moves)
			w->near_tid = near;
		else
			w->gap = 1;
	} else {
		w->key = ahead + (gap / 2 < step ? gap / 2 : step);
	}
	if (ahead == rq->credit_key)
		rq->credit_limit = w->key;
}

/*
 * The task @tid, if it still waits here under @key: stolen, it may wait on another
 * CPU, whose keys mean nothing here. To be released.
 */
static __always_inline struct task_struct *queued_under(u32 tid, u64 key, s32 cpu)
{
	struct task_struct *q;

	if (!tid)
		return NULL;
	q = bpf_task_from_pid(tid);
	if (!q)
		return NULL;
	if (in_ready_queue(q) && q->scx.dsq_vtime == key && scx_bpf_task_cpu(q) == cpu)
		return q;
	bpf_task_release(q);
	return NULL;
}

/*
 * A local task with sleeper credit goes behind the last one of its like, else
 * to the head: what a walk past everybody without credit would find, without
 * the walk.
 */
static __always_inline void place_credit(struct rq_ctx *rq, struct placing *w, s32 cpu)
{
	struct task_struct *last = queued_under(rq->credit_tid, rq->credit_key, cpu);
	struct task_ctx *lctx;
	bool credited = false;

	if (last) {
		/* displaced meanwhile, it may be back under the same key, but not on credit */
		lctx = ctx_of(last);
		credited = lctx && lctx->credited;
		bpf_task_release(last);
	}
	if (!credited)
		place_head(rq, w, cpu);
	else if (rq->credit_key == rq->tail_key && !comes_back_behind(rq, rq->tail_key))
		place_tail(rq, w);
	else
		place_between(rq, w, rq->credit_key, rq->credit_tid, rq->credit_limit,
			      1ULL << (cfg.key_shift / 2 & 63), QUEUE_HEAD);
}

/* Remember the last task placed on credit. */
static __always_inline void note_credit(struct rq_ctx *rq, const struct placing *w)
{
	rq->credit_tid = w->tid;
	rq->credit_key = w->key;
	rq->credit_limit = w->limit;
}

/* May the task to insert not pass @q, the tail? */
static __always_inline bool stays_behind_task(struct task_struct *q, struct rq_ctx *rq)
{
	const struct knobs *k = knobs_of(rq);
	struct placing *w = &rq->w;
	struct task_ctx *qctx = ctx_of(q);

	if (!qctx)
		return false;
	fill_task(&w->other, q, qctx, k, w->with_obs);
	note_seen(k, w, 0);
	return !may_pass(&w->env, &w->other, &w->h);
}

/*
 * Most insertions overtake nobody: ask h's own claim and the tail alone before
 * starting a walk. The tail that we remember may have left; the kernel knows which
 * task it is now, if it has the function, and else the walk begins there.
 */
__noinline bool stays_behind_tail(s32 cpu)
{
	struct rq_ctx *rq = rq_of(cpu);
	struct task_struct *q;
	bool stays;

	if (passes_nobody(&rq->w.env, &rq->w.h))
		return true;
	q = queued_under(rq->tail_tid, rq->tail_key, cpu);
	if (q) {
		stays = stays_behind_task(q, rq);
		bpf_task_release(q);
		return stays;
	}
	if (!bpf_ksym_exists(scx_bpf_dsq_peek_tail))
		return false;
	q = scx_bpf_dsq_peek_tail(cpu);
	return q && stays_behind_task(q, rq);
}

#define LOOKS	16	/* tasks among which one is looked for that has a message */

/*
 * insert_RQ's loop: from the tail on, pass who may be passed. With @from set,
 * the walk starts at that queued task instead (SDCA: it may only rise); not seen
 * among the last LOOKS, it has not begun. @job is that of the task that walks.
 * Not static, see fill_obs().
 */
__noinline int walk_queue(s32 cpu, u64 job, u32 from)
{
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = knobs_of(rq);
	struct placing *w = &rq->w;
	u64 *st = stats_of(cpu, k->rule);
	struct task_struct *q;
	struct task_ctx *qctx;

	w->passed = 0;
	w->stopped = 0;
	w->seen = !from;
	bpf_for_each(scx_dsq, q, cpu, SCX_DSQ_ITER_REV) {
		if (!w->seen) {
			if (q->pid == from) {
				w->seen = 1;
				w->behind = q->scx.dsq_vtime;
			} else if (++w->looked == LOOKS) {
				break;
			}
			continue;
		}
		w->looked++;
		qctx = ctx_of(q);
		if (!qctx)
			continue;
		fill_task(&w->other, q, qctx, k, w->with_obs);
		note_seen(k, w, w->passed);
		if (!may_pass(&w->env, &w->other, &w->h)) {
			w->stopped = 1;
		} else if (w->passed >= k->walk_max) {
			w->stopped = 1;
			w->bounded = 1;
		}
		if (w->stopped) {
			w->ahead = q->scx.dsq_vtime;
			w->ahead_tid = q->pid;
			break;
		}
		if (!w->dry && charges(&w->env)) {
			charge(qctx, job, st);
			note_overtaken(k, q->pid);
		}
		w->behind = q->scx.dsq_vtime;
		w->passed++;
	}
	w->head = !w->stopped && w->seen;
	return 0;
}

/* Where the walk ended: the key that goes there. A task that is @from in the queue already can only be moved by key. */
static __always_inline void place_walked(struct rq_ctx *rq, struct placing *w, u32 from)
{
	if (!w->passed && from) {
		w->key = w->limit = w->behind;
	} else if (w->stopped && w->passed) {
		place_between(rq, w, w->ahead, from ? 0 : w->ahead_tid, w->behind, spacing(), QUEUE_TAIL);
	} else if (w->passed) {
		w->limit = w->behind;
		w->key = w->behind - spacing();
	} else {
		place_tail(rq, w);
	}
}

/*
 * Move @p, queued in @from, to the key in the ready queue of @cpu, with a slice of its
 * own if @slice is one. The iterator stands for the queue, and need not have come to p.
 */
static __always_inline void move_queued(struct task_struct *p, u64 from, s32 cpu, u64 key, u64 slice)
{
	struct bpf_iter_scx_dsq it;

	if (!bpf_iter_scx_dsq_new(&it, from, 0)) {
		if (slice)
			scx_bpf_dsq_move_set_slice(&it, slice);
		scx_bpf_dsq_move_set_vtime(&it, key);
		scx_bpf_dsq_move_vtime(&it, p, cpu, 0);
	}
	bpf_iter_scx_dsq_destroy(&it);
}

#define OPEN_MOST	64	/* tasks between an end of a queue and a gap that is opened: LOOKS and a walk */
#define OPEN_PORTION	16	/* of them, those that get a new key in one dispatch */

/*
 * A gap ran out of midpoints. The tasks between it and the end of the queue from
 * which it was found move away from it, in order, from that end on: the tail's to
 * keys behind all others, the head's to keys ahead of all others. Who has moved has
 * a key beyond the next one to be given, and so has who came in between.
 */
static __always_inline void begin_opening(struct rq_ctx *rq, s32 cpu)
{
	struct task_struct *head = scx_bpf_dsq_peek(cpu);

	rq->gap_room = OPEN_MOST;
	if (rq->gap == QUEUE_TAIL)
		rq->gap_next = rq->tail_key = rq->tail_key + OPEN_MOST * spacing();
	else if (head)
		rq->gap_next = head->scx.dsq_vtime - OPEN_MOST * spacing();
	else
		rq->gap = 0;
}

/* The task @tid moves from @key to @to: what we remember of its key goes along. */
static __always_inline void follow_key(struct rq_ctx *rq, u32 tid, u64 key, u64 to)
{
	if (tid != rq->credit_tid || key != rq->credit_key)
		return;
	rq->credit_key = to;
	if ((s64)(rq->credit_limit - to) <= 0 || rq->credit_limit - to > spacing())
		rq->credit_limit = to + spacing();
}

/* Has a task under @key moved? */
static __always_inline bool has_moved(const struct rq_ctx *rq, u64 key)
{
	return rq->gap == QUEUE_TAIL ? (s64)(key - rq->gap_next) > 0 : (s64)(rq->gap_next - key) > 0;
}

/* Is a task under @key on the other side of the gap? */
static __always_inline bool is_beyond_gap(const struct rq_ctx *rq, u64 key)
{
	return rq->gap == QUEUE_TAIL ? (s64)(key - rq->gap_ahead) <= 0 : (s64)(key - rq->gap_ahead) > 0;
}

/* Move one portion. A gap that is too far from its end stays closed, and is counted. Not static, see fill_obs(). */
__noinline int open_gap(s32 cpu)
{
	struct rq_ctx *rq = rq_of(cpu);
	u32 outcome = STAT_RENUMBER;
	struct task_struct *q;

	if (!rq->gap_room)
		begin_opening(rq, cpu);
	if (!rq->gap)
		return 0;
	rq->gap_portion = OPEN_PORTION;
	rq->w.looked = 0;
	bpf_for_each(scx_dsq, q, cpu, rq->gap == QUEUE_TAIL ? SCX_DSQ_ITER_REV : 0) {
		u64 key = q->scx.dsq_vtime;

		if (++rq->w.looked > 2 * OPEN_MOST || rq->gap_room == 1) {
			outcome = STAT_GAP_FAR;
			break;
		}
		if (has_moved(rq, key))
			continue;
		if (is_beyond_gap(rq, key))
			break;
		if (!rq->gap_portion)
			return 0;
		follow_key(rq, q->pid, key, rq->gap_next);
		scx_bpf_dsq_move_set_vtime(&___it, rq->gap_next);
		scx_bpf_dsq_move_vtime(&___it, q, cpu, 0);
		rq->gap_next += rq->gap == QUEUE_TAIL ? -spacing() : spacing();
		rq->gap_room--;
		rq->gap_portion--;
	}
	stats_of(cpu, knobs_of(rq)->rule)[outcome]++;
	rq->gap = 0;
	return 0;
}

#endif /* QUEUE_BPF_H */
