/* SPDX-License-Identifier: GPL-2.0-only */
/* Which sockets count: those of jobs. Here the storage of a socket is found, made, and given to a thread. */
#ifndef COUNTING_BPF_H
#define COUNTING_BPF_H

#include "levels.bpf.h"
#include "slurm.bpf.h"

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

/* The other end of a Unix stream, if its level is kept: its send level is our receive queue. */
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

#endif /* COUNTING_BPF_H */
