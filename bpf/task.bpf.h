/* SPDX-License-Identifier: GPL-2.0-only */
/* A task: what the scheduler keeps of it, and what it is. */
#ifndef TASK_BPF_H
#define TASK_BPF_H

#include "maps.bpf.h"
#include "insert_rq.h"

struct task_ctx {
	u64	job;		/* cgroup id of its job, 0 for a local task */
	u64	exec_at_queue;	/* CPU time when it was queued last */
	u64	queued_at;	/* when its stay in RQ began */
	u64	exec_at_credit;	/* CPU time when credit was settled last */
	s64	credit;		/* ns slept and carried over, more than run; within +-credit_max */
	u32	de;
	u32	de_epoch;	/* de counts since this job epoch */
	u32	mes;
	u32	flow;		/* messages ever queued, as of the last update of mes */
	u8	fresh;		/* never queued yet */
	u8	credited;	/* inserted on sleeper credit */
	u8	in_order;	/* inserted neither on top nor on credit */
	u8	msg_pending;	/* in its CPU's message slots */
	u8	woke;		/* to a place in order, on its way through quiet mode's queue: see end_quiet() */
	u8	waiting;	/* polls for a message that does not come */
	u8	yields;		/* in this turn, that were not believed */
	u8	refused;	/* another scheduling class, and the agent was told once */
	u32	moved;		/* its obs.moved at its last poll */
	u64	yielded;	/* its CPU time when it yielded last */
	u64	gave_up;	/* its CPU time when it last gave up its quantum */
	u64	still_since;	/* its CPU time when its levels were seen to have moved last, */
	u64	poll_since;	/* when this spell of polling began, */
	u64	polled;		/* and when it polled last */
	u32	polls;		/* in this spell */
	s64	left;		/* of its quantum in the epoch that it knows, ns, */
	u64	exec_at_left;	/* when its CPU time was this; */
	u32	epoch;		/* that epoch, */
	s32	epoch_cpu;	/* of this CPU's ready queue, */
	u32	epoch_jobs;	/* in this job epoch */
	u8	borrows;	/* it runs, with its quantum used, because nobody else wants the CPU */
	u32	passed_in;	/* the last window in which it was passed, and charged */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

static u32 nr_parallel;		/* tasks that belong to jobs */
static u32 job_epoch;		/* times the first task of the first job came */

static __always_inline struct task_ctx *ctx_of(struct task_struct *p)
{
	return bpf_task_storage_get(&task_ctxs, p, 0, 0);
}

static __always_inline bool is_parallel(const struct task_ctx *tctx, const struct knobs *k)
{
	if (k->classify == CLASSIFY_MES)
		return tctx->mes >= MES_LOCAL;
	return tctx->job != 0;
}

/*
 * Can anything here be parallel? Without, every rule is a FIFO and the hot
 * path need not ask about single tasks.
 */
static __always_inline bool any_parallel(const struct knobs *k)
{
	return nr_parallel || k->classify == CLASSIFY_MES;
}

/*
 * Is the CPUs' time divided into windows of jobs and of local tasks (gang.bpf.h)? Not where jobs
 * always go first. They take the place of epochs.
 */
static __always_inline bool has_gangs(const struct knobs *k)
{
	return nr_parallel && !cfg.partial && !rule_has(k->rule, R_BY_CLASS) &&
	       (k->gang == GANG_ON || (k->gang == GANG_AUTO && cfg.nr_cpus > 1));
}

/* N_k.mem > M */
static __always_inline bool is_overloaded(const struct knobs *k)
{
	return k->overload == OVERLOAD_ON || (k->overload == OVERLOAD_AUTO && k->overloaded);
}

/* Has each task one quantum in an epoch? With no job, nothing competes with local tasks. */
static __always_inline bool has_epochs(const struct knobs *k)
{
	return k->epochs && any_parallel(k) && !has_gangs(k);
}

/* Does p run though its quantum is used? Without epochs no quantum is: what the last ones left says nothing. */
static __always_inline bool borrows(const struct task_ctx *tctx, const struct knobs *k)
{
	return tctx->borrows && has_epochs(k);
}

/* Is it a task of the job @turn? */
static __always_inline bool has_turn(const struct task_ctx *tctx, u64 turn)
{
	return turn && tctx->job == turn;
}

/* Does this task wait in a ready queue (a vtime DSQ)? */
static __always_inline bool in_ready_queue(const struct task_struct *p)
{
	return p->scx.dsq_flags & SCX_TASK_DSQ_ON_PRIQ;
}

static __always_inline bool is_queued_or_runs(const struct task_struct *p)
{
	return p->scx.flags & SCX_TASK_QUEUED;
}

#endif /* TASK_BPF_H */
