/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the parts of the guest's init. See init.c for the whole story. */
#ifndef COSCHED_GUEST_H
#define COSCHED_GUEST_H

#include <stdbool.h>
#include <stddef.h>

#define MAX_WORDS 4096 /* arguments, and environment entries, of one command */
#define MAX_SETUP 16

/* The host's request, read from the control port as NUL-terminated "key=value" strings ended by "end". */
struct request {
	char *argv[MAX_WORDS + 1];
	char *envp[MAX_WORDS + 1];
	char *setup[MAX_SETUP + 1]; /* a program to run first; none where [0] is NULL */
	int argc, envc, setupc;
	bool tty, out; /* on a terminal; send /out back */
	unsigned short rows, cols;
	unsigned long swap_mb, swap_latency_us;
	long long clock_ns; /* what the clock showed when the machine was switched on; 0: as it is */
};

/*
 * Numbers of the virtio-serial ports; the host's qemu.py gives them out in this order. Nodes of a cluster have one more
 * port, for node and vm/node.
 */
enum port { PORT_CONTROL = 1, PORT_STDOUT, PORT_STDERR, PORT_STDIN, PORT_OUT };

/* init.c */
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);
int write_file(const char *path, const char *text);
void write_all(int fd, const void *data, size_t size);

/* mounts.c */
void early_root(void);
void host_files(void);
void system_mounts(void);
void loopback_up(void);

/* swap.c */
void add_swap(unsigned long megabytes, unsigned long latency_us);

/* setup.c */
void set_up(struct request *request);

/* session.c */
int open_port(enum port port, int flags);
void tell_host(const char *format, ...) __attribute__((format(printf, 1, 2)));
__attribute__((noreturn)) void serve(void);

#endif
