/* SPDX-License-Identifier: GPL-2.0-only */
/* The bound on tops and credits, which go ahead of everybody. */
#ifndef TOP_BPF_H
#define TOP_BPF_H

#include "rq.bpf.h"

/*
 * Tops and credits go ahead of everybody: how long may they keep the others
 * waiting? Past top_ms the tail is theirs, until one inserted in order has run.
 */
static __always_inline bool top_denied(struct rq_ctx *rq, const struct knobs *k, u64 dsq)
{
	u64 now = scx_bpf_now();

	if (!rq->streak) {
		rq->streak = now | 1;
		return false;
	}
	if (now - rq->streak <= k->top_ms * NSEC_PER_MSEC)
		return false;
	if (!scx_bpf_dsq_nr_queued(dsq)) {
		rq->streak = 0;
		return false;
	}
	return true;
}

#endif /* TOP_BPF_H */
