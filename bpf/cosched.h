/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The vocabulary: what the scheduler, the sensors, the controller, the tests
 * and the simulator share. Types, enums and map names, no behaviour.
 *
 * Everything between the two "cdef" marks is also read by ctl/kernel/layout.py
 * (cffi), so it keeps to plain enums, structs and numeric #defines. The X()
 * lists below it are read by the same module for names and descriptions.
 *
 * Times are nanoseconds of scx_bpf_now()/bpf_ktime_get_ns() unless the name
 * says otherwise. mes and P are fixed point with MES_SHIFT fraction bits.
 */
#ifndef COSCHED_H
#define COSCHED_H

/* cdef begin */
#define MES_SHIFT	10	/* fraction bits of mes and P */
#define MES_LOCAL	64	/* classify=mes: local iff mes < 2^-4 (B-CSM-7) */
#define FLT_BUCKETS	8	/* FLT window: 8 buckets of 2^27 ns = 1.07 s */
#define FLT_SHIFT	27
#define MAX_CPUS	512
#define MAX_TRACE	128	/* tasks of one queue that a record or snapshot holds */
#define MAX_OVERTAKEN	128
#define COMM_LEN	16
#define MSG_SLOTS	64	/* messages for queued tasks, awaiting dispatch, per CPU */
#define MIN_SLICE_NS	1000000	/* L = 0 still leaves a task this: a slice of 0 would withhold it */
#define MAX_RULES	16	/* room for statistics: a power of two */

/* Insert rules: how insert_RQ orders. A policy (ctl/policy/policies.py) names one. */
enum insert_rule {
	RULE_FIFO,		/* RR: RQ[inf] := h */
	RULE_PRED,		/* predictive: by mes (CSM sec. 4.1, line 19) */
	RULE_DYN,		/* rec != 0 -> top, else tail (CSM Alg. 1 line 5) */
	RULE_SDCA,		/* by pending received messages (Monito Alg. 2) */
	RULE_DYNAMIC,		/* by accumulated CPU (Monito sec. 5.3) */
	RULE_CSM,		/* Algorithm 1 as printed */
	RULE_CSM_BOUNDED,	/* same, its Dynamic mode bounded (B-CSM-5) */
	RULE_CSM_FIRST,		/* Algorithm 1 with faults asked before messages (B-CSM-6) */
	RULE_CCS,		/* CCS Alg. 1: by COM, or by FLT when overloaded */
	RULE_PRIO,		/* parallel tasks ahead of all others (Monito sec. 5.2) */
	RULE_IMPLICIT,		/* a task that waited for a message -> top when it comes, else tail (Monito sec. 2.2) */
	RULE_ORDER,		/* tasks of jobs in the order of the queue of jobs (policy fit) */
	NR_RULES,
};

/* Why a task reached insert_RQ. */
enum insert_cause {
	CAUSE_WAKE,		/* it slept and woke up */
	CAUSE_EXPIRE,		/* it used up its quantum or yielded */
	CAUSE_FORK,		/* it is new, or new to this scheduler */
	CAUSE_MESSAGE,		/* it was queued and a message arrived (SDCA) */
	CAUSE_CREDIT,		/* a local task woke with sleeper credit left */
	CAUSE_RESUME,		/* it was displaced and goes back to its place: recorded, but no insertion */
	CAUSE_WINDOW,		/* it leaves the queue past others, whose window it is not: recorded, but no insertion */
	NR_CAUSES,
};

enum overload_mode {
	OVERLOAD_AUTO,		/* as the agent decided from memory state */
	OVERLOAD_ON,
	OVERLOAD_OFF,
};

enum classify_mode {
	CLASSIFY_CGROUP,	/* parallel iff in a job cgroup */
	CLASSIFY_MES,		/* parallel iff mes is not zero (CSM sec. 3.1) */
};

/* What the messages of mes are (CSM eq. 2, B-CSM-8). */
enum c_mes_mode {
	C_MES_FLOW,		/* those queued since mes was computed last, and those queued now */
	C_MES_BACKLOG,		/* those queued now: COM */
};

/* The meaning of flt of a task. */
enum flt_mode {
	FLT_RATE,		/* major faults in the last second (CCS sec. 3.2) */
	FLT_PROBABILITY,	/* fault probability (CSM eq. 3, B-CSM-1), per mille */
};

/* What a task has in each epoch of a ready queue, beside a job. */
enum epochs_mode {
	EPOCHS_OFF,		/* no epochs: a quantum at each wake-up */
	EPOCHS_TASK,		/* its quantum (CCS sec. 3.1) */
	EPOCHS_JOBS,		/* a local task its quantum, the tasks of jobs together L of the CPU */
};

/* Windows of the clock in which the tasks of jobs, and then local tasks, go first on all CPUs (gang.bpf.h). */
enum gang_mode {
	GANG_AUTO,		/* on a node of several CPUs */
	GANG_ON,
	GANG_OFF,
};

/* The state of a job, for Set_Quantum. Map "job_states", key: its cgroup id. No entry: JOB_FREE. */
enum job_state {
	JOB_FREE,
	JOB_SLOWED,		/* LOCAL: a local user is present on another node that holds it */
};

/* struct rq_task.flags and struct trace_task.flags */
#define TASK_PARALLEL	1
#define TASK_CREDIT	2	/* inserted on sleeper credit, not yet run */
#define TASK_WAITING	4	/* polls for a message that does not come */
#define TASK_STARVED	8	/* RULE_PRIO, RULE_ORDER: has been queued for too long to be passed */
#define TASK_PASSED	16	/* was passed in this window: it has been charged for it */
#define TASK_TURN	32	/* its job has this turn of the windows */
#define TASK_PLACE_SHIFT 8	/* RULE_ORDER: the place of its job in the queue of jobs, 0: first */
#define PLACES		256	/* the last is that of jobs without a place */

/*
 * The values of one task when insert_RQ compares it. insert_rq.h works on nothing
 * else, so a recorded decision can be replayed from these alone.
 */
struct rq_task {
	unsigned int		flags;		/* TASK_* */
	unsigned int		de;		/* overtakes suffered since it reached RQ */
	unsigned int		mes;		/* P*mes + (1-P)*COM, fixed point */
	unsigned int		com;		/* messages queued now, received + sent */
	unsigned int		rec;		/* messages queued now, received */
	unsigned int		flt;		/* page faults, see enum flt_mode */
	unsigned long long	cpu_ns;		/* CPU time used so far */
};

/* The knobs the kernel side reads. Declared to people in ctl/policy/knobs.py. */
struct knobs {
	unsigned int		rule;		/* enum insert_rule */
	unsigned int		mnol;		/* overtakes a local task may suffer */
	unsigned int		mnod;		/* overtakes a parallel task may suffer */
	unsigned int		p;		/* weight of the past in mes, fixed point */
	unsigned int		overload;	/* enum overload_mode */
	unsigned int		overloaded;	/* the agent's verdict: Mem > M */
	unsigned int		classify;	/* enum classify_mode */
	unsigned int		credit;		/* sleeper credit for local tasks */
	unsigned int		walk_max;	/* tasks one insertion may walk past */
	unsigned int		sensors;	/* read the observation map */
	unsigned int		trace;		/* record decisions */
	unsigned int		reinsert;	/* a message re-inserts a queued task */
	unsigned long long	quantum_ns;	/* slice of a nice 0 task */
	unsigned long long	credit_max_ns;	/* most sleep that counts as credit */
	unsigned long long	share_ns;	/* RULE_DYNAMIC: "share" of Monito */
	unsigned int		share_l;	/* L, fixed point: agents use it */
	unsigned int		top_ms;		/* longest time tops and credits may keep the rest waiting */
	unsigned int		unread_ms;	/* CPU time after which what is not read is not counted: agents use it */
	unsigned int		flt;		/* enum flt_mode */
	unsigned int		set_quantum;	/* CCS Alg. 2 is on */
	unsigned int		local_user;	/* the agent's verdict: a local user is present */
	unsigned int		slowed_jobs;	/* jobs that are JOB_SLOWED in job_states */
	unsigned int		stretch;	/* 1/W, fixed point, 0: 1; a slow node's quanta are longer */
	unsigned long long	spin_ns;	/* CPU time without a message after which a task that polls waits, 0: never */
	unsigned int		starve_ms;	/* RULE_PRIO, RULE_ORDER: how long others may have the CPU for themselves */
	unsigned int		epochs;		/* enum epochs_mode: what a task has in each epoch of a ready queue */
	unsigned long long	epoch_ns;	/* the longest epoch */
	unsigned int		c_mes;		/* enum c_mes_mode */
	unsigned int		waker_stays;	/* who wakes a task that takes the CPU goes on, at most to the tick */
	unsigned long long	gang_ns;	/* the period of the windows */
	unsigned int		gang;		/* enum gang_mode */
};

/* Section ".data.knobs": the set in use is set[active]; a change writes the other, then active. */
struct knob_sets {
	struct knobs		set[2];
	unsigned int		active;
	unsigned int		pad;
};

/*
 * Observation of one thread, written by the sensors, key: thread id.
 * Levels are what is queued now, not running sums. Read it with observe.h.
 */
struct obs {
	int			rcv;		/* packets queued to be received */
	int			snd;		/* packets queued to be sent */
	unsigned int		socks;		/* sockets charged to it */
	unsigned int		exited;		/* the thread is gone, a socket still names it */
	unsigned int		moved;		/* changes of its levels */
	unsigned int		pad;
	unsigned long long	arrived;	/* packets ever queued for it */
	unsigned long long	sent;		/* packets that it ever queued */
	unsigned long long	majflt;		/* major faults ever, swap-ins included */
	unsigned long long	swapin;		/* of these, served from swap */
	unsigned long long	swap_addr;	/* page of its last fault on a swap entry */
	unsigned long long	flt_at;		/* time >> FLT_SHIFT of the newest bucket */
	unsigned int		flt[FLT_BUCKETS];
};

/* struct sock_obs.charge: tid in the low bits, then the receive level, then the send level */
#define SOCK_TID_BITS	22	/* PID_MAX_LIMIT is 2^22 */
#define SOCK_LEVEL_BITS	21

/* One socket of a job, in its own storage (map "socks"): it goes when the socket does. */
struct sock_obs {
	unsigned long long	charge;		/* owner and levels: one word, so they change at once */
	unsigned int		tgid;		/* process of the owner */
	unsigned int		proto;		/* enum sock_proto */
	unsigned int		unit;		/* bytes of send memory one datagram takes */
	unsigned int		mem;		/* send memory of datagrams at the last look */
	unsigned int		changes;	/* of the charge */
	unsigned int		left_rcv;	/* packets that their owner leaves lying: not in the level */
	unsigned int		left_snd;
	unsigned int		counted;	/* in struct sensed.kinds */
	unsigned int		seen;		/* changes at the last second look, */
	unsigned int		pad;
	unsigned long long	since;		/* and the owner's CPU time when they were that many, 0: unknown */
};

enum sock_proto {
	SOCK_TCP = 1,
	SOCK_UDP = 2,
	SOCK_UNIX = 3,		/* stream and seqpacket */
	SOCK_UNIX_DGRAM = 4,
	NR_SOCK_PROTOS,
};

/* What the sensor of sockets is told, section ".data.sensing". */
struct sensing {
	unsigned int		everyone;	/* sockets of all tasks count, not those of jobs alone (classify=mes) */
	unsigned int		unread_ms;	/* CPU time after which what is not read is not counted, 0: never */
};

/* What the sensors count of themselves, map "sensed", one record (key 0). */
struct sensed {
	unsigned long long	lost_threads;	/* threads that were not observed: the map "obs" is full */
	unsigned long long	lost_sockets;	/* sockets that were not: no memory */
	unsigned int		kinds[8];	/* sockets that count now, by enum sock_proto */
};

/* User input, one record (key 0), written by the sensors. */
struct input_obs {
	unsigned long long	key_ns;		/* last keyboard event */
	unsigned long long	rel_ns;		/* last mouse event that is a user's: pointer.h */
	unsigned long long	tty_ns;		/* last terminal input */
	unsigned long long	keys, rels, ttys;	/* counts */
};

/* One task in a decision record or a queue snapshot. */
struct trace_task {
	unsigned int		tid;
	unsigned int		pad;
	struct rq_task		t;
	char			comm[COMM_LEN];
};

/* struct decision.flags */
#define DEC_PREEMPT	1	/* the running task was displaced */
#define DEC_TRUNCATED	2	/* the queue was longer than MAX_TRACE */
#define DEC_BOUNDED	4	/* walk_max ended the walk, or top_ms made a top a tail */
#define DEC_RUNNING	8	/* .running holds a task of ours */
#define DEC_OVERLOADED	16
#define DEC_GAP		32	/* no key was left where it belongs: it may be further back than the rule says */
#define DEC_JOBS	64	/* CAUSE_WINDOW: the window was the jobs', */
#define DEC_TURN	128	/* and one of several jobs had the turn */

/* One insertion, in the ring buffer "decisions". Only nr entries of queue are sent. */
struct decision {
	unsigned long long	ns;
	unsigned int		seq;		/* per CPU, gaps are lost records */
	unsigned int		cpu;
	unsigned int		rule;
	unsigned int		cause;
	unsigned int		flags;		/* DEC_* */
	unsigned int		position;	/* 0: ahead of all that is queued */
	unsigned int		nr_overtaken;
	unsigned int		nr;		/* tasks in queue[] */
	unsigned int		mnol, mnod;
	unsigned int		walk_max;
	unsigned int		from;		/* CAUSE_MESSAGE, CAUSE_WINDOW: index it held, else nr */
	unsigned long long	share_ns;
	struct trace_task	task;
	struct trace_task	running;
	unsigned int		overtaken[MAX_OVERTAKEN];
	struct trace_task	queue[MAX_TRACE];
};

/* Argument and answer of the "snapshot" program: one CPU's ready queue. */
struct snapshot {
	unsigned int		cpu;		/* in */
	unsigned int		nr;		/* tasks in queue[] */
	unsigned int		nr_queued;	/* tasks in the ready queue */
	unsigned int		nr_direct;	/* tasks waiting in the CPU's local DSQ: no order but arrival */
	unsigned int		nr_expired;	/* tasks that wait for the next epoch */
	unsigned int		running;	/* .curr holds a task of ours */
	struct trace_task	curr;
	struct trace_task	queue[MAX_TRACE];
};

/* Set by the loader before load, constant afterwards (section ".rodata.config"). */
struct config {
	unsigned long long	jobs_cgid;	/* cgroup id of the parent of all jobs */
	unsigned int		jobs_level;	/* its depth, root = 0 */
	unsigned int		nr_cpus;	/* possible CPUs */
	unsigned int		key_shift;	/* spacing of queue keys: 2^key_shift */
	unsigned int		watchdog_ms;	/* a runnable task that waits longer ends the scheduler */
	unsigned int		partial;	/* contract=class: only tasks of class SCHED_EXT are ours */
	unsigned int		pad;
};

/* The scheduler's counters of a job, key: cgroup id of the job. */
struct job_stat {
	unsigned long long	overtakes_given;
	unsigned long long	overtakes_suffered;
};

#define CLASS_UNKNOWN	0xfe	/* asked for by a system call that the kernel side does not know */

/*
 * A process was moved into a job of Slurm, or under contract=class into or out of any job; or, with @asked, a task of a
 * job was refused another scheduling class; or, without @pid, a cgroup's CPU limit was set. Ring buffer "joins".
 */
struct join {
	unsigned long long	job;		/* cgroup id of the job, or of the limited cgroup */
	unsigned int		pid;		/* 0: a limit */
	unsigned int		asked;		/* 0, or 1 + the class (linux/sched.h), or 1 + CLASS_UNKNOWN */
	char			comm[COMM_LEN];	/* with @asked: the program that asked */
};

/* Why the scheduler ended, filled by ops.exit. */
struct exit_record {
	int			kind;
	unsigned int		recorded;
	long long		code;
	char			reason[128];
	char			msg[1024];
	char			dump[32768];
};
/* cdef end */

/*
 * Statistics: one counter per line, per CPU, and per insert rule where the
 * last column says so. X(ENUM, name, description)
 */
#define COSCHED_STATS(X)						\
	X(INSERT, insertions, "tasks inserted into a ready queue")	\
	X(APPEND, appends, "insertions that overtook nobody")		\
	X(TOP, tops, "insertions led to the top without a walk")	\
	X(WALK, walks, "insertions that walked the queue")		\
	X(OVERTAKE, overtakes, "tasks overtaken (increments of de)")	\
	X(PREEMPT, preempts, "running tasks displaced")			\
	X(CREDIT, credits, "insertions on sleeper credit")		\
	X(MESSAGE, messages, "queued tasks re-inserted by a message")	\
	X(MSG_LOST, messages_lost, "messages for queued tasks dropped, slots full")	\
	X(FAR, messages_far, "messages for tasks too deep in a queue to be moved") \
	X(MSG_LATE, messages_late, "ends of quanta that had waited for as many messages as there are slots") \
	X(BOUNDED, bounded, "walks ended by walk_max, tops denied by top_ms")	\
	X(GAP, gaps, "key gaps exhausted")				\
	X(RENUMBER, renumbers, "key gaps opened by giving tasks new keys")	\
	X(GAP_FAR, gaps_far, "key gaps too deep in a queue to be opened")	\
	X(WAIT, waits, "quanta given up by tasks that poll for a message")	\
	X(EXPIRE, expirations, "tasks that used their quantum and waited for the next epoch") \
	X(EPOCH, epochs, "epochs that ended while a task waited for the next one") \
	X(EPOCH_LONG, epochs_long, "of these, ended by epoch_ms before all quanta were used") \
	X(STEAL, steals, "tasks taken by an idle CPU")			\
	X(STEAL_BOUNDED, steals_bounded, "searches for a task that ended before all CPUs were asked") \
	X(LEFT_QUIET, quiet_left, "times a task of a job came where only local tasks had been") \
	X(GANG, gangs, "tasks that went first because the window was theirs") \
	X(DIRECT, directs, "tasks sent straight to a CPU, no queue")	\
	X(MODE_PRED, mode_predictive, "insertions decided by mes or COM")	\
	X(MODE_DYN, mode_dynamic, "insertions decided by received messages")	\
	X(MODE_CSM, mode_csm, "insertions decided by page faults")	\
	X(TRACE, traced, "decisions recorded")				\
	X(TRACE_LOST, trace_lost, "decisions lost: ring buffer full, or a task stolen meanwhile") \
	X(JOIN_LOST, joins_lost, "processes moved into a job and not announced: ring buffer full") \
	X(CLASS_REFUSED, class_refused, "changes of scheduling class refused to tasks of jobs (contract=class)")

#define COSCHED_STAT_ENUM(id, name, desc)	STAT_##id,
enum cosched_stat { COSCHED_STATS(COSCHED_STAT_ENUM) NR_COSCHED_STATS };

#endif /* COSCHED_H */
