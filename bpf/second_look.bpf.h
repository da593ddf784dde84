/* SPDX-License-Identifier: GPL-2.0-only */
/* Programs that the agent runs over the kept sockets and threads: they correct levels after lost events. */
#ifndef SECOND_LOOK_BPF_H
#define SECOND_LOOK_BPF_H

#include "counting.bpf.h"

/* Does the owner leave unread what the socket holds? */
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

/* Forgets threads whose exit was missed. */
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

#endif /* SECOND_LOOK_BPF_H */
