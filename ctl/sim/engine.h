/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The beginning of every engine: indices and times that mean "none", and self-checks (SIM_CHECK). */
#ifndef SIM_ENGINE_H
#define SIM_ENGINE_H

#include <stdlib.h>
#include <string.h>

#include "native.h"
#include "random.h"

#define NIL	UINT32_MAX
#define NEVER	UINT64_MAX
#define LIKELY(x)	__builtin_expect(!!(x), 1)

/* The next event, for loop.h. */
struct event {
	uint64_t	at;
	int		what;			/* the engine's */
	int		lasts;			/* 1: time passes in it, so a run up to `at` does not begin it; else 0 */
};

#define GO_ON	(-1)	/* beside enum sim_status: the run loop goes on */

#ifdef SIM_CHECK
#define CHECK(s, holds, text)	do { if (!(holds)) (s)->trouble = text; } while (0)
#else
#define CHECK(s, holds, text)	do { } while (0)
#endif

#endif /* SIM_ENGINE_H */
