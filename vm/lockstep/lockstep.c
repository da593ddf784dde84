// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guests in lock-step: a plugin for a stock QEMU that keeps the clocks of several guests together, so that a cluster of
 * them runs the same way every time. See docs/lockstep.md.
 *
 * Each guest runs with -icount shift=N,sleep=off: its time counts its instructions, and passes at once while it idles.
 * A timer on that clock stops each guest at the same boundaries, once a quantum, until all of them are there. Then
 *
 *	1. each has put what it sent since the last boundary into its box, and says until when it would idle;
 *	2. where a guest has asked its host something, or a host has knocked, all stand still until that is answered,
 *	   guest after guest in the order of their numbers;
 *	3. each takes what the others have sent, and what its host has for it;
 *	4. all run on, to a boundary that follows from what was said in 1.
 *
 * So a frame arrives at the first boundary after it was sent, and nothing that the host does comes between: what a guest
 * computes depends on its inputs alone. If all guests idle, nobody can send before the first of them wakes up, and the
 * next boundary is the one after that: leaps change nothing but the wall time.
 *
 * What there is to know of QEMU, which a trial has learnt:
 *
 * - Callbacks take user data since version 7 of the plugin interface. Its own way to control time does not work where
 *   TCG counts instructions.
 * - A timer of CLOCK_VIRTUAL is called with the big lock held: by the CPUs' thread between two instructions, or, while all
 *   CPUs idle, by the main loop, which moves the clock on. As long as tick() holds the lock no CPU runs and nobody moves
 *   the clock. It must never let it go: the main loop, with no timer of ours armed, would skip the clock to the guest's
 *   next timer, past the quantum. For the same reason the timer is armed anew last.
 * - So the main loop does nothing at a boundary, and nothing may depend on its turns. Devices must act in the CPUs'
 *   thread (ioeventfd=off; a virtio-net with tx=timer, whose timer is one of CLOCK_VIRTUAL), and frames
 *   and input go to the devices by calls from here, not through descriptors that the main loop watches.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lockstep.h"
#include "qemu.h"

#define PUBLIC __attribute__((visibility("default")))
#define MAX_LEAP 100000000LL /* the host is heard at boundaries only */
#define PACED_LEAP 5000000LL /* the same where somebody sits at a terminal */
#define MIN_QUANTUM 10000LL
#define MAX_QUANTUM 1000000000LL
#define MIN_ROUND 1000LL

PUBLIC int qemu_plugin_version = PLUGIN_INTERFACE;

static struct {
	struct membership membership;
	const char *netdev, *mac;
	int wire;
	int64_t quantum;
	int64_t round; /* of the guest's CPUs; 0: there is one */
	bool paced; /* time does not pass faster than the host's while the guests idle */
	bool probe;
} settings = { .membership = { .count = 1, .patience_ms = 60000 }, .quantum = 100000, .netdev = "net0", .wire = -1 };

static struct qemu_timer timer;
static int64_t boundary; /* all guests' time, which begins when the first of them do */
static int64_t begun;	 /* of that time: when this guest began */

void give_up(const char *format, ...)
{
	va_list args;

	fputs("lockstep: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	peers_leave();
	_exit(1);
}

/* What this guest has to tell the others at a boundary. */
static void fill_box(void)
{
	struct box *box = peers_my_box();
	int64_t deadline = qemu_clock_deadline_ns_all(CLOCK_VIRTUAL, -1);

	host_look();
	wire_collect(box);
	box->asks = host_asks();
	box->busy = host_has_input();
	box->idle_until = !all_cpu_threads_idle() ? boundary : deadline < 0 ? INT64_MAX : boundary + deadline;
}

/* The next boundary: the same for all guests, as it follows from their boxes alone. */
static int64_t next_boundary(bool no_leap)
{
	int64_t quantum = settings.quantum, leap = settings.paced ? PACED_LEAP : MAX_LEAP;
	int64_t first = boundary + (leap > quantum ? leap - quantum : 0);

	for (int i = 0; i < settings.membership.count; i++) {
		const struct box *box = peers_box(i);

		if (no_leap || (box && (box->busy || box->size)))
			return boundary + quantum;
		if (box && box->idle_until < first)
			first = box->idle_until;
	}
	return (first / quantum + 1) * quantum;
}

/* While the guests idle, have as much time pass on the host as for them. */
static void keep_pace(int64_t next)
{
	int64_t left = next - boundary;

	if (settings.paced && left > settings.quantum)
		nanosleep(&(struct timespec){ left / 1000000000, left % 1000000000 }, NULL);
}

static void tick(void *unused)
{
	int64_t late = qemu_clock_get_ns(CLOCK_VIRTUAL) + begun - boundary, next;
	bool together, asked;

	(void)unused;
	if (late >= settings.quantum)
		give_up("the guest's clock ran %lld ns past a boundary", (long long)late);
	fill_box();
	together = peers_arrive(boundary);
	asked = together && peers_asking();
	if (asked) {
		peers_wait_turn(boundary, host_serve);
		host_ask();
		peers_end_turn(boundary, host_serve);
	}
	if (together)
		wire_deliver(settings.membership.me, settings.membership.count);
	host_feed();
	next = next_boundary(asked || !together);
	keep_pace(next);
	boundary = next;
	timer_mod_ns(&timer, boundary - begun);
}

static void begin(unsigned vcpu, void *unused)
{
	(void)unused;
	if (settings.round)
		cpus_add(vcpu);
	if (vcpu || !settings.membership.path)
		return;
	begun = peers_join(&settings.membership);
	atexit(peers_leave);
	host_say("joined");
	boundary = begun + settings.quantum;
	timer_init_full(&timer, main_loop_tlg, CLOCK_VIRTUAL, SCALE_NS, 0, tick, NULL);
	timer_mod_ns(&timer, boundary - begun);
}

static long long number(const char *name, const char *text, long long low, long long high)
{
	char *end;
	long long value = strtoll(text, &end, 10);

	if (*end || end == text || value < low || value > high)
		give_up("%s=%s is not a whole number from %lld to %lld", name, text, low, high);
	return value;
}

/* "ID:FD" */
static int descriptor(const char *name, char *text)
{
	char *colon = strchr(text, ':');

	if (!colon)
		give_up("%s=%s is not ID:FD", name, text);
	*colon = '\0';
	return number(name, colon + 1, 0, INT_MAX);
}

static void set(const char *name, char *value)
{
	struct membership *membership = &settings.membership;

	if (strcmp(name, "shm") == 0)
		membership->path = value;
	else if (strcmp(name, "name") == 0)
		membership->name = value;
	else if (strcmp(name, "me") == 0)
		membership->me = number(name, value, 0, MAX_GUESTS - 1);
	else if (strcmp(name, "n") == 0)
		membership->count = number(name, value, 1, MAX_GUESTS);
	else if (strcmp(name, "patience") == 0)
		membership->patience_ms = 1000 * number(name, value, 1, 86400);
	else if (strcmp(name, "quantum") == 0)
		settings.quantum = number(name, value, MIN_QUANTUM, MAX_QUANTUM);
	else if (strcmp(name, "round") == 0)
		settings.round = number(name, value, MIN_ROUND, MAX_QUANTUM);
	else if (strcmp(name, "paced") == 0)
		settings.paced = number(name, value, 0, 1);
	else if (strcmp(name, "probe") == 0)
		settings.probe = number(name, value, 0, 1);
	else if (strcmp(name, "mac") == 0)
		settings.mac = value;
	else if (strcmp(name, "host") == 0)
		host_open(number(name, value, 0, INT_MAX));
	else if (strcmp(name, "wire") == 0) {
		settings.wire = descriptor(name, value);
		settings.netdev = value;
	} else if (strcmp(name, "feed") == 0) {
		int fd = descriptor(name, value);

		host_add_feed(value, fd);
	} else if (strcmp(name, "ask") == 0) {
		int fd = descriptor(name, value);

		host_add_questions(value, fd);
	} else {
		give_up("there is no setting %s", name);
	}
}

PUBLIC int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++) {
		char *copy = strdup(argv[i]), *equals = strchr(copy, '=');

		if (!equals)
			give_up("%s is not NAME=VALUE", copy);
		*equals = '\0';
		set(copy, equals + 1);
	}
	if (settings.probe) {
		puts("lockstep: ready");
		fflush(stdout);
		_exit(0);
	}
	if (settings.round)
		cpus_side_by_side(settings.round);
	qemu_plugin_register_vcpu_init_cb(id, begin, NULL);
	if (settings.round && !settings.membership.path)
		return 0; /* a guest by itself */
	if (!settings.membership.path || settings.membership.me >= settings.membership.count)
		give_up("shm=FILE, me=NUMBER and n=COUNT are wanted, the number below the count");
	if (!settings.membership.name)
		settings.membership.name = "";
	if (settings.wire >= 0)
		wire_open(settings.netdev, settings.wire, settings.mac);
	return 0;
}
