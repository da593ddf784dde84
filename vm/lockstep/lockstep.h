/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parts of the plugin share; lockstep.c has the whole story. Times are ns of guest time unless named so. */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_GUESTS 64

__attribute__((noreturn, format(printf, 1, 2))) void give_up(const char *format, ...);

/*
 * peers.c: the memory that the guests share. Each guest writes what it has to say at a boundary into its own box, then
 * arrives; when all have arrived each reads all boxes. Boxes are in pairs: one is written while the other is read.
 */
#define BOX_BYTES (1 << 20)

struct box {
	uint64_t round;	    /* the boundary it was written at; what is older says nothing */
	int64_t idle_until; /* the guest does nothing before that, unless a frame comes */
	uint32_t busy;	    /* the host has something for the guest, which then is not idle */
	uint32_t asks;	    /* the guest, or its host, wants all guests to stand still */
	uint32_t size;	    /* of the frames: each a big-endian size in 4 bytes, then its bytes */
	uint8_t frames[BOX_BYTES];
};

struct membership {
	const char *path;    /* of the shared file */
	const char *name;    /* of this guest, for messages */
	int me, count;	     /* guests are numbered from 0 */
	int64_t patience_ms; /* how long to wait for a guest that does not come, wall time */
};

int64_t peers_join(const struct membership *membership); /* the boundary that this guest begins at */
void peers_leave(void);
struct box *peers_my_box(void);
const struct box *peers_box(int guest); /* of the last boundary; NULL where the guest was not there */

/*
 * What is in my box is all; returns when all guests have arrived. False: the others have left this boundary already,
 * and wait at a later one, as they do for a guest that joined them as they were running.
 */
bool peers_arrive(int64_t boundary);
bool peers_asking(void);		/* whether a guest asks to stand still at this boundary */
void peers_wait_turn(int64_t boundary, void (*meanwhile)(void)); /* until all lower guests have asked */
void peers_end_turn(int64_t boundary, void (*meanwhile)(void));	 /* returns when all guests have asked */

/* cpus.c: the guest's CPUs run side by side, in rounds of so many ns. */
void cpus_side_by_side(int64_t round); /* to be called as the plugin is installed */
void cpus_add(unsigned vcpu);	       /* once for each CPU, from 0 on */

/* wire.c: frames. */
void wire_open(const char *netdev, int fd, const char *mac);
void wire_collect(struct box *box);
void wire_deliver(int me, int count);

/* host.c: what the host says to the guest, and the guest to the host. */
void host_open(int fd);
void host_add_feed(const char *chardev, int fd);
void host_add_questions(const char *chardev, int fd);
void host_look(void);/* take in what has come, without waiting */
bool host_has_input(void);  /* the guest can take something now */
bool host_asks(void);	    /* the guest has asked something, or the host has knocked */
void host_ask(void);	    /* have it answered, while all guests stand still */
void host_serve(void);	    /* carry out what the host wants of this guest meanwhile; waits 1 ms at most */
void host_feed(void);	    /* give the guest its input */
void host_say(const char *text);

#endif
