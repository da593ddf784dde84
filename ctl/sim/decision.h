/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The record of a decision of insert_RQ for tests, in every engine that orders queues. */
#ifndef SIM_DECISION_H
#define SIM_DECISION_H

#include <stdint.h>

#include "insert_rq.h"

/* cdef begin */
/* A decided insertion, in engines that check themselves (SIM_CHECK). */
#define SIM_LOG_QUEUE	32
#define SIM_LOG_ROOM	16384
struct sim_decision {
	struct insert_env env;
	struct rq_task	h, running;
	struct rq_task	queue[SIM_LOG_QUEUE];	/* head first, without h, before the insertion */
	uint32_t	has_running, nr;
	uint32_t	start;			/* how many were ahead of h, in engines that move queued tasks */
	uint32_t	position, passed, preempt, charged_running;
};
/* cdef end */

#endif /* SIM_DECISION_H */
