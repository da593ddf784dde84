/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The sizes that every engine reports to native.py, so that both sides see the same structs. */
#ifndef SIM_NATIVE_H
#define SIM_NATIVE_H

#include <stdint.h>

/* cdef begin */
struct sim_size {
	const char	*name;		/* "struct sim_params"; NULL ends the list */
	uint64_t	size;
};
const struct sim_size *sim_sizes(void);
/* cdef end */

#define SIM_SIZE(type)	{ #type, sizeof(type) }
#define SIM_SIZES(...)	const struct sim_size *sim_sizes(void)				\
{											\
	static const struct sim_size sizes[] = { __VA_ARGS__, { 0 } };			\
											\
	return sizes;									\
}

#endif /* SIM_NATIVE_H */
