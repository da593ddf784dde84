/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by these programs: read the clock, take numbers as arguments, end at a signal. */
#ifndef PROGS_COMMON_H
#define PROGS_COMMON_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PAGE 4096L

static volatile sig_atomic_t ended; /* once end_at_sigterm() was called: SIGTERM came */

static inline void end(int number)
{
	(void)number;
	ended = 1;
}

static inline void end_at_sigterm(void)
{
	struct sigaction action = { .sa_handler = end };

	sigaction(SIGTERM, &action, NULL);
}

static inline long long now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* A whole number from @least on; anything else ends the program. */
static inline long number(const char *text, long least)
{
	char *rest;
	long value = strtol(text, &rest, 10);

	if (rest == text || *rest != '\0' || value < least) {
		fprintf(stderr, "%s is not a number from %ld on\n", text, least);
		exit(2);
	}
	return value;
}

#endif /* PROGS_COMMON_H */
