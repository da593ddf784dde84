/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Decision records: the values that insert_RQ saw and its answer, for the replay
 * through the plain reference; and the snapshot of a ready queue for people.
 */
#ifndef RECORD_BPF_H
#define RECORD_BPF_H

#include "compare.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} decisions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct decision);
} decision_scratch SEC(".maps");

static __always_inline void record_task(struct trace_task *out, const struct task_struct *p,
					const struct task_ctx *tctx, const struct knobs *k)
{
	out->tid = p->pid;
	fill_task(&out->t, p, tctx, k, k->sensors);
	__builtin_memcpy(out->comm, p->comm, COMM_LEN);
}

/*
 * The ready queue of @cpu, head first: *nr is its length, *filled the number of
 * tasks filled in, at most MAX_TRACE. It is in map memory, where the verifier does
 * not follow its value (each would be a state of the loop).
 */
static __noinline int record_queue(struct trace_task *out, u32 *nr, u32 *filled, s32 cpu,
				   const struct knobs *k)
{
	struct task_struct *q;
	struct task_ctx *qctx;

	*nr = scx_bpf_dsq_nr_queued(cpu);
	*filled = 0;
	bpf_for_each(scx_dsq, q, cpu, 0) {
		u32 i = *filled;

		if (i >= MAX_TRACE)
			break;
		*filled = i + 1;
		qctx = ctx_of(q);
		if (!qctx)
			continue;
		record_task(&out[i & (MAX_TRACE - 1)], q, qctx, k);
		if (qctx->passed_in == rq_of(cpu)->window)
			out[i & (MAX_TRACE - 1)].t.flags |= TASK_PASSED;
		if (has_turn(qctx, rq_of(cpu)->turn))
			out[i & (MAX_TRACE - 1)].t.flags |= TASK_TURN;
	}
	return 0;
}

/* Before the walk: the queue as it is. */
__noinline int record_begin(s32 cpu, u32 from)
{
	struct decision *rec;
	u32 zero = 0, i;

	rec = bpf_map_lookup_elem(&decision_scratch, &zero);
	if (!rec)
		return 0;
	record_queue(rec->queue, &rec->nr, &rec->from, cpu, knobs_of(rq_of(cpu)));
	rec->flags = rec->nr > MAX_TRACE ? DEC_TRUNCATED : 0;
	rec->nr_overtaken = 0;
	rec->from = rec->nr;
	bpf_for(i, 0, MAX_TRACE) {
		if (i >= rec->nr)
			break;
		if (from && rec->queue[i & (MAX_TRACE - 1)].tid == from)
			rec->from = i;
	}
	return 0;
}

/* The record of the decision under way, NULL if tracing is off. */
static __always_inline struct decision *record_under_way(const struct knobs *k)
{
	u32 zero = 0;

	return k->trace ? bpf_map_lookup_elem(&decision_scratch, &zero) : NULL;
}

/*
 * The decision asked about w->other, the task behind @passed others from where
 * the walk began. Messages and faults come at any time: the record holds the
 * values that the decision saw.
 */
static __always_inline void note_seen(const struct knobs *k, const struct placing *w, u32 passed)
{
	struct decision *rec = record_under_way(k);
	u32 i;

	if (!rec)
		return;
	i = rec->from - 1 - passed;
	if (i < MAX_TRACE)
		rec->queue[i].t = w->other;
}

static __always_inline void note_overtaken(const struct knobs *k, u32 tid)
{
	struct decision *rec = record_under_way(k);
	u32 i;

	if (!rec)
		return;
	i = rec->nr_overtaken;
	if (i < MAX_OVERTAKEN) {
		rec->overtaken[i] = tid;
		rec->nr_overtaken = i + 1;
	}
}

/* The running task as the decision saw it last. */
static __always_inline void note_running(const struct knobs *k, const struct task_struct *curr,
					 const struct placing *w)
{
	struct decision *rec = record_under_way(k);

	if (!rec)
		return;
	rec->running.tid = curr->pid;
	rec->running.t = w->running;
	__builtin_memcpy(rec->running.comm, curr->comm, COMM_LEN);
}

/*
 * Behind how many tasks the task @tid is, or will be, under @key: equal keys keep insertion
 * order. A queue of more than MAX_TRACE tasks is not replayed, so it is not counted further.
 */
static __noinline u32 position_of_key(s32 cpu, u32 tid, u64 key)
{
	struct task_struct *q;
	u32 pos = 0;

	bpf_for_each(scx_dsq, q, cpu, 0) {
		if ((s64)(q->scx.dsq_vtime - key) > 0 || q->pid == tid || pos == MAX_TRACE)
			break;
		pos++;
	}
	return pos;
}

/* Where the new task stands, counted from the head, before it was there. */
static __noinline u32 record_position(const struct placing *w, const struct decision *rec, s32 cpu)
{
	u32 i, pos = 0;

	if (w->gap)
		return position_of_key(cpu, w->tid, w->key);
	if (w->env.cause == CAUSE_CREDIT && !credit_walks(w->env.rule)) {
		bpf_for(i, 0, MAX_TRACE) {
			if (i >= rec->nr)
				break;
			if (rec->queue[i & (MAX_TRACE - 1)].t.flags & TASK_CREDIT)
				pos = i + 1;
		}
		return pos;
	}
	if (w->head)
		return 0;
	return rec->from - w->passed;
}

/*
 * Hand the record to its readers. Another CPU may have stolen a task since the
 * queue was recorded: then the record does not show the queue of the decision,
 * and counts as lost. Only a thief removes from the queue now, and nothing adds
 * to it, so the length tells. A task that a message was to raise may have been
 * stolen before the queue was recorded.
 */
static __always_inline void record_output(struct decision *rec, struct rq_ctx *rq, s32 cpu)
{
	u32 nr = rec->nr;
	bool gone = rec->cause == CAUSE_MESSAGE && rec->from == nr;
	u64 size, err;

	rec->ns = bpf_ktime_get_ns();
	rec->cpu = cpu;
	rec->seq = ++rq->seq;
	if (gone || nr != scx_bpf_dsq_nr_queued(cpu)) {
		stats_of(cpu, knobs_of(rq)->rule)[STAT_TRACE_LOST]++;
		return;
	}
	if (nr > MAX_TRACE)
		nr = MAX_TRACE;
	rec->nr = nr;
	size = __builtin_offsetof(struct decision, queue) + nr * sizeof(struct trace_task);
	if (size > sizeof(*rec))
		size = sizeof(*rec);
	err = bpf_ringbuf_output(&decisions, rec, size, may_raise_irq_work() ? 0 : BPF_RB_NO_WAKEUP);
	stats_of(cpu, knobs_of(rq)->rule)[err ? STAT_TRACE_LOST : STAT_TRACE]++;
}

/* By what rule and knobs: all that is not about tasks. */
static __always_inline void record_env(struct decision *rec, const struct insert_env *env,
				       const struct knobs *k)
{
	rec->rule = env->rule;
	rec->cause = env->cause;
	if (env->overloaded)
		rec->flags |= DEC_OVERLOADED;
	rec->mnol = env->mnol;
	rec->mnod = env->mnod;
	rec->walk_max = k->walk_max;
	rec->share_ns = env->share_ns;
}

/*
 * A displaced task goes back under @key. No decision, but the replay follows
 * the queue from record to record.
 */
__noinline int record_put_back(struct task_struct *p __arg_trusted, s32 cpu, u64 key)
{
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = knobs_of(rq);
	struct task_ctx *tctx = ctx_of(p);
	struct decision *rec;
	struct insert_env env;
	u32 zero = 0;

	rec = bpf_map_lookup_elem(&decision_scratch, &zero);
	if (!rec || !tctx)
		return 0;
	record_begin(cpu, 0);
	rec->position = position_of_key(cpu, p->pid, key);
	fill_env(&env, k, CAUSE_RESUME);
	record_env(rec, &env, k);
	record_task(&rec->task, p, tctx, k);
	record_output(rec, rq, cpu);
	return 0;
}

/* p, for which record_begin() was called, leaves the queue of @cpu past others. */
__noinline int record_window(struct task_struct *p __arg_trusted, s32 cpu)
{
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = knobs_of(rq);
	struct task_ctx *tctx = ctx_of(p);
	struct decision *rec = record_under_way(k);
	struct insert_env env;

	if (!rec || !tctx)
		return 0;
	rec->position = rec->from;
	if (is_jobs(rq->window))
		rec->flags |= DEC_JOBS;
	if (rq->turn)
		rec->flags |= DEC_TURN;
	fill_env(&env, k, CAUSE_WINDOW);
	record_env(rec, &env, k);
	record_task(&rec->task, p, tctx, k);
	record_output(rec, rq, cpu);
	return 0;
}

/* After the walk: the answer. */
__noinline int record_end(s32 cpu, bool preempt)
{
	struct rq_ctx *rq = rq_of(cpu);
	const struct knobs *k = knobs_of(rq);
	struct placing *w = &rq->w;
	struct decision *rec;
	u32 zero = 0;

	rec = bpf_map_lookup_elem(&decision_scratch, &zero);
	if (!rec)
		return 0;
	record_env(rec, &w->env, k);
	rec->position = record_position(w, rec, cpu);
	if (preempt)
		rec->flags |= DEC_PREEMPT;
	if (w->bounded)
		rec->flags |= DEC_BOUNDED;
	if (w->gap)
		rec->flags |= DEC_GAP;
	if (w->has_running)
		rec->flags |= DEC_RUNNING;
	rec->task.tid = w->tid;
	rec->task.t = w->h;
	__builtin_memcpy(rec->task.comm, w->comm, COMM_LEN);
	record_output(rec, rq, cpu);
	return 0;
}

/* For people: the ready queue of one CPU, run on demand by the agent. */
SEC("syscall")
int snapshot(struct { u32 cpu; u32 pad; } *ctx)
{
	const struct knobs *k = knobs_now();
	s32 cpu = ctx->cpu;
	struct task_struct *curr;
	struct task_ctx *cctx;

	if ((u32)cpu >= cfg.nr_cpus)
		return -ENOENT;
	bpf_rcu_read_lock();
	snap.cpu = cpu;
	record_queue(snap.queue, &snap.nr_queued, &snap.nr, cpu, k);
	snap.nr_direct = scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu);
	snap.nr_expired = scx_bpf_dsq_nr_queued(EXPIRED(cpu));
	snap.running = 0;
	curr = scx_bpf_cpu_curr(cpu);
	if (curr && is_queued_or_runs(curr)) {
		cctx = ctx_of(curr);
		if (cctx) {
			snap.running = 1;
			record_task(&snap.curr, curr, cctx, k);
		}
	}
	bpf_rcu_read_unlock();
	return 0;
}

#endif /* RECORD_BPF_H */
