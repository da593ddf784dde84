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

#ifdef SIM_CHECK
#define CHECK(s, holds, text)	do { if (!(holds)) (s)->trouble = text; } while (0)
#else
#define CHECK(s, holds, text)	do { } while (0)
#endif

#endif /* SIM_ENGINE_H */
