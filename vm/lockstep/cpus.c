// SPDX-License-Identifier: GPL-2.0-only
/*
 * Several CPUs of one guest in instruction-counted time, as if they ran side by side.
 *
 * QEMU runs the CPUs of such a guest in turns, one after the other, and adds up what they execute: four busy CPUs are a
 * quarter as fast. Here all turns of a round begin at the same
 * time. The counter of instructions is set back to the round's begin when a turn ends, and when the last CPU has had its
 * turn, it is set to the end of the longest one. A CPU that sleeps, or gives up the rest of its turn by PAUSE, has slept
 * until then.
 *
 * Where QEMU lets us in: its thread of CPUs takes the big lock at the end of each turn, and before it says how long the
 * next turns are, through a pointer that is there to be replaced. The length of a turn is the time to the next timer of
 * the clock, divided by the number of CPUs: so we keep a timer that many rounds ahead. While all CPUs sleep there is none,
 * and time leaps as it does with one CPU.
 *
 * What this costs in exactness: what one CPU says to another (memory, interrupts) may arrive up to a round early or late.
 */
#include <string.h>

#include "lockstep.h"
#include "qemu.h"

#define MAX_CPUS 64
#define MAGIC 0x5eed0000 /* even: a member may be the count of a lock, which is odd while somebody writes */

static struct {
	volatile int64_t *counter; /* of instructions, of all CPUs */
	int64_t start, most;	   /* the round's begin; the longest turn in it so far */
	int64_t round;		   /* ns */
	int count;		   /* of CPUs */
	void *cpus[MAX_CPUS];
	void *lists[CLOCKS];	   /* of timers: one of our own, as QEMU would kick all CPUs when we move one of its */
	struct qemu_timer timer;
	bool ready;
	bql_lock_function *lock;
} clock;

/* The counter is a member of timers_state: the one that icount_get_raw() reads. */
static volatile int64_t *find_counter(void)
{
	for (size_t at = 0; at + sizeof(int64_t) <= TIMERS_STATE_BYTES; at += sizeof(int64_t)) {
		volatile int64_t *member = (volatile int64_t *)(timers_state + at);
		int64_t was = *member;
		bool found;

		if (was != icount_get_raw())
			continue;
		*member = MAGIC;
		found = icount_get_raw() == MAGIC;
		*member = was;
		if (found)
			return member;
	}
	give_up("this QEMU keeps its counter of instructions where nobody finds it");
}

static int number_of(const void *cpu)
{
	for (int i = 0; i < clock.count; i++)
		if (clock.cpus[i] == cpu)
			return i;
	return -1;
}

static void never(void *unused)
{
	(void)unused;
}

static void notify_nobody(void *unused, int which)
{
	(void)unused, (void)which;
}

/* The CPUs' thread has the big lock, and no CPU runs. */
static void end_turn(void)
{
	int number = number_of(current_cpu);
	int64_t ran = *clock.counter - clock.start;
	bool idle = all_cpu_threads_idle();

	if (number < 0)
		return;
	if (ran > clock.most)
		clock.most = ran;
	if (number == clock.count - 1 || idle) {
		clock.start += clock.most;
		clock.most = 0;
	}
	*clock.counter = clock.start;
	if (idle)
		timer_del(&clock.timer);
	else
		timer_mod_ns(&clock.timer, qemu_clock_get_ns(CLOCK_VIRTUAL) + clock.round * clock.count);
}

static void lock(void *mutex, const char *file, int line)
{
	clock.lock(mutex, file, line);
	if (clock.ready && strstr(file, "tcg-accel-ops-rr.c"))
		end_turn();
}

void cpus_add(unsigned vcpu)
{
	if (vcpu >= MAX_CPUS)
		give_up("%u CPUs are more than %d", vcpu + 1, MAX_CPUS);
	clock.cpus[vcpu] = qemu_get_cpu(vcpu);
	if ((int)vcpu >= clock.count)
		clock.count = vcpu + 1;
	if (vcpu)
		return;
	clock.lists[CLOCK_VIRTUAL] = timerlist_new(CLOCK_VIRTUAL, notify_nobody, NULL);
	timer_init_full(&clock.timer, clock.lists, CLOCK_VIRTUAL, SCALE_NS, 0, never, NULL);
	clock.start = *clock.counter;
	clock.ready = true;
}

void cpus_side_by_side(int64_t round)
{
	clock.counter = find_counter();
	clock.round = round;
	clock.lock = bql_mutex_lock_func;
	bql_mutex_lock_func = lock;
}
