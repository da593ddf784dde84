/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Asks bpf/insert_rq.h's questions over an array, as the scheduler asks them
 * over its ready queue. Included behind one version of that header, with RUN
 * naming the function: native.py compiles several versions into one module.
 */

/* driver begin */
struct test_case {
	struct insert_env	env;
	struct rq_task		h;
	struct rq_task		running;
	unsigned int		has_running;
	unsigned int		walk_max;
	unsigned int		first;		/* index of the queue's head in queue[] */
	unsigned int		nr;
	unsigned int		start;		/* tasks ahead of h: nr, less for CAUSE_MESSAGE */
};

struct test_answer {
	unsigned int		position;
	unsigned int		passed;
	unsigned int		preempt;
	unsigned int		charged_running;
	unsigned int		bounded;
	unsigned int		mode;		/* enum cosched_stat */
	unsigned int		rises_on_expiry;
	unsigned int		compares_obs;
	unsigned int		passes_nobody;
};
/* driver end */

static void run_one(const struct test_case *c, struct rq_task *queue, struct test_answer *a)
{
	const struct rq_task *running = c->has_running ? &c->running : 0;
	enum insert_plan plan = insert_plan(&c->env, &c->h, running);
	int credit = c->env.cause == CAUSE_CREDIT && !credit_walks(c->env.rule), ask = credit;
	unsigned int i = c->start;

	a->mode = decided_by(&c->env, &c->h);
	a->rises_on_expiry = rises_on_expiry(c->env.rule);
	a->compares_obs = compares_obs(&c->env);
	a->passes_nobody = passes_nobody(&c->env, &c->h);
	if (plan == PLAN_TOP) {
		i = 0;
		a->preempt = c->has_running;
	} else if (plan == PLAN_WALK && !a->passes_nobody) {
		for (; i > 0; i--, a->passed++) {
			struct rq_task *q = &queue[i - 1];

			if (!may_overtake(&c->env, q, &c->h))
				break;
			/* the place on credit is found without a walk: no bound */
			if (!credit && a->passed == c->walk_max) {
				a->bounded = 1;
				break;
			}
			if (charges(&c->env))
				q->de++;
		}
		if (!i)
			ask = 1;
		if (ask && running && may_overtake(&c->env, running, &c->h)) {
			a->preempt = 1;
			a->charged_running = charges(&c->env);
		}
	}
	a->position = i;
}

/* Answers n cases. The de of whoever is charged grows in queue[]. */
void RUN(const struct test_case *cases, unsigned int n, struct rq_task *queue,
	 struct test_answer *answers)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		answers[i] = (struct test_answer){ 0 };
		run_one(&cases[i], queue + cases[i].first, &answers[i]);
	}
}
