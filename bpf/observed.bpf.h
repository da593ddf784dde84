/* SPDX-License-Identifier: GPL-2.0-only */
/* The pinned maps through which the sensors tell the scheduler. The first of the two to be loaded makes them. */
#ifndef OBSERVED_BPF_H
#define OBSERVED_BPF_H

#include "scx.bpf.h"
#include "cosched.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, u32);
	__type(value, struct obs);
} obs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, int);
	__type(value, struct sock_obs);
} socks SEC(".maps");

#endif /* OBSERVED_BPF_H */
