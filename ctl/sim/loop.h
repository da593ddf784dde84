/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The run loop: the next event is taken, again and again, until the run is over
 * or so far as was asked for.
 *
 * For engines that have, before they include this: struct sim with now, stats
 * and trouble, and
 *
 *	next_event()	which event is next, and when; NEVER: there is none
 *	is_over()	whether the run is over, given when the next event is due
 *	take_event()	what the event does, at s->now; it counts it in stats.events
 *			and returns GO_ON, or the enum sim_status to return with
 *	clock_bits()	how many bits of s->now may be used
 *	check_state()	what must hold between two events (SIM_CHECK)
 *	check_sums()	what must hold in the end
 */
#ifndef SIM_LOOP_H
#define SIM_LOOP_H

int sim_run(struct sim *s, uint64_t until, uint64_t events)
{
	uint64_t from = s->stats.events;

	while (s->stats.events - from < events && !s->trouble) {
		struct event next = next_event(s);
		int status;

		check_state(s);
		if (is_over(s, next.at)) {
			check_sums(s);
			return s->trouble ? SIM_BROKEN : SIM_DONE;
		}
		if (next.at > until || (next.lasts && next.at == until)) {
			if (next.at == NEVER) {
				s->trouble = "nothing more will happen, and not all jobs have ended";
				break;
			}
			s->now = until > s->now ? until : s->now;
			return SIM_PAUSED;
		}
		CHECK(s, next.at >= s->now, "time ran backwards");
		s->now = next.at;
		status = take_event(s, next.what);
		if (status != GO_ON)
			return status;
		if (s->now >> clock_bits(s))
			s->trouble = "simulated time has run out of the clock's range";
	}
	return s->trouble ? SIM_BROKEN : SIM_PAUSED;
}

#endif /* SIM_LOOP_H */
