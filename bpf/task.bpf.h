/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scheduler keeps of a task, a CPU and a job. Included by cosched.bpf.c
 * only.
 */
#ifndef TASK_BPF_H
#define TASK_BPF_H

#define NSEC_PER_MSEC	1000000ULL
#define CREDIT_MIN	(1 * NSEC_PER_MSEC)	/* less is no credit: two tasks that answer each other */
#define POLL_PAUSE_MAX	(1 * NSEC_PER_MSEC)	/* CPU time between two polls of one wait, at most */

struct task_ctx {
	u64	job;		/* cgroup id of its job, 0 for a local task */
	u64	exec_at_queue;	/* CPU time when it was queued last */
	u64	queued_at;	/* when its stay in RQ began */
	u64	exec_at_credit;	/* CPU time when credit was settled last */
	s64	credit;		/* ns slept and carried over, more than run; within +-credit_max */
	u32	de;
	u32	de_epoch;	/* de counts since this job epoch */
	u32	mes;
	u8	fresh;		/* never queued yet */
	u8	credited;	/* inserted on sleeper credit */
	u8	in_order;	/* inserted neither on top nor on credit */
	u8	msg_pending;	/* in its CPU's message slots */
	u8	waiting;	/* polls for a message that does not come */
	u8	yields;		/* in this turn, that were not believed */
	u32	moved;		/* its obs.moved at its last poll */
	u64	gave_up;	/* its CPU time when it last gave up its quantum */
	u64	still_since;	/* its CPU time when its levels were seen to have moved last, */
	u64	poll_since;	/* when this spell of polling began, */
	u64	polled;		/* and when it polled last */
	u32	polls;		/* in this spell */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

/*
 * One insertion under way. Lives in the rq_ctx of its CPU, whose rq lock is
 * held: numbers in map memory are opaque to the verifier, on its stack each
 * turn of the walk would be a state of its own.
 */
struct placing {
	struct insert_env	env;
	struct rq_task		h;		/* the task to insert */
	struct rq_task		running;	/* RQ[0], if has_running */
	struct rq_task		other;		/* the one being asked */
	u64			key;		/* the answer */
	u64			limit;		/* the key behind it, exclusive */
	u64			ahead, behind;	/* keys where the walk ended */
	u32			passed;
	u32			tid;
	u8			with_obs;
	u8			has_running;
	u8			dry;		/* only ask, charge nobody */
	u8			seen;
	u8			stopped;
	u8			head;		/* ahead of all that is queued */
	u8			bounded;
	u8			gap;		/* no midpoint was left */
	char			comm[COMM_LEN];	/* of h, for the record */
};

/* One CPU's ready queue: the DSQ whose id is the CPU, and what we know of it. */
struct rq_ctx {
	u64	tail_key;	/* largest key given out */
	u64	credit_key;	/* key of the last task inserted on credit */
	u64	credit_limit;	/* keys behind it start here */
	u64	resume_key;	/* the displaced task: its place in the ready queue, */
	u64	resume_slice;	/* what was left of its quantum, */
	u64	resume_exec;	/* and its CPU time, when it was displaced */
	u64	quantum_end;	/* sum_exec_runtime at which the quantum of rest_tid ends, whom a message interrupted */
	u32	tail_tid;
	u32	credit_tid;
	u32	resume_tid;
	u32	rest_tid;
	u32	seq;		/* decision records, lost ones included */
	u32	msg_w, msg_r;	/* message slots written and read */
	u32	renumber;	/* a gap is exhausted */
	u32	busy;		/* counted in nr_busy */
	u32	ordered;	/* the vtime queue is in use: not quiet */
	u32	inactive;	/* the CPU goes offline, is, or comes */
	u64	behind_key;	/* behind_tid may not pass the tail that has this key */
	u32	behind_tid;
	u64	asked;		/* when an idle CPU last had tasks moved to where it can take them */
	u64	local_until;	/* R_BY_CLASS: when the last turn of a local task ended, or will */
	u64	streak;		/* since when only tops and credits ran, 0: they do not */
	u32	msg_tid[MSG_SLOTS];
	struct placing w;
};

const volatile struct config cfg SEC(".rodata.config");
struct knob_sets knob_sets SEC(".data.knobs");
u64 stats[MAX_CPUS][MAX_RULES][NR_COSCHED_STATS] SEC(".bss.stats");
struct exit_record exit_record SEC(".bss.exit");
struct snapshot snap SEC(".bss.snap");

static struct rq_ctx rqs[MAX_CPUS];
static u32 nr_parallel;		/* tasks that belong to jobs */
static u32 job_epoch;		/* times the first task of the first job came */
static u32 nr_busy;		/* CPUs whose ready queue was seen non-empty */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, u32);
	__type(value, struct obs);
} obs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, u64);
	__type(value, struct sock_obs);
} socks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct job_stat);
} jobs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, u32);
} job_states SEC(".maps");

static __always_inline const struct knobs *knobs_now(void)
{
	return &knob_sets.set[knob_sets.active & 1];
}

_Static_assert(!(MAX_CPUS & (MAX_CPUS - 1)) && !(MAX_RULES & (MAX_RULES - 1)),
	       "masks bound the indexes below");
_Static_assert(NR_RULES <= MAX_RULES, "each rule has its statistics");

static __always_inline struct rq_ctx *rq_of(s32 cpu)
{
	return &rqs[cpu & (MAX_CPUS - 1)];
}

/*
 * May this CPU raise an irq_work, as a kick or a woken reader of a ring buffer
 * does? On a CPU that comes online, whose first act is to wake who asked for
 * it, the interrupt that runs it can be lost (seen with QEMU on a loaded
 * host). It waits then, and as none is raised behind it, all irq_work of that
 * CPU with it, RCU's too, until the CPU has gone again. A CPU that goes turns
 * its interrupt controller off before it wakes the last ones.
 */
static __always_inline bool may_raise_irq_work(void)
{
	return !rq_of(bpf_get_smp_processor_id())->inactive;
}

static __always_inline u64 *stats_of(s32 cpu, u32 rule)
{
	return stats[cpu & (MAX_CPUS - 1)][rule & (MAX_RULES - 1)];
}

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

/* Does this task wait in a ready queue (a vtime DSQ)? */
static __always_inline bool in_ready_queue(const struct task_struct *p)
{
	return p->scx.dsq_flags & SCX_TASK_DSQ_ON_PRIQ;
}

static __always_inline bool is_queued_or_runs(const struct task_struct *p)
{
	return p->scx.flags & SCX_TASK_QUEUED;
}

/* State(T) = LOCAL (CCS sec. 3.2): does a node far away want this job slowed down? */
static __always_inline bool is_slowed(u64 job)
{
	u32 *state = bpf_map_lookup_elem(&job_states, &job);

	return state && *state == JOB_SLOWED;
}

/*
 * Set_Quantum (CCS Alg. 2): Def_Q / W for every task, times L for one of a
 * parallel job where a local user is present here or on another of its nodes;
 * L counts once (B-CCS-14). Never 0: what is to stop is the freezer's.
 */
static __always_inline u64 set_quantum(struct task_struct *p, const struct knobs *k)
{
	u64 q = k->quantum_ns;
	struct task_ctx *tctx;

	if (k->stretch)
		q = q * k->stretch >> MES_SHIFT;
	if (!any_parallel(k) || !(k->local_user || k->slowed_jobs))
		return q;
	tctx = ctx_of(p);
	if (!tctx || !is_parallel(tctx, k))
		return q;
	if (!k->local_user && !is_slowed(tctx->job))
		return q;
	q = q * k->share_l >> MES_SHIFT;
	return q < MIN_SLICE_NS ? MIN_SLICE_NS : q;
}

/*
 * Quantum of a task: nice scales a local task's, within 1/16 and 8 times; the
 * contract is for tasks of jobs alike. A kernel thread's is never shortened:
 * khugepaged (nice 19) copies 512 pages as one RCU reader, and with a sixteenth
 * of a quantum each round it stalls RCU, for which the kernel ends a scheduler.
 */
static __always_inline u64 slice_of(struct task_struct *p, const struct knobs *k)
{
	u64 q = k->set_quantum ? set_quantum(p, k) : k->quantum_ns, slice;
	struct task_ctx *tctx;

	if (p->scx.weight == 100 || (p->scx.weight < 100 && (p->flags & PF_KTHREAD)))
		return q;
	if (any_parallel(k)) {
		tctx = ctx_of(p);
		if (tctx && is_parallel(tctx, k))
			return q;
	}
	slice = q * p->scx.weight / 100;
	return slice < q / 16 ? q / 16 : slice > q * 8 ? q * 8 : slice;
}

/* Sleeper credit still unused now, ns. */
static __always_inline s64 credit_left(const struct task_struct *p, const struct task_ctx *tctx)
{
	return tctx->credit - (s64)(p->se.sum_exec_runtime - tctx->exec_at_credit);
}

/*
 * p woke (B-CCS-31). What it ran since its credit was settled last goes off;
 * what it slept comes on (a task that blocked was last accounted when it left
 * the CPU: exec_start), and half of what it left of a turn that it had waited
 * for. Else one that sleeps briefly but often, for a page, would wait for all
 * others each time, however little it runs.
 */
static __always_inline void settle_credit(const struct task_struct *p, struct task_ctx *tctx,
					  const struct knobs *k)
{
	s64 max = k->credit_max_ns, credit = credit_left(p, tctx);
	s64 slept = scx_bpf_now() - p->se.exec_start;

	if (slept > 0)
		credit += slept < 2 * max ? slept : 2 * max;
	if (tctx->in_order)
		credit += p->scx.slice / 2;
	tctx->credit = credit > max ? max : credit < -max ? -max : credit;
	tctx->exec_at_credit = p->se.sum_exec_runtime;
}

static __always_inline struct job_stat *job_stat_of(u64 job)
{
	struct job_stat *js = NULL, zero = {};

	if (!job)
		return NULL;
	js = bpf_map_lookup_elem(&jobs, &job);
	if (!js) {
		bpf_map_update_elem(&jobs, &job, &zero, BPF_NOEXIST);
		js = bpf_map_lookup_elem(&jobs, &job);
	}
	return js;
}

/* A task of job @q (0: a local one) was passed by one of job @h. */
__noinline int count_overtake(u64 q, u64 h)
{
	struct job_stat *js;

	js = job_stat_of(q);
	if (js)
		__sync_fetch_and_add(&js->overtakes_suffered, 1);
	js = job_stat_of(h);
	if (js)
		__sync_fetch_and_add(&js->overtakes_given, 1);
	return 0;
}

/* q was passed by a task of @h_job for a coscheduling cause. */
static __always_inline void charge(struct task_ctx *q, u64 h_job, u64 *st)
{
	if (q->de_epoch != job_epoch) {
		q->de_epoch = job_epoch;
		q->de = 0;
	}
	q->de++;
	st[STAT_OVERTAKE]++;
	count_overtake(q->job, h_job);
}

/* The job a cgroup belongs to: its ancestor right under the parent of all jobs. */
static __always_inline u64 job_of(struct cgroup *cgrp)
{
	u32 level = cfg.jobs_level;
	struct cgroup *parent = NULL, *job = NULL;

	if (!cgrp || BPF_CORE_READ(cgrp, level) <= level || level > 16)
		return 0;
	bpf_core_read(&parent, sizeof(parent), &cgrp->ancestors[level]);
	bpf_core_read(&job, sizeof(job), &cgrp->ancestors[level + 1]);
	if (!parent || !job || BPF_CORE_READ(parent, kn, id) != cfg.jobs_cgid)
		return 0;
	return BPF_CORE_READ(job, kn, id);
}

static __always_inline void join_job(struct task_ctx *tctx, u64 job)
{
	if (!tctx->job && job) {
		if (!__sync_fetch_and_add(&nr_parallel, 1))
			job_epoch++;
	}
	if (tctx->job && !job)
		__sync_fetch_and_sub(&nr_parallel, 1);
	tctx->job = job;
	tctx->credited = 0;
	tctx->credit = 0;
}

#endif /* TASK_BPF_H */
