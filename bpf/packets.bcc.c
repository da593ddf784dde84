// SPDX-License-Identifier: GPL-2.0-only
/*
 * The sensor of sockets: where packets enter and leave (what is kept of them: sockets.bcc.c).
 *
 *             packets enter                   packets leave
 *   TCP  rcv  sock_def_readable               release_sock
 *        snd  release_sock                    tcp_newly_delivered (acked)
 *   UDP  rcv  sock_def_readable               skb_consume_udp
 *        snd  ip_send_skb, ip6_send_skb       sock_wfree (returns)
 *   Unix rcv  sock_def_readable               unix_write_space, scm_recv_unix
 *        snd  the same, seen from the peer
 *   all       sock_def_wakeup (state change), skb_queue_purge_reason (returns),
 *             __sock_release (close)
 */

/* Functions under way whose return is watched: stack pointer -> socket. Unique, also in nested softirqs. */
BPF_F_TABLE("hash", u64, u64, calls, 4096, BPF_F_NO_PREALLOC);

/* The other end of a Unix stream sees its send level in our receive queue. */
static inline u64 unix_peer(void *sk)
{
	return FIELD(u16, sk, F_SK_TYPE) == DGRAM_ ? 0 : FIELD(u64, sk, F_UNIX_PEER);
}

int on_readable(struct pt_regs *ctx)
{
	void *sk = (void *)PT_REGS_PARM1(ctx), *tail;
	struct look l = { .sk = (u64)sk, .which = RCV };

	if (FIELD(u16, sk, F_SK_FAMILY) == AF_UNIX_) {
		l.other = unix_peer(sk);
		if (FIELD(u16, sk, F_SK_TYPE) == DGRAM_) {
			tail = FIELD(void *, sk, F_SK_RCVQ_TAIL);
			/* Another CPU may be reading it: then this is a wrong socket, whose level is read right. */
			l.other = FIELD(u64, tail, F_SKB_SK);
			l.unit = FIELD(u32, tail, F_SKB_TRUESIZE);
		}
	}
	look(ctx, l);
	return 0;
}

int on_change(struct pt_regs *ctx)
{
	look(ctx, (struct look){ .sk = PT_REGS_PARM1(ctx), .which = RCV | SND });
	return 0;
}

int on_acked(struct pt_regs *ctx)
{
	look(ctx, (struct look){ .sk = PT_REGS_PARM1(ctx), .which = SND });
	return 0;
}

int on_tcp_received(struct pt_regs *ctx)
{
	/* release_sock follows and reads the levels */
	look(ctx, (struct look){ .sk = PT_REGS_PARM1(ctx), .owned = 1 });
	return 0;
}

/* Also for what was just accepted. */
int on_received(struct pt_regs *ctx)
{
	look(ctx, (struct look){ .sk = PT_REGS_PARM1(ctx), .which = RCV, .owned = 1 });
	return 0;
}

int on_unix_received(struct pt_regs *ctx)
{
	look(ctx, (struct look){ .sk = FIELD(u64, PT_REGS_PARM1(ctx), F_SOCKET_SK), .which = RCV, .owned = 1 });
	return 0;
}

/* Called for the sender when the receiver frees a packet. */
int on_unix_freed(struct pt_regs *ctx)
{
	void *sk = (void *)PT_REGS_PARM1(ctx);

	look(ctx, (struct look){ .sk = (u64)sk, .which = SND, .other = unix_peer(sk) });
	return 0;
}

static inline void udp_sent(struct pt_regs *ctx, void *skb)
{
	u64 key = FIELD(u64, skb, F_SKB_SK);
	struct sock_obs *s = key ? socks.lookup(&key) : 0;

	if (s && s->proto == SOCK_UDP)
		look(ctx, (struct look){ .sk = key, .which = SND, .unit = FIELD(u32, skb, F_SKB_TRUESIZE) });
}

int on_udp_sent4(struct pt_regs *ctx)
{
	udp_sent(ctx, (void *)PT_REGS_PARM2(ctx));
	return 0;
}

int on_udp_sent6(struct pt_regs *ctx)
{
	udp_sent(ctx, (void *)PT_REGS_PARM1(ctx));
	return 0;
}

/* Where only the return tells, the call is remembered by its place on the stack. */
static inline void remember(struct pt_regs *ctx, u64 sk)
{
	u64 sp = PT_REGS_SP(ctx);

	calls.update(&sp, &sk);
}

static inline u64 recall(struct pt_regs *ctx)
{
	u64 sp = PT_REGS_SP(ctx) - RETURN_POP, *sk = calls.lookup(&sp), found;

	if (!sk)
		return 0;
	found = *sk;
	calls.delete(&sp);
	return found;
}

int on_wfree(struct pt_regs *ctx)
{
	u64 key = FIELD(u64, PT_REGS_PARM1(ctx), F_SKB_SK);
	struct sock_obs *s = socks.lookup(&key);

	if (s && s->proto == SOCK_UDP)
		remember(ctx, key);
	return 0;
}

int on_purge(struct pt_regs *ctx)
{
	u64 key = PT_REGS_PARM1(ctx) - F_SK_RCVQ;
	struct sock_obs *s = socks.lookup(&key);

	if (s && !sock_closed(s->charge))
		remember(ctx, key);
	return 0;
}

int on_return(struct pt_regs *ctx)
{
	look(ctx, (struct look){ .sk = recall(ctx), .which = RCV | SND });
	return 0;
}
