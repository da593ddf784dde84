// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory that all guests of a cluster share, a file: who has come how far.
 *
 * A guest that is gone must not be waited for. It says so where it can (peers_leave()); where it was killed, the kernel
 * says so: each guest holds a lock on one byte of the file, and a lock ends with its process. A guest that is there and
 * does not come, stopped in a debugger perhaps, ends the wait with a sentence.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lockstep.h"

#define LOOK_MS 20  /* between two looks whether those that have not come are alive */
#define SPINS 200   /* turns before sleeping, where each guest has a CPU: more help nobody on a busy host */

enum state { NOT_YET, IN_STEP, LEFT };

struct slot {
	_Atomic uint32_t state;
	_Atomic int64_t arrived; /* boundaries */
	_Atomic int64_t asked;
	char name[32];
	struct box boxes[2];
};

static struct shared {
	_Atomic uint32_t turns; /* a futex: something has changed */
	_Atomic uint64_t round; /* boundaries since the beginning, leaps count once */
	_Atomic int64_t now;	/* the last boundary that all have reached; channel.py reads it */
	struct slot slots[MAX_GUESTS];
} *shared;

static struct membership my;
static struct slot *mine;
static uint64_t my_round;
static int file, spins;

static int64_t wall_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static int lock(int command, int guest, struct flock *lock)
{
	*lock = (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = guest, .l_len = 1 };
	return fcntl(file, command, lock);
}

static bool is_alive(int guest)
{
	struct flock held;

	return lock(F_OFD_GETLK, guest, &held) == 0 && held.l_type != F_UNLCK;
}

static void wake_all(void)
{
	atomic_fetch_add(&shared->turns, 1);
	syscall(SYS_futex, &shared->turns, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int64_t peers_join(const struct membership *membership)
{
	struct flock own;
	cpu_set_t cpus;

	my = *membership;
	file = open(my.path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0 || ftruncate(file, sizeof(*shared)) != 0)
		give_up("cannot open %s: %s", my.path, strerror(errno));
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (shared == MAP_FAILED)
		give_up("cannot map %s: %s", my.path, strerror(errno));
	if (lock(F_OFD_SETLK, my.me, &own) != 0)
		give_up("another guest is number %d in %s", my.me, my.path);
	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) >= my.count)
		spins = SPINS;
	mine = &shared->slots[my.me];
	strncpy(mine->name, my.name, sizeof(mine->name) - 1);
	my_round = atomic_load(&shared->round);
	atomic_store(&mine->arrived, atomic_load(&shared->now));
	atomic_store(&mine->asked, atomic_load(&shared->now));
	atomic_store(&mine->state, IN_STEP);
	return atomic_load(&shared->now);
}

void peers_leave(void)
{
	if (mine) {
		atomic_store(&mine->state, LEFT);
		wake_all();
	}
}

struct box *peers_my_box(void)
{
	struct box *box;

	my_round = atomic_load(&shared->round);
	box = &mine->boxes[(my_round + 1) & 1];
	box->round = my_round + 1;
	return box;
}

const struct box *peers_box(int guest)
{
	const struct box *box = &shared->slots[guest].boxes[my_round & 1];

	return box->round == my_round && my_round > 0 ? box : NULL;
}

/* The first guest of those below "count" that one has to wait for; -1: none. */
static int missing(size_t what, int64_t boundary, int count)
{
	for (int i = 0; i < count; i++) {
		struct slot *slot = &shared->slots[i];
		_Atomic int64_t *at = (void *)((char *)slot + what);

		if (atomic_load(&slot->state) != LEFT && atomic_load(at) < boundary)
			return i;
	}
	return -1;
}

static void look_after(int guest, int64_t since, int64_t boundary)
{
	struct slot *slot = &shared->slots[guest];

	if (atomic_load(&slot->state) == IN_STEP && !is_alive(guest)) {
		atomic_store(&slot->state, LEFT);
		wake_all();
	} else if (wall_ms() - since > my.patience_ms) {
		give_up("guest %d, %s, did not reach %.6f s of guest time within %lld s: is it stopped, or in a debugger?", guest,
			slot->name[0] ? slot->name : "not there yet", boundary / 1e9, (long long)my.patience_ms / 1000);
	}
}

/* Wait until the first "count" guests have reached a boundary; meanwhile: what to do instead of sleeping. */
static void wait_for(size_t what, int64_t boundary, int count, void (*meanwhile)(void))
{
	const struct timespec nap = { 0, LOOK_MS * 1000000 };
	int64_t since = 0, looked = 0, now;
	int guest;

	for (int i = 0; i < spins && missing(what, boundary, count) >= 0; i++)
		__builtin_ia32_pause();
	for (;;) {
		uint32_t turns = atomic_load(&shared->turns);

		guest = missing(what, boundary, count);
		if (guest < 0)
			return;
		if (meanwhile)
			meanwhile();
		else
			syscall(SYS_futex, &shared->turns, FUTEX_WAIT, turns, &nap, NULL, 0);
		now = wall_ms();
		if (!since)
			since = looked = now;
		if (now - looked >= LOOK_MS) {
			looked = now;
			look_after(guest, since, boundary);
		}
	}
}

/* Only the last one to arrive wakes the others: each of them sees that nobody is missing. */
bool peers_arrive(int64_t boundary)
{
	if (boundary <= atomic_load(&shared->now)) {
		atomic_store(&mine->arrived, boundary);
		return false;
	}
	my_round++;
	atomic_store(&mine->arrived, boundary);
	if (missing(offsetof(struct slot, arrived), boundary, my.count) < 0)
		wake_all();
	else
		wait_for(offsetof(struct slot, arrived), boundary, my.count, NULL);
	atomic_store(&shared->round, my_round);
	atomic_store(&shared->now, boundary);
	return true;
}

bool peers_asking(void)
{
	for (int i = 0; i < my.count; i++) {
		const struct box *box = peers_box(i);

		if (box && box->asks)
			return true;
	}
	return false;
}

void peers_wait_turn(int64_t boundary, void (*meanwhile)(void))
{
	wait_for(offsetof(struct slot, asked), boundary, my.me, meanwhile);
}

void peers_end_turn(int64_t boundary, void (*meanwhile)(void))
{
	atomic_store(&mine->asked, boundary);
	wake_all();
	wait_for(offsetof(struct slot, asked), boundary, my.count, meanwhile);
}
