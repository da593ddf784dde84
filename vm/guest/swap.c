// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Swap with a latency that is counted in guest time: a null_blk device whose requests complete after a timer.
 *
 * Its memory is allocated here, by writing all of it once, because a device that allocates while memory is short would
 * measure the allocator.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

#define CONFIG "/sys/kernel/config"
#define DEVICE CONFIG "/nullb/nullb0"
#define DISK "/dev/nullb0"
#define CHUNK (1 << 20)
#define WRITERS 8

static void set(const char *attribute, unsigned long value)
{
	char path[128], text[32];

	snprintf(path, sizeof(path), DEVICE "/%s", attribute);
	snprintf(text, sizeof(text), "%lu", value);
	if (write_file(path, text) != 0)
		fail("null_blk does not take %s=%s: %s", attribute, text, strerror(errno));
}

static void spawn(char *const argv[])
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		execv(argv[0], argv);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		fail("%s %s failed", argv[0], argv[1]);
}

/* Write a part of the device with bytes the driver has to store; the page cache would double the work. */
static void fill_part(unsigned long begin, unsigned long end)
{
	static char chunk[CHUNK] __attribute__((aligned(4096)));
	int fd = open(DISK, O_WRONLY | O_DIRECT | O_CLOEXEC);

	for (unsigned long at = begin; at < end; at++)
		if (pwrite(fd, chunk, CHUNK, (off_t)at * CHUNK) != CHUNK)
			_exit(1);
	_exit(0);
}

/* Write the whole device from several processes, so that their waits for it overlap. */
static void fill(unsigned long megabytes)
{
	pid_t writers[WRITERS];
	int status;

	for (int i = 0; i < WRITERS; i++) {
		writers[i] = fork();
		if (writers[i] == 0)
			fill_part(megabytes * i / WRITERS, megabytes * (i + 1) / WRITERS);
	}
	for (int i = 0; i < WRITERS; i++)
		if (waitpid(writers[i], &status, 0) != writers[i] || status != 0)
			fail("cannot fill the swap device of %lu MB", megabytes);
}

void add_swap(unsigned long megabytes, unsigned long latency_us)
{
	spawn((char *[]){ "/usr/sbin/modprobe", "null_blk", "nr_devices=0", NULL });
	if (access(CONFIG "/nullb", F_OK) != 0 && mount("configfs", CONFIG, "configfs", 0, NULL) != 0)
		fail("cannot mount configfs: %s", strerror(errno));
	if (mkdir(DEVICE, 0755) != 0)
		fail("cannot make a null_blk device: %s", strerror(errno));
	set("size", megabytes);
	set("blocksize", 4096);
	set("memory_backed", 1);
	set("irqmode", latency_us ? 2 : 0); /* 2: a timer completes the request, 0: at once */
	set("completion_nsec", latency_us * 1000);
	set("power", 1);
	fill(megabytes);
	spawn((char *[]){ "/usr/sbin/mkswap", "-q", DISK, NULL });
	if (swapon(DISK, 0) != 0)
		fail("cannot swap on %s: %s", DISK, strerror(errno));
}
