/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the plugin takes of QEMU: symbols that the binary exports, all of them here, as QEMU 11.1 declares them. A QEMU
 * that lacks one does not load the plugin; build.py asks before anything boots.
 */
#ifndef LOCKSTEP_QEMU_H
#define LOCKSTEP_QEMU_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Of the plugin interface. Since version 7 callbacks take the user data that they were registered with. */
#define PLUGIN_INTERFACE 7

void qemu_plugin_register_vcpu_init_cb(uint64_t id, void (*callback)(unsigned vcpu, void *data), void *data);

/* Time. Only QEMU looks into a timer; the room behind it is for members that other versions may have. */
struct qemu_timer {
	char members[64];
	char room[64];
};

enum { CLOCK_VIRTUAL = 1, CLOCKS = 4 };
enum { SCALE_NS = 1 };

extern char main_loop_tlg[]; /* the main loop's timer lists */
void timer_init_full(struct qemu_timer *timer, void *lists, int clock, int scale, int attributes,
		     void (*callback)(void *), void *data);
void timer_mod_ns(struct qemu_timer *timer, int64_t expire);
/* A list of timers of one's own: QEMU keeps to its deadline, and notifies nobody but its owner. */
void *timerlist_new(int clock, void (*notify)(void *, int), void *opaque);
int64_t qemu_clock_get_ns(int clock);
int64_t qemu_clock_deadline_ns_all(int clock, int attributes); /* ns until the next timer, -1: there is none */
void timer_del(struct qemu_timer *timer);
bool all_cpu_threads_idle(void);

/* The counter of instructions, and the CPUs that add to it. */
#define TIMERS_STATE_BYTES 0x60
extern char timers_state[];
int64_t icount_get_raw(void);
extern __thread void *current_cpu; /* of the thread that runs CPUs */
void *qemu_get_cpu(int number);

/* What takes QEMU's big lock: called with the caller's file and line. */
typedef void bql_lock_function(void *mutex, const char *file, int line);
extern bql_lock_function *bql_mutex_lock_func;

/* Devices. All of these need QEMU's big lock, which a timer's callback has. */
struct net_client;
struct net_client *qemu_find_netdev(const char *id);
ssize_t qemu_send_packet(struct net_client *from, const uint8_t *frame, int size);

struct chardev;
enum { CHARDEV_CLOSED = 4 }; /* an event: the other side is gone */
struct chardev *qemu_chr_find(const char *id);
int qemu_chr_be_can_write(struct chardev *chardev); /* bytes that the device has room for */
void qemu_chr_be_write(struct chardev *chardev, const uint8_t *data, int size);
void qemu_chr_be_event(struct chardev *chardev, int event);

/* Carries out a line of the text monitor and returns what it says, to be freed with g_free(). */
char *qmp_human_monitor_command(const char *line, bool has_cpu, int64_t cpu, void *error);
void g_free(void *memory);

#endif
