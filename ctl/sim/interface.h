/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions for Python that are the same for every engine. An engine that includes this file must first have struct
 * sim with par and trouble, and with log and nr_log if it logs decisions (decision.h).
 */
#ifndef SIM_INTERFACE_H
#define SIM_INTERFACE_H

/* A simulation of which only the parameters are known; NULL: no memory. */
static struct sim *new_sim(const struct sim_params *params)
{
	struct sim *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	log_tables();
	s->par = *params;
#if defined(SIM_CHECK) && defined(SIM_DECISION_H)
	s->log = calloc(SIM_LOG_ROOM, sizeof(*s->log));
#endif
	return s;
}

const char *sim_trouble(struct sim *s)
{
	return s->trouble;
}

#ifdef SIM_DECISION_H
uint32_t sim_log(struct sim *s, struct sim_decision *log, uint32_t room)
{
	uint32_t nr = s->nr_log < room ? s->nr_log : room;

	if (s->log)
		memcpy(log, s->log, nr * sizeof(*log));
	s->nr_log = 0;
	return nr;
}
#endif

#endif /* SIM_INTERFACE_H */
