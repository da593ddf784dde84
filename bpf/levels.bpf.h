/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The sensor of sockets: owner and levels of each. The sensor adds up nothing
 * from events: when packets may have entered or left, it reads the level from
 * the socket, and adds the difference to the last level to the owner's levels.
 * So an owner's level is always the sum of the last levels of its sockets. Two
 * CPUs may look at one socket at once. Owner and levels are therefore one word,
 * changed by compare-and-swap; a CPU that changed the word looks again, until
 * the word agrees with the socket. A probe follows each change of the queue
 * (sockets.bpf.c), and the last probe to store reads the queue after the change:
 * a quiet socket is exact.
 *
 * Functions that are not static are verified once, not at each call: with all
 * of them static the object would take four times as long to load.
 *
 * TCP's send level is unsent buffers plus unacknowledged packets; a Unix
 * stream's is what its peer has not read. A datagram socket does not know how
 * many packets it has in flight, only their memory (sk_wmem_alloc): its send
 * level is that memory in units of its last packet, exact for packets of one
 * size and never 0 while something is in flight.
 *
 * Some messages are never read: UCX, below MPI, leaves a wake-up datagram in a
 * socket of each rank. Counted, it would say of every rank for ever that a
 * message waits for it. A level that has not changed while its owner had
 * unread_ms of CPU time does not count until it changes: look_again(). What a
 * task that sleeps has not read is another matter.
 *
 * The owner is the thread that made, accepted or last received on the socket:
 * all three happen in its own context. Softirq never looks at "current". When
 * the owner exits, the charge goes to the process' main thread at the socket's
 * next event, or to nobody (tid 0) when that is gone too. Closing takes all
 * levels off at once (SOCK_CLOSED); the storage goes with the socket.
 */
#ifndef LEVELS_BPF_H
#define LEVELS_BPF_H

#include "observed.bpf.h"
#include "observe.h"

#define AF_UNIX_	1
#define AF_INET_	2
#define AF_INET6_	10
#define STREAM_		1
#define DGRAM_		2
#define PROTO_TCP	6
#define PROTO_UDP	17
#define ESTABLISHED_	1
#define WMEM_NOISE	64	/* sock_wfree keeps 1 byte per CPU while it calls; no packet is this small */

#define RCV	1		/* levels to be read */
#define SND	2

#define KEEP	-1LL		/* claims: the owner stays, */
#define NOBODY	0LL		/* goes; any other: becomes this thread */

/* Tells the verifier that a loop ends: cheaper in each round than bpf_for(), and to verify than a count. */
#define can_loop ({								\
	__label__ ends, goes_on;						\
	bool more = true;							\
	asm volatile goto("may_goto %l[ends]" :::: ends);			\
	goto goes_on;								\
ends:										\
	more = false;								\
goes_on:;									\
	more; })

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, u32);
	__type(value, struct sensed);
} sensed SEC(".maps");

static __always_inline struct sensed *count(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&sensed, &zero);
}

/* ---- levels ---- */

/* The level without the unread packets. If some of these have gone after all, fewer are unread. */
static __always_inline u32 not_left(u32 n, u32 *left)
{
	if (n < *left)
		*left = n;
	return n - *left;
}

static __always_inline u32 rcv_queued(struct sock *sk, struct sock_obs *s)
{
	u32 n = *(volatile u32 *)&sk->sk_receive_queue.qlen;

	if (s->proto == SOCK_UDP)
		n += bpf_core_cast(sk, struct udp_sock)->reader_queue.qlen;
	else if (s->proto == SOCK_UNIX && n && sk->__sk_common.skc_state != ESTABLISHED_)
		n = 0;		/* a listener's queue holds connections, not messages */
	return n;
}

/* @gone: bytes of send memory that are about to be given back. */
static __always_inline u32 datagrams(struct sock *sk, struct sock_obs *s, u32 gone)
{
	u32 mem = *(volatile u32 *)&sk->sk_wmem_alloc.refs.counter - 1 - gone;

	if ((s32)mem < WMEM_NOISE)
		mem = 0;
	s->mem = mem;
	if (!mem)
		return 0;
	if (mem <= s->unit || !s->unit)
		return 1;
	return (mem + s->unit / 2) / s->unit;
}

static __always_inline u32 snd_queued(struct sock *sk, struct sock_obs *s, u32 gone)
{
	struct sock *peer;

	switch (s->proto) {
	case SOCK_TCP:
		return *(volatile u32 *)&sk->sk_write_queue.qlen +
		       bpf_core_cast(sk, struct tcp_sock)->packets_out;
	case SOCK_UNIX:
		peer = bpf_core_cast(sk, struct unix_sock)->peer;
		if (!peer || peer->__sk_common.skc_state != ESTABLISHED_)
			return 0;
		return *(volatile u32 *)&peer->sk_receive_queue.qlen;
	default:
		return datagrams(sk, s, gone);
	}
}

/* ---- threads ---- */

/* Has "current" a record, or can one be made? */
__noinline int have_obs(u32 tid)
{
	struct obs *o = bpf_map_lookup_elem(&obs, &tid), fresh = {};

	if (o) {
		if (o->exited)		/* left by a dead thread of the same number */
			o->exited = 0;
		return 1;
	}
	fresh.majflt = bpf_get_current_task_btf()->maj_flt;
	if (bpf_map_update_elem(&obs, &tid, &fresh, BPF_NOEXIST)) {
		struct sensed *c = count();

		if (c)
			__sync_fetch_and_add(&c->lost_threads, 1);
		return 0;
	}
	return 1;
}

__noinline int exited(u32 tid)
{
	struct obs *o = bpf_map_lookup_elem(&obs, &tid);

	if (!o)
		return 0;
	__sync_fetch_and_add(&o->exited, 1);	/* a full barrier: charge() looks at both, too */
	if (!*(volatile u32 *)&o->socks)
		bpf_map_delete_elem(&obs, &tid);
	return 0;
}

/* The record of a socket's owner, or of the main thread once the owner is gone; *tid is the thread. */
static __always_inline struct obs *living_owner(u32 *tid, struct sock_obs *s)
{
	struct obs *o = bpf_map_lookup_elem(&obs, tid);

	if (o && !o->exited)
		return o;
	*tid = s->tgid;
	o = bpf_map_lookup_elem(&obs, tid);
	if (o && !o->exited)
		return o;
	*tid = 0;
	return NULL;
}

/* ---- charging ---- */

static __always_inline void charge(struct obs *o, int rcv, int snd)
{
	if (rcv)
		__sync_fetch_and_add(&o->rcv, rcv);
	if (snd)
		__sync_fetch_and_add(&o->snd, snd);
	if (rcv > 0)
		__sync_fetch_and_add(&o->arrived, rcv);
	if (snd > 0)
		__sync_fetch_and_add(&o->sent, snd);
	o->moved++;	/* looked at for being another: a lost one does not matter */
}

/* A socket leaves its owner. */
__noinline int discharge(u64 charged)
{
	u32 tid = charge_tid(charged);
	struct obs *o = tid ? bpf_map_lookup_elem(&obs, &tid) : NULL;

	if (!o)
		return 0;
	charge(o, -charge_rcv(charged), -charge_snd(charged));
	__sync_fetch_and_sub(&o->socks, 1);
	if (*(volatile u32 *)&o->exited && !*(volatile u32 *)&o->socks)
		bpf_map_delete_elem(&obs, &tid);
	return 0;
}

/*
 * Bring what is stored of a socket in line with the socket. @claim: its new
 * owner, KEEP or NOBODY. Returns whether it was not.
 */
__noinline int settle(struct sock *sk __arg_untrusted, struct sock_obs *s __arg_nonnull, s64 claim, u32 which, u32 gone)
{
	u32 tid, rcv, snd;
	int changed = 0;
	struct obs *o;
	u64 old, new;

	while (can_loop) {	/* each further round needs another CPU's change */
		old = *(volatile u64 *)&s->charge;
		if (sock_closed(old))
			break;
		rcv = which & RCV ? not_left(rcv_queued(sk, s), &s->left_rcv) : charge_rcv(old);
		snd = which & SND ? not_left(snd_queued(sk, s, gone), &s->left_snd) : charge_snd(old);
		tid = claim == KEEP ? charge_tid(old) : claim;
		new = charge_of(tid, rcv, snd);
		if (new == old)
			break;
		o = tid ? living_owner(&tid, s) : NULL;
		new = charge_of(tid, rcv, snd);
		if (__sync_val_compare_and_swap(&s->charge, old, new) != old)
			continue;
		s->changes++;
		changed = 1;
		if (charge_tid(old) != tid) {
			discharge(old);
			old = 0;
			if (o)
				__sync_fetch_and_add(&o->socks, 1);
		}
		if (o)
			charge(o, charge_rcv(new) - charge_rcv(old), charge_snd(new) - charge_snd(old));
	}
	return changed;
}

/* The socket was closed: no thread is charged any more. */
static __always_inline void close_obs(struct sock_obs *s)
{
	u64 old = __sync_lock_test_and_set(&s->charge, SOCK_CLOSED);
	struct sensed *c = count();

	if (sock_closed(old))
		return;
	discharge(old);
	if (c && s->proto < NR_SOCK_PROTOS)
		__sync_fetch_and_sub(&c->kinds[s->proto & 7], 1);
}

#endif /* LEVELS_BPF_H */
