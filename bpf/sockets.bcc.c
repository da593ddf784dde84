// SPDX-License-Identifier: GPL-2.0-only
/*
 * The sensor of sockets: what is kept of each. Nothing is added up from
 * events: when packets may have entered or left, the level is read from the
 * socket, and the difference to the last level goes to the owner, so what an
 * owner holds is always the sum of the last levels of its sockets. Two CPUs
 * may look at one socket at once. Owner and levels are therefore one word,
 * changed by compare-and-swap; and who has changed it looks again, until what
 * is stored is what is there. A change of the queue is followed by a probe
 * (packets.bcc.c), and the last of them to store reads the queue after it: a
 * quiet socket is exact, at the latest with the next sweep.
 *
 * TCP's send level is unsent buffers plus unacknowledged packets; a Unix
 * stream's is what its peer has not read. A datagram socket does not know how
 * many packets it has in flight, only their memory (sk_wmem_alloc): its send
 * level is that memory in units of its last packet, exact for packets of one
 * size and never 0 while something is in flight.
 *
 * Some messages are never read: UCX, below MPI, leaves a wake-up datagram in a
 * socket of each rank. A level that has not changed while its owner had
 * unread_ms of CPU time does not count until it changes; see ctl/kernel/unread.py.
 *
 * The owner is the thread that made, accepted or last received on the socket:
 * all three happen in its own context. Softirq never looks at "current". When
 * the owner exits, the charge goes to the process' main thread at the socket's
 * next event, or to nobody (tid 0) when that is gone too. Closing takes all
 * levels off at once (SOCK_CLOSED). The entry itself goes when the socket is
 * destroyed, when no packet can be on its way to it, or with the second sweep
 * that finds it closed.
 */

#define AF_UNIX_	1
#define AF_INET_	2
#define AF_INET6_	10
#define STREAM_		1
#define DGRAM_		2
#define SEQPACKET_	5
#define PROTO_TCP	6
#define PROTO_UDP	17
#define ESTABLISHED_	1
#define LOOKS		8	/* bound on looking again; each needs another CPU's change */
#define WMEM_NOISE	64	/* sock_wfree keeps 1 byte per CPU while it calls; no packet is this small */

/* ---- levels ---- */

#define RCV	1
#define SND	2

/* Without what lies there. Where some of it has gone after all, as much less lies there. */
static inline u32 not_left(u32 n, u32 *left)
{
	if (n < *left)
		*left = n;
	return n - *left;
}

static inline u32 rcv_queued(void *sk, struct sock_obs *s)
{
	u32 n = FIELD(u32, sk, F_SK_RCVQ_LEN);

	if (s->proto == SOCK_UDP)
		n += FIELD(u32, sk, F_UDP_READER_LEN);
	else if (s->proto == SOCK_UNIX && n && FIELD(u8, sk, F_SK_STATE) != ESTABLISHED_)
		n = 0;		/* a listener's queue holds connections, not messages */
	return n;
}

static inline u32 snd_queued(void *sk, struct sock_obs *s)
{
	void *peer;
	u32 mem;

	switch (s->proto) {
	case SOCK_TCP:
		return FIELD(u32, sk, F_SK_WRITEQ_LEN) + FIELD(u32, sk, F_TCP_PACKETS_OUT);
	case SOCK_UNIX:
		peer = FIELD(void *, sk, F_UNIX_PEER);
		if (!peer || FIELD(u8, peer, F_SK_STATE) != ESTABLISHED_)
			return 0;
		return FIELD(u32, peer, F_SK_RCVQ_LEN);
	default:
		mem = FIELD(u32, sk, F_SK_WMEM) - 1;
		if (mem < WMEM_NOISE)
			return 0;
		if (mem <= s->unit || !s->unit)
			return 1;
		return (mem + s->unit / 2) / s->unit;
	}
}

/* ---- charging ---- */

static inline void charge_add(u32 tid, int rcv, int snd, int sockets)
{
	struct obs *o;

	if (!tid)
		return;
	o = obs.lookup(&tid);
	if (!o)
		return;
	if (rcv)
		__sync_fetch_and_add(&o->rcv, rcv);
	if (snd)
		__sync_fetch_and_add(&o->snd, snd);
	if (rcv > 0)
		__sync_fetch_and_add(&o->arrived, rcv);
	if (rcv || snd)
		o->moved++;	/* looked at for being another: a lost one does not matter */
	if (sockets)
		__sync_fetch_and_add(&o->socks, sockets);
	if (sockets < 0 && *(volatile u32 *)&o->exited && !*(volatile u32 *)&o->socks)
		obs.delete(&tid);
}

static inline void charge_move(u64 old, u64 new)
{
	u32 from = charge_tid(old), to = charge_tid(new);

	if (from != to) {
		charge_add(from, -charge_rcv(old), -charge_snd(old), -1);
		old = 0;
	}
	charge_add(to, charge_rcv(new) - charge_rcv(old), charge_snd(new) - charge_snd(old), from != to);
}

/* The owner, or who stands in for it once it is gone. */
static inline u32 living_owner(u32 tid, struct sock_obs *s)
{
	struct obs *o;

	o = obs.lookup(&tid);
	if (o && !o->exited)
		return tid;
	tid = s->tgid;
	o = obs.lookup(&tid);
	return o && !o->exited ? tid : 0;
}

/* Bring what is stored of a socket in line with the socket; claim: its new owner, or 0. */
static inline void settle(void *sk, struct sock_obs *s, u32 claim, int which)
{
	u64 old, new;
	u32 tid, rcv, snd;
	int i;

#pragma clang loop unroll(disable)
	for (i = 0; i < LOOKS; i++) {
		old = *(volatile u64 *)&s->charge;
		if (sock_closed(old))
			return;
		rcv = which & RCV ? not_left(rcv_queued(sk, s), &s->left_rcv) : charge_rcv(old);
		snd = which & SND ? not_left(snd_queued(sk, s), &s->left_snd) : charge_snd(old);
		tid = claim ? claim : charge_tid(old);
		new = charge_of(tid, rcv, snd);
		if (new == old)
			return;
		if (!claim && tid)
			new = charge_of(living_owner(tid, s), rcv, snd);
		if (__sync_val_compare_and_swap(&s->charge, old, new) == old) {
			s->changes++;
			charge_move(old, new);
		}
	}
}

static inline u32 proto_of(void *sk)
{
	u16 family = FIELD(u16, sk, F_SK_FAMILY), type;

	if (family != AF_UNIX_ && family != AF_INET_ && family != AF_INET6_)
		return 0;
	type = FIELD(u16, sk, F_SK_TYPE);
	if (family == AF_UNIX_)
		return type == DGRAM_ ? SOCK_UNIX_DGRAM : SOCK_UNIX;
	family = FIELD(u16, sk, F_SK_PROTOCOL);
	if (type == STREAM_ && family == PROTO_TCP)
		return SOCK_TCP;
	return type == DGRAM_ && family == PROTO_UDP ? SOCK_UDP : 0;
}

/* "current" received on a socket, made it or accepted it: the entry of it, and in *claim "current" if it gets it. */
static inline struct sock_obs *own(u64 key, u32 *claim, u32 *which)
{
	u64 id = bpf_get_current_pid_tgid();
	struct sock_obs *s = socks.lookup(&key), fresh = {};

	if (!s || s->charge == SOCK_CLOSED) {
		fresh.proto = proto_of((void *)key);
		if (!fresh.proto)
			return 0;
		*which = RCV | SND;
		if (!s) {
			socks.insert(&key, &fresh);
			s = socks.lookup(&key);
			if (!s)
				return 0;
		} else {	/* of a socket that was here before: its end was not seen */
			s->proto = fresh.proto;
			s->swept = s->left_rcv = s->left_snd = 0;
			__sync_val_compare_and_swap(&s->charge, SOCK_CLOSED, 0);
		}
	}
	if (charge_tid(s->charge) != (u32)id) {
		s->tgid = id >> 32;
		if (!my_obs(id))
			return 0;
		*claim = id;
	}
	return s;
}

/* ---- looking ---- */

/* What a probe wants looked at. One for each CPU, as the kernel runs one probe at a time there. */
struct look {
	u64	sk;
	u64	other;	/* Unix: the socket that what goes in here comes from, or 0 */
	u32	which;	/* RCV, SND: to be read of sk; of the other the opposite */
	u32	owned;	/* "current" owns sk from now on */
	u32	unit;	/* memory of the datagram that the sender of the two has sent, 0: none */
};

BPF_PERCPU_ARRAY(looks, struct look, 1);
BPF_PROG_ARRAY(programs, 1);

/* The end of most probes, once for all of them. */
int on_look(struct pt_regs *ctx)
{
	u32 zero = 0, claim, which, i;
	struct look *l = looks.lookup(&zero);
	struct sock_obs *s;
	u64 key;

	if (!l)
		return 0;
	key = l->sk;
	which = l->which;
#pragma clang loop unroll(disable)
	for (i = 0; i < 2 && key; i++) {
		claim = 0;
		s = !i && l->owned ? own(key, &claim, &which) : socks.lookup(&key);
		if (s && !(i && s->proto < SOCK_UNIX)) {
			if (l->unit && which & SND)
				s->unit = l->unit;
			if (claim || which)
				settle((void *)key, s, claim, which);
		}
		key = l->other;
		which = l->which ^ (RCV | SND);
	}
	return 0;
}

/* Ends the program. */
static inline void look(struct pt_regs *ctx, struct look want)
{
	u32 zero = 0;
	struct look *l = looks.lookup(&zero);

	if (!l)
		return;
	*l = want;
	programs.call(ctx, 0);
}

/* ---- birth, owners and death ---- */

int on_create(struct pt_regs *ctx)
{
	if (PT_REGS_PARM5(ctx))		/* the kernel's own socket */
		return 0;
	look(ctx, (struct look){ .sk = FIELD(u64, PT_REGS_PARM1(ctx), F_SOCKET_SK), .which = RCV, .owned = 1 });
	return 0;
}

static inline void closed(u64 key)
{
	struct sock_obs *s = socks.lookup(&key);
	u64 old;
	int i;

	if (!s)
		return;
#pragma clang loop unroll(disable)
	for (i = 0; i < LOOKS; i++) {
		old = *(volatile u64 *)&s->charge;
		if (sock_closed(old))
			return;
		if (__sync_val_compare_and_swap(&s->charge, old, SOCK_CLOSED) == old) {
			charge_add(charge_tid(old), -charge_rcv(old), -charge_snd(old), -1);
			return;
		}
	}
}

int on_close(struct pt_regs *ctx)
{
	closed(FIELD(u64, PT_REGS_PARM1(ctx), F_SOCKET_SK));
	return 0;
}

int on_destroy(struct pt_regs *ctx)
{
	u64 key = PT_REGS_PARM1(ctx);

	closed(key);
	socks.delete(&key);
	return 0;
}

/* ---- the sweep ---- */

/* A socket whose end was not seen is read after it was freed: then it belongs to no struct socket, or to another. */
static inline int open(void *sk)
{
	void *socket = FIELD(void *, sk, F_SK_SOCKET);

	return socket && FIELD(void *, socket, F_SOCKET_SK) == sk;
}

/*
 * Run by the agent for every socket known. Its address comes as a raw
 * tracepoint's argument; the second is 1 if its owner leaves lying what is in
 * it now, which is then not counted any more.
 */
int on_sweep_socket(u64 *args)
{
	u64 key = args[0];
	struct sock_obs *s = socks.lookup(&key);

	if (!s)
		return 0;
	if (s->charge == SOCK_CLOSED) {
		/* SOCK_GONE: nobody brings it back to life while it is deleted. */
		if (s->swept++ && __sync_val_compare_and_swap(&s->charge, SOCK_CLOSED, SOCK_GONE) == SOCK_CLOSED)
			socks.delete(&key);
	} else if (open((void *)key)) {
		if (args[1]) {
			s->left_rcv += charge_rcv(s->charge);
			s->left_snd += charge_snd(s->charge);
		}
		settle((void *)key, s, 0, RCV | SND);
	} else {
		closed(key);
	}
	return 0;
}
