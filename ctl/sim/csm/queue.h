/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The inputs of insert_RQ for a task: its sent and received messages (CSM sec. 3.1). */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include "memory.h"

/* The send queues: a message leaves its sender's after smq_ns. */
static inline void drain_send_queues(struct sim *s)
{
	while (s->unsent != s->end_message) {
		struct message *m = &s->messages[s->unsent & s->message_mask];
		struct task *from = &s->tasks[m->from];

		if (m->sent + s->par.smq_ns > s->now)
			break;
		if (from->generation == m->from_generation && !m->last)
			from->rq.com--;
		s->unsent++;
	}
}

/* CSM eq. 2, once per insertion (B-CSM-8), and what else the rules want to know of h. */
static inline void observe(struct sim *s, struct node *n, struct task *h)
{
	(void)n;
	h->rq.de = 0;
	if (h->class_ == CLASS_LOCAL)
		return;
	drain_send_queues(s);
	h->rq.mes = mes_update(h->rq.mes, h->rq.com + (s->par.backlog_only ? 0 : h->fresh), s->par.p);
	h->fresh = 0;
	if (s->par.classify_mes)
		h->rq.flags = h->rq.mes < MES_LOCAL ? 0 : TASK_PARALLEL;
}

/* RQ[0]. As in the kernel, no task displaces a task whose slice is over and that the next tick takes off. */
static inline struct task *in_turn(struct sim *s, const struct node *n)
{
	struct task *t = n->running == NIL ? NULL : &s->tasks[n->running];

	return t && s->par.tick_ns && s->now >= n->since + t->slice_left ? NULL : t;
}

#include "ready_queue.h"

#endif /* SIM_QUEUE_H */
