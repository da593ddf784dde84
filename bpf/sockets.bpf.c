// SPDX-License-Identifier: GPL-2.0-only
/*
 * The sensor of sockets: where packets enter and leave (what is kept of them: levels.bpf.h).
 *
 *             packets enter                   packets leave
 *   TCP  rcv  sock_def_readable               tcp_cleanup_rbuf
 *        snd  tcp_sendmsg_locked              tcp_newly_delivered (acked)
 *   UDP  rcv  sock_def_readable               skb_consume_udp
 *        snd  udp_sendmsg, udpv6_sendmsg      sock_wfree
 *   Unix rcv  sock_def_readable               scm_recv_unix, unix_stream_splice_read
 *        snd  the same, seen from the peer; of datagrams
 *             unix_dgram_sendmsg              unix_write_space
 *   all       sock_def_wakeup (state change), __sock_release (close); tcp_shutdown,
 *             tcp_disconnect, unix_dgram_disconnected (drop what is there)
 *
 * Only sockets of jobs are kept: one gets its storage when a task of a job
 * makes it, accepts it or receives on it, and whoever is none passes with one
 * look at a pointer in the socket. A task that joins a job brings its sockets
 * in as it next receives on them; one that a task of no job receives on is
 * charged to nobody.
 *
 * A program has two forms, of which one is loaded: on the functions' trampolines
 * (fentry), and as a kprobe. The kernel lets no kprobe near a socket's storage,
 * so with kprobes what is kept is in a hash table by the socket's address, and
 * the socket's end is one more probe. What is read at a function's return has
 * one form: a kretprobe does not know what the function was called with.
 *
 * The kernel runs one instance of a program at a time on a CPU: an event that
 * falls into another's time, of a softirq or of a task that preempts, is lost.
 * look_again() makes it up, once a second: it looks at jobs' sockets, and here.
 */
#include "levels.bpf.h"
#include "slurm.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct config cfg SEC(".rodata.config");
struct sensing sensing SEC(".data.sensing");
const volatile u32 kprobes SEC(".rodata.kprobes");	/* the form of programs that have two */

/* With kprobes only. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct sock_obs);
} by_address SEC(".maps");

/* Tells the agent that the first socket of a kind counts: its probes are wanted. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} kind_signal SEC(".maps");

/* The two forms of a program on a function of one, two, three or more arguments of which the first matters. */
#define PROBE(name, function, type)						\
static __always_inline void name(type *first);					\
SEC("fentry/" #function)							\
int BPF_PROG(name##_fentry, type *first)					\
{										\
	name(first);							\
	return 0;								\
}										\
SEC("kprobe/" #function)							\
int BPF_KPROBE(name##_kprobe, type *first)					\
{										\
	name(bpf_core_cast(first, type));					\
	return 0;								\
}										\
static __always_inline void name(type *first)

/* ---- whose sockets count ---- */

#define VERDICTS	64

/* By cgroup, which has its number for ever: the number, and in the lowest bit whether its tasks are of a job. */
static u64 verdicts[VERDICTS];

__noinline int is_of_job(struct cgroup *cgrp __arg_untrusted, u64 id)
{
	if (bpf_get_current_ancestor_cgroup_id(cfg.jobs_level) == cfg.jobs_cgid)
		return id != cfg.jobs_cgid;
	return slurm_job_of(cgrp) != 0;
}

/* Do sockets of "current" count? */
static __always_inline bool counts(void)
{
	struct cgroup *cgrp;
	u64 id, *verdict;

	if (sensing.everyone)
		return true;
	cgrp = bpf_get_current_task_btf()->cgroups->dfl_cgrp;
	id = cgrp->kn->id;
	verdict = &verdicts[id & (VERDICTS - 1)];
	if (*verdict >> 1 != id)
		*verdict = id << 1 | is_of_job(cgrp, id);
	return *verdict & 1;
}

static __always_inline struct sock_obs *find(struct sock *sk)
{
	u64 key = (u64)sk;

	if (kprobes)
		return bpf_map_lookup_elem(&by_address, &key);
	if (!sk->sk_bpf_storage)
		return NULL;
	return bpf_sk_storage_get(&socks, sk, 0, 0);
}

static __always_inline u32 proto_of(struct sock *sk)
{
	u16 family = sk->__sk_common.skc_family, type = sk->sk_type;

	if (family == AF_UNIX_)
		return type == DGRAM_ ? SOCK_UNIX_DGRAM : SOCK_UNIX;
	if (family != AF_INET_ && family != AF_INET6_)
		return 0;
	if (type == STREAM_ && sk->sk_protocol == PROTO_TCP)
		return SOCK_TCP;
	return type == DGRAM_ && sk->sk_protocol == PROTO_UDP ? SOCK_UDP : 0;
}

static __always_inline struct sock_obs *make(struct sock *sk)
{
	struct sock_obs fresh = { .proto = proto_of(sk) }, *s;
	struct sensed *c = count();
	u64 key = (u64)sk;

	if (!fresh.proto || !c)
		return NULL;
	if (kprobes) {
		bpf_map_update_elem(&by_address, &key, &fresh, BPF_NOEXIST);
		s = bpf_map_lookup_elem(&by_address, &key);
	} else {
		s = bpf_sk_storage_get(&socks, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
	}
	if (!s) {
		__sync_fetch_and_add(&c->lost_sockets, 1);
		return NULL;
	}
	if (!__sync_lock_test_and_set(&s->counted, 1) &&
	    !__sync_fetch_and_add(&c->kinds[fresh.proto & 7], 1))
		bpf_ringbuf_output(&kind_signal, &fresh.proto, sizeof(fresh.proto), 0);
	return s;
}

/* "current" made a socket, accepted it or received on it; it has this of ours, or NULL. */
static __always_inline void own(struct sock *sk, struct sock_obs *s, u32 which)
{
	s64 claim = KEEP;
	u64 id;

	if (!counts()) {
		if (s)
			settle(sk, s, NOBODY, which, 0);
		return;
	}
	if (!s) {
		s = make(sk);
		which = RCV | SND;
		if (!s)
			return;
	}
	id = bpf_get_current_pid_tgid();
	if (charge_tid(s->charge) != (u32)id && have_obs(id)) {
		s->tgid = id >> 32;
		claim = (u32)id;
	}
	settle(sk, s, claim, which, 0);
}

/* The other end of a Unix stream, if its level is kept: it sees its send level in our receive queue. */
static __always_inline struct sock *kept_peer(struct sock *sk)
{
	struct unix_sock *u;
	struct sock *peer;

	if (sk->__sk_common.skc_family != AF_UNIX_ || sk->sk_type == DGRAM_)
		return NULL;
	peer = bpf_core_cast(sk, struct unix_sock)->peer;
	if (kprobes || !peer || !peer->sk_bpf_storage)
		return kprobes ? peer : NULL;
	/* It lives: it has just sent, or we hold it as long as our end is open. */
	u = bpf_skc_to_unix_sock(sk);
	return u ? u->peer : NULL;
}

static __always_inline void look(struct sock *sk, u32 which)
{
	struct sock_obs *s = find(sk);

	if (s)
		settle(sk, s, KEEP, which, 0);
}

static __always_inline void look_at_peer(struct sock *sk)
{
	struct sock *peer = kept_peer(sk);

	if (peer)
		look(peer, SND);
}

/* ---- always on: how sockets come, and go ---- */

SEC("fentry/security_socket_post_create")
int BPF_PROG(on_create_fentry, struct socket *sock, int family, int type, int protocol, int kern)
{
	struct sock *sk = sock->sk;

	if (!kern && sk)
		own(sk, find(sk), RCV);
	return 0;
}

SEC("kprobe/security_socket_post_create")
int BPF_KPROBE(on_create_kprobe, struct socket *sock, int family, int type, int protocol, int kern)
{
	struct sock *sk = bpf_core_cast(sock, struct socket)->sk;

	if (!kern)
		own(sk, find(sk), RCV);
	return 0;
}

PROBE(on_graft, security_sock_graft, struct sock)
{
	own(first, find(first), RCV);
}

PROBE(on_close, __sock_release, struct socket)
{
	struct sock *sk = first->sk;
	struct sock_obs *s = sk ? find(sk) : NULL;

	if (s)
		close_obs(s);
}

/* With kprobes only: a socket's storage goes by itself. */
SEC("kprobe/bpf_sk_storage_free")
int BPF_KPROBE(on_free_kprobe, struct sock *sk)
{
	u64 key = (u64)sk;

	bpf_map_delete_elem(&by_address, &key);
	return 0;
}

/* It is also called before a receiver waits: then nothing was received. */
static __always_inline void tcp_received(struct sock *sk, int copied)
{
	if (copied > 0)
		own(sk, find(sk), RCV);
}

SEC("fentry/tcp_cleanup_rbuf")
int BPF_PROG(on_tcp_received_fentry, struct sock *sk, int copied)
{
	tcp_received(sk, copied);
	return 0;
}

SEC("kprobe/tcp_cleanup_rbuf")
int BPF_KPROBE(on_tcp_received_kprobe, struct sock *sk, int copied)
{
	tcp_received(bpf_core_cast(sk, struct sock), copied);
	return 0;
}

PROBE(on_udp_received, skb_consume_udp, struct sock)
{
	own(first, find(first), RCV);
}

PROBE(on_unix_received, scm_recv_unix, struct socket)
{
	struct sock *sk = first->sk;

	if (sk) {
		own(sk, find(sk), RCV);
		look_at_peer(sk);
	}
}

/* ---- on while sockets count ---- */

PROBE(on_readable, sock_def_readable, struct sock)
{
	struct sock_obs *s = find(first);

	/* where data came an acknowledgement was, too */
	if (s)
		settle(first, s, KEEP, s->proto == SOCK_TCP ? RCV | SND : RCV, 0);
	look_at_peer(first);
}

PROBE(on_wakeup, sock_def_wakeup, struct sock)
{
	look(first, RCV | SND);
}

/* ---- on while TCP sockets count ---- */

SEC("fexit/tcp_sendmsg_locked")
int BPF_PROG(on_tcp_sent, struct sock *sk)
{
	look(sk, SND);
	return 0;
}

SEC("fexit/tcp_shutdown")
int BPF_PROG(on_shutdown, struct sock *sk)
{
	look(sk, RCV | SND);
	return 0;
}

SEC("fexit/tcp_disconnect")
int BPF_PROG(on_tcp_disconnected, struct sock *sk)
{
	look(sk, RCV | SND);
	return 0;
}

PROBE(on_acked, tcp_newly_delivered, struct sock)
{
	look(first, SND);
}

/* ---- on while UDP sockets count ---- */

/* The owner has sent something, whether it is still seen or not. */
static __always_inline void touch(struct sock_obs *s)
{
	u32 tid = sock_tid(s);
	struct obs *o = tid ? bpf_map_lookup_elem(&obs, &tid) : NULL;

	if (o)
		o->moved++;
}

/* A datagram has been sent, and is in flight or was taken from us already. */
static __always_inline void sent(struct sock *sk)
{
	struct sock_obs *s = find(sk);
	u32 mem;

	if (!s || s->proto < SOCK_UDP || s->proto == SOCK_UNIX)
		return;
	mem = *(volatile u32 *)&sk->sk_wmem_alloc.refs.counter - 1;
	if ((s32)mem >= WMEM_NOISE && mem > s->mem)
		s->unit = mem - s->mem;
	if (!settle(sk, s, KEEP, SND, 0))
		touch(s);
}

SEC("fexit/udp_sendmsg")
int BPF_PROG(on_udp_sent, struct sock *sk)
{
	sent(sk);
	return 0;
}

SEC("fexit/udpv6_sendmsg")
int BPF_PROG(on_udp6_sent, struct sock *sk)
{
	sent(sk);
	return 0;
}

/*
 * Its memory goes right after this. Two that go at once on two CPUs may each
 * see the other's still there: the sender's own look comes after, and where it
 * is a device that lets go, look_again().
 */
PROBE(on_wfree, sock_wfree, struct sk_buff)
{
	struct sock *sk = first->sk;
	struct sock_obs *s = sk ? find(sk) : NULL;

	if (s && s->proto == SOCK_UDP)
		settle(sk, s, KEEP, SND, first->truesize);
}

/* ---- on while Unix sockets count ---- */

SEC("fexit/unix_stream_splice_read")
int BPF_PROG(on_spliced, struct socket *sock)
{
	struct sock *sk = sock->sk;

	if (sk) {
		own(sk, find(sk), RCV);
		look_at_peer(sk);
	}
	return 0;
}

SEC("fexit/unix_dgram_sendmsg")
int BPF_PROG(on_dgram_sent, struct socket *sock)
{
	struct sock *sk = sock->sk;

	if (sk)
		sent(sk);
	return 0;
}

/* Called for the sender when the receiver frees a packet. */
PROBE(on_dgram_freed, unix_write_space, struct sock)
{
	if (first->sk_type == DGRAM_)
		look(first, SND);
}

SEC("fexit/unix_dgram_disconnected")
int BPF_PROG(on_disconnected, struct sock *sk)
{
	look(sk, RCV);
	return 0;
}

/* ---- the life of threads: for all that is kept of them ---- */

SEC("fentry/sched_autogroup_exit_task")
int BPF_PROG(on_exit)
{
	exited(bpf_get_current_pid_tgid());
	return 0;
}

/* execve() by a thread: it takes the number of the main thread, which is dead. */
SEC("fentry/exchange_tids")
int BPF_PROG(on_exchange_tids)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 tgid = id >> 32;
	struct obs *o;

	exited(id);
	o = bpf_map_lookup_elem(&obs, &tgid);
	if (o)
		o->exited = 0;
	return 0;
}

/* ---- the second look: programs that the agent runs over what is kept ---- */

/* Is what lies there left lying? */
static __always_inline void note_unread(struct sock_obs *s)
{
	u64 charged = s->charge, used;
	struct task_struct *p;

	if (!charge_tid(charged) || !(charge_rcv(charged) | charge_snd(charged))) {
		s->since = 0;
		return;
	}
	p = bpf_task_from_pid(charge_tid(charged));
	if (!p)
		return;
	used = p->se.sum_exec_runtime + 1;
	bpf_task_release(p);
	if (!s->since || s->seen != s->changes || used < s->since) {
		s->since = used;
		s->seen = s->changes;
	} else if (used - s->since >= sensing.unread_ms * NSEC_PER_MSEC) {
		s->left_rcv += charge_rcv(charged);
		s->left_snd += charge_snd(charged);
		s->since = 0;
	}
}

SEC("iter/bpf_sk_storage_map")
int look_again(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;
	struct sock_obs *s = sk ? bpf_sk_storage_get(&socks, sk, 0, 0) : NULL;

	if (!s || sock_closed(s->charge))
		return 0;
	if (sensing.unread_ms)
		note_unread(s);
	settle(sk, s, KEEP, RCV | SND, 0);
	return 0;
}

/* Forgets threads whose end was not seen. */
SEC("iter/bpf_map_elem")
int look_for_dead(struct bpf_iter__bpf_map_elem *ctx)
{
	u32 *tid = ctx->key;
	struct task_struct *p;

	if (!tid)
		return 0;
	p = bpf_task_from_pid(*tid);
	if (p)
		bpf_task_release(p);
	else
		exited(*tid);
	return 0;
}

struct listed {
	u64 address;
	struct sock_obs s;
};

SEC("iter/bpf_sk_storage_map")
int list(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;
	struct sock_obs *s = sk ? bpf_sk_storage_get(&socks, sk, 0, 0) : NULL;
	struct listed one;

	if (!s)
		return 0;
	one.address = (u64)sk;
	one.s = *s;
	bpf_seq_write(ctx->meta->seq, &one, sizeof(one));
	return 0;
}

SEC("iter/bpf_sk_storage_map")
int forget(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	if (ctx->sk)
		bpf_sk_storage_delete(&socks, ctx->sk);
	return 0;
}
