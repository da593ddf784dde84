/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The contract's rules by themselves, on one node, for tests that compare them with the project's in Python. */
#ifndef SIM_RULES_H
#define SIM_RULES_H

uint64_t sim_set_quantum(uint64_t quantum, double weight, double share_l, uint32_t on, uint32_t user,
			 uint32_t is_parallel, uint32_t state)
{
	struct sim_params p = { .quantum_ns = quantum, .share_l = share_l, .set_quantum = on };

	return quantum_of(&p, weight, (int)user, (int)is_parallel, state);
}

#ifdef SIM_CHECK

/* A simulation without events; task k of node 0 is slot k. */
static struct sim *bare(uint64_t lease)
{
	struct sim_params p = { .seed = 1, .nodes = 8, .mpl = 1, .lease_ns = lease, .epoch_ns = 1, .event_ns = 1,
				.quantum_ns = 1, .share_l = 1, .wrk_mean = { 1, 1 } };

	for (int k = 0; k < 8; k++) {
		p.weight[k] = 1;
		p.frames[k] = 1U << 20;
	}
	return sim_new(&p, NULL, 0);
}

static void do_op(struct sim *s, struct node *n, const struct contract_op *op)
{
	struct task *t = task_of(s, s->nodes, op->job);

	switch (op->what) {
	case OP_HOLD:
		if (!t)
			hold(s, n, &s->tasks[new_task(s, 0, CLASS_PARALLEL, op->job, op->job, 1)]);
		break;
	case OP_RELEASE:
		if (t)
			end_task(s, (uint32_t)(t - s->tasks));
		break;
	case OP_USER:
		n->local = (uint8_t)op->local;
		settle(s, n, NULL);
		break;
	case OP_WANTS:
		for (uint32_t i = n->tasks; i != NIL; i = s->tasks[i].neighbour)
			s->tasks[i].wanted = op->wants >> s->tasks[i].job & 1;
		settle(s, n, NULL);
		break;
	case OP_RECEIVE:
		if (t)
			receive(s, n, t, &(struct note){ .job = op->job, .node = op->node, .seq = op->seq,
							 .local = (uint8_t)op->local, .stop = (uint8_t)op->stop });
		break;
	default:
		tick(s, n);
	}
}

int sim_contract(const struct contract_op *ops, uint32_t n, uint64_t lease, uint32_t *states,
		 struct contract_said *said, uint32_t room)
{
	struct sim *s = bare(lease);
	uint32_t told;

	if (!s)
		return -1;
	s->overheard = said;
	s->room_overheard = room;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t from = s->nr_overheard;

		s->now = ops[i].now;
		do_op(s, s->nodes, &ops[i]);
		for (; from < s->nr_overheard; from++)
			said[from].op = i;
		for (uint32_t k = 0; k < 8; k++) {
			struct task *t = task_of(s, s->nodes, k);

			states[8 * i + k] = t ? t->contract : UINT32_MAX;
		}
	}
	told = s->nr_overheard;
	sim_free(s);
	return (int)told;
}

/* Each epoch sees what the one before it stopped; stops[8 * i + k] is job k's place among the stops, 0: none. */
int sim_set_memory(const struct memory_epoch *epochs, uint32_t n, uint32_t *stops)
{
	struct sim *s = bare(1);
	uint32_t frames = s ? s->nodes->frames : 0;

	for (uint32_t i = 0; s && i < n; i++) {
		const struct memory_epoch *e = &epochs[i];

		for (uint32_t k = 0; k < 8; k++) {	/* first, because a leaving task changes the others' states */
			struct task *t = task_of(s, s->nodes, k);

			if (t && !e->jobs[k].held)
				end_task(s, (uint32_t)(t - s->tasks));
		}
		for (uint32_t k = 0; k < 8; k++) {
			const struct memory_job *job = &e->jobs[k];
			struct task *t = task_of(s, s->nodes, k);

			if (!job->held)
				continue;
			if (!t)
				t = &s->tasks[new_task(s, 0, CLASS_PARALLEL, k, k, 1)];
			t->res = job->res;
			t->vir = job->need;
			peers_of(s, t)[1].stop = (uint8_t)job->elsewhere;
			t->contract = t->order || job->elsewhere ? STATE_STOPPED : STATE_FREE;
		}
		s->nodes->frames = (uint32_t)s->nodes->resident + e->free;	/* now only: new tasks need frames */
		set_memory(s, s->nodes, (int)e->local_user, (int)e->swapping, e->pool);
		s->nodes->frames = frames;
		for (uint32_t k = 0; k < 8; k++) {
			struct task *t = task_of(s, s->nodes, k);

			stops[8 * i + k] = t ? t->order : 0;
			if (t)		/* what its memory is was only asked, so that it adds up when it goes */
				t->res = t->vir = 1;
		}
	}
	if (!s)
		return -1;
	sim_free(s);
	return 0;
}

#else

int sim_contract(const struct contract_op *ops, uint32_t n, uint64_t lease, uint32_t *states,
		 struct contract_said *said, uint32_t room)
{
	(void)ops, (void)n, (void)lease, (void)states, (void)said, (void)room;
	return -1;
}

int sim_set_memory(const struct memory_epoch *epochs, uint32_t n, uint32_t *stops)
{
	(void)epochs, (void)n, (void)stops;
	return -1;
}

#endif

#endif /* SIM_RULES_H */
