/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A ready queue as we know it: the DSQ of a CPU, what we remember of its keys, and
 * the insertion that is under way.
 */
#ifndef RQ_BPF_H
#define RQ_BPF_H

#include "maps.bpf.h"
#include "insert_rq.h"

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
	u32			looked;		/* tasks that the walk has come to, from the tail */
	u32			tid;
	u32			ahead_tid;	/* the task under the key "ahead" */
	u32			near_tid;	/* the task behind which h goes, where its key alone does not say so */
	u32			flow;		/* messages ever queued by and for h, low bits */
	u8			with_obs;
	u8			has_running;
	u8			moves;		/* from another queue, which is done by key only */
	u8			dry;		/* only ask, charge nobody */
	u8			seen;
	u8			stopped;
	u8			head;		/* ahead of all that is queued */
	u8			bounded;
	u8			gap;		/* no midpoint was left */
	char			comm[COMM_LEN];	/* of h, for the record */
};

/* Walks look for a place from the tail, credit from the head. */
enum queue_end { QUEUE_TAIL = 1, QUEUE_HEAD };

/* One CPU's ready queue: the DSQ whose id is the CPU, and what we know of it. */
struct rq_ctx {
	u64	tail_key;	/* largest key given out */
	u64	credit_key;	/* key of the last task inserted on credit */
	u64	credit_limit;	/* keys behind it start here */
	u64	gap_ahead;	/* a gap between keys that has no room: key of the task ahead of it, */
	u64	gap_next;	/* and the key of the next task that moves to open it */
	u64	resume_key;	/* the displaced task: its place in the ready queue, */
	u64	resume_slice;	/* what was left of its quantum, */
	u64	resume_exec;	/* and its CPU time, when it was displaced */
	u64	quantum_end;	/* sum_exec_runtime at which the quantum of rest_tid ends, after a message interrupted it */
	u32	tail_tid;
	u32	credit_tid;
	u32	resume_tid;
	u32	rest_tid;
	u32	late_tid;	/* displaced, it went on, and then a kernel thread took the CPU */
	u32	woken_pair;	/* the last two of which one woke and displaced the other, exclusive or */
	u32	set;		/* of knobs, for the decision under way */
	u32	seq;		/* decision records, lost ones included */
	u32	msg_w, msg_r;	/* message slots written and read */
	u32	msg_late;	/* messages for which the end of a quantum has waited */
	u32	gap;		/* enum queue_end from which it was found; 0: there is none */
	u32	gap_room;	/* how many tasks may still move, and one; 0: not begun */
	u32	gap_portion;	/* how many may in this dispatch */
	u32	busy;		/* counted in busy */
	u32	ordered;	/* the vtime queue is in use: not quiet */
	u32	steal_at;	/* how many CPUs further on the next search for a task begins */
	u32	inactive;	/* the CPU goes offline, is, or comes */
	u32	yielded;	/* tid of the task that yields */
	u32	window;		/* for the decision under way, */
	u64	turn;		/* and the job that has the turn */
	u64	behind_key;	/* behind_tid may not pass the tail that has this key */
	u32	behind_tid;
	u64	order_until;	/* jiffies; no quiet mode before: see stay_in_order() */
	u64	local_until;	/* R_BY_CLASS: when the last turn of a local task ended, or will */
	u64	streak;		/* since when only tops and credits ran, 0: they do not */
	u64	epoch_began;
	u64	epoch_sum;	/* quanta of the tasks seen in this epoch: its length if all run */
	u64	local_ns;	/* CPU time of local tasks in this epoch, as far as it is settled, */
	u64	local_was;	/* and in the last ones, mean */
	u32	jobs_now;	/* tasks of jobs seen in this epoch, */
	u32	jobs_was;	/* and in the last one */
	u32	epoch;		/* its number */
	u32	lent;		/* a task may run that has used its quantum */
	u32	expired;	/* there may be tasks that wait for the next epoch, */
	u32	returning;	/* and the first of them, so many, come back now */
	u32	msg_tid[MSG_SLOTS];
	struct placing w;
} __attribute__((aligned(64)));

/* Another DSQ: the tasks of @cpu that wait for the next epoch, first come, first served. */
#define EXPIRED(cpu)	(MAX_CPUS + (cpu))

static struct rq_ctx rqs[MAX_CPUS];

/*
 * The window of gangs, by number; of jobs if the number is odd, else of local tasks. On a
 * cache line of its own: all CPUs read it.
 */
static struct {
	u32	now;
	u32	timed;	/* the timer turns it */
	u64	turn;	/* of several jobs, the one whose turn it is; 0: they have no turns */
} __attribute__((aligned(64))) window;

static __always_inline bool is_jobs(u32 window)
{
	return window & 1;
}

/* CPUs whose ready queue was seen non-empty. Each CPU writes it, so it shares no cache line with what all read. */
static struct {
	u32	nr;
} __attribute__((aligned(64))) busy;

static __always_inline struct rq_ctx *rq_of(s32 cpu)
{
	return &rqs[cpu & (MAX_CPUS - 1)];
}

/*
 * A decision has one set of knobs, one window and one turn from its begin, in ops.enqueue or
 * ops.dispatch, to its end, whatever is set meanwhile: this CPU's rq lock is held throughout.
 */
static __always_inline const struct knobs *begin_decision(struct rq_ctx *rq)
{
	rq->set = knob_sets.active;
	rq->window = window.now;
	rq->turn = window.turn;
	return &knob_sets.set[rq->set & 1];
}

static __always_inline const struct knobs *knobs_of(const struct rq_ctx *rq)
{
	return &knob_sets.set[rq->set & 1];
}

/*
 * May this CPU raise an irq_work, as a kick or a woken reader of a ring buffer
 * does? On a CPU that comes online, whose first act is to wake who asked for
 * it, the interrupt that runs it can be lost (seen with QEMU on a loaded
 * host). The work then waits, and as no interrupt is raised behind it, so does all
 * irq_work of that CPU, RCU's too, until the CPU has gone again. A CPU that goes
 * turns its interrupt controller off before it wakes the last tasks.
 */
static __always_inline bool may_raise_irq_work(void)
{
	return !rq_of(bpf_get_smp_processor_id())->inactive;
}

/* The number of tasks that wait for @cpu, in this epoch or for the next. */
static __always_inline s32 nr_waiting(s32 cpu)
{
	return scx_bpf_dsq_nr_queued(cpu) +
	       (rq_of(cpu)->expired ? scx_bpf_dsq_nr_queued(EXPIRED(cpu)) : 0);
}

static __always_inline void mark_busy(struct rq_ctx *rq)
{
	if (cfg.nr_cpus < 2 || rq->busy)
		return;
	rq->busy = 1;
	__sync_fetch_and_add(&busy.nr, 1);
}

static __always_inline void mark_empty(struct rq_ctx *rq)
{
	if (!rq->busy)
		return;
	rq->busy = 0;
	__sync_fetch_and_sub(&busy.nr, 1);
}

#endif /* RQ_BPF_H */
