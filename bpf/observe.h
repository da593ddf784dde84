/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How observations are read and written: the one-second fault window, the
 * levels of a task, the charge word of a socket. Pure C for the scheduler
 * (clang), the sensors (clang, bcc) and the unit tests (any compiler); no kernel
 * header, no libc.
 *
 * The window is FLT_BUCKETS buckets of 2^FLT_SHIFT ns. Only the faulting
 * thread itself writes its buckets, so they need no lock; a reader on another
 * CPU can be one fault late.
 *
 * "now" is CLOCK_MONOTONIC: bpf_ktime_get_ns() or bpf_ktime_get_coarse_ns().
 * Not scx_bpf_now(): that clock is not slewed, the two drift apart.
 */
#ifndef OBSERVE_H
#define OBSERVE_H

#include "cosched.h"

/* FLT: major faults in the window that ends now. */
static inline __attribute__((always_inline))
unsigned int obs_flt(const struct obs *o, unsigned long long now)
{
	unsigned long long at = now >> FLT_SHIFT;
	unsigned int sum = 0, age = 0, i;

	if (at > o->flt_at) {
		if (at - o->flt_at >= FLT_BUCKETS)
			return 0;
		age = (unsigned int)(at - o->flt_at);
	}
#pragma unroll
	for (i = 0; i < FLT_BUCKETS; i++)
		if (i + age < FLT_BUCKETS)
			sum += o->flt[(o->flt_at - i) & (FLT_BUCKETS - 1)];
	return sum;
}

/* Count n faults at now; by the faulting thread only. */
static inline __attribute__((always_inline))
void obs_fault(struct obs *o, unsigned long long now, unsigned int n)
{
	unsigned long long at = now >> FLT_SHIFT;
	unsigned int i;

	if (at > o->flt_at) {
#pragma unroll
		for (i = 0; i < FLT_BUCKETS; i++)
			if (o->flt_at + i < at)
				o->flt[(at - i) & (FLT_BUCKETS - 1)] = 0;
		o->flt_at = at;
	}
	o->flt[o->flt_at & (FLT_BUCKETS - 1)] += n;
}

/* rec: messages now queued to be received by it. */
static inline __attribute__((always_inline))
unsigned int obs_rec(const struct obs *o)
{
	int n = o->rcv;

	return n > 0 && !o->exited ? (unsigned int)n : 0;
}

/* COM: messages now queued in its sockets, received and sent. */
static inline __attribute__((always_inline))
unsigned int obs_com(const struct obs *o)
{
	int n = o->snd;

	return obs_rec(o) + (n > 0 && !o->exited ? (unsigned int)n : 0);
}

#define SOCK_TID_MASK	((1U << SOCK_TID_BITS) - 1)
#define SOCK_LEVEL_MAX	((1U << SOCK_LEVEL_BITS) - 1)
#define SOCK_CLOSED	(~0ULL)		/* charge of a socket that was closed, not yet destroyed */

static inline __attribute__((always_inline))
int sock_closed(unsigned long long charge)
{
	return charge == SOCK_CLOSED;
}

static inline __attribute__((always_inline))
unsigned int charge_tid(unsigned long long charge)
{
	return charge & SOCK_TID_MASK;
}

static inline __attribute__((always_inline))
int charge_rcv(unsigned long long charge)
{
	return (charge >> SOCK_TID_BITS) & SOCK_LEVEL_MAX;
}

static inline __attribute__((always_inline))
int charge_snd(unsigned long long charge)
{
	return (charge >> (SOCK_TID_BITS + SOCK_LEVEL_BITS)) & SOCK_LEVEL_MAX;
}

/* Levels above the 21 bits are kept at their largest value. */
static inline __attribute__((always_inline))
unsigned long long charge_of(unsigned int tid, unsigned int rcv, unsigned int snd)
{
	if (rcv > SOCK_LEVEL_MAX)
		rcv = SOCK_LEVEL_MAX;
	if (snd > SOCK_LEVEL_MAX)
		snd = SOCK_LEVEL_MAX;
	return tid | (unsigned long long)rcv << SOCK_TID_BITS |
	       (unsigned long long)snd << (SOCK_TID_BITS + SOCK_LEVEL_BITS);
}

/* Thread a socket is charged to, 0: nobody. */
static inline __attribute__((always_inline))
unsigned int sock_tid(const struct sock_obs *s)
{
	unsigned long long charge = s->charge;

	return sock_closed(charge) ? 0 : charge_tid(charge);
}

#endif /* OBSERVE_H */
