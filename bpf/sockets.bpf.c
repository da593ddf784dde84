// SPDX-License-Identifier: GPL-2.0-only
/*
 * The sensor of sockets: where packets enter and leave (owners and levels: levels.bpf.h).
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
 * Only sockets of jobs are kept. A socket gets its storage when a task of a job
 * makes it, accepts it or receives on it; every other socket passes with one look
 * at a pointer in the socket. A task that joins a job brings its sockets in as it
 * next receives on them. A socket on which a local task receives is charged to no
 * thread.
 *
 * A program has two forms, of which one is loaded: on the function's trampoline
 * (fentry), and as a kprobe. The kernel denies kprobes the storage of a socket, so
 * with kprobes owner and levels are in a hash table by the socket's address, and
 * the socket's end is one more probe. A program at a function's return has one
 * form, because a kretprobe does not know the arguments of the call.
 *
 * The kernel runs one instance of a program at a time on a CPU. An event of a
 * softirq, or of a task that preempts, is lost if it comes during another event.
 * look_again() corrects the levels once a second: it looks at jobs' sockets only.
 */
#include "counting.bpf.h"
#include "second_look.bpf.h"

char LICENSE[] SEC("license") = "GPL";

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

/* ---- always on: how sockets are made, and go ---- */

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

/* ---- on while there are jobs: how a socket comes to a job that did not make it ---- */

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
