// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * input tty|key EVENTS: type EVENTS times, on a pseudo-terminal or on the machine's
 * keyboard (evdev injects what is written to it). Prints ns per event as the sender
 * sees it, of the terminal with reading it.
 */
#define _GNU_SOURCE
#include <linux/input.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "bench.h"

static int keyboard(void)
{
	unsigned char keys[KEY_MAX / 8 + 1];
	char path[32];
	int fd;

	for (int i = 0; i < 32; i++) {
		snprintf(path, sizeof(path), "/dev/input/event%d", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		memset(keys, 0, sizeof(keys));
		if (fd >= 0 && ioctl(fd, EVIOCGBIT(EV_KEY, sizeof(keys)), keys) >= 0 && keys[KEY_A / 8] & 1 << KEY_A % 8)
			return fd;
		close(fd);
	}
	fprintf(stderr, "no keyboard among /dev/input/event*\n");
	exit(1);
}

static void key(int fd, long i)
{
	struct input_event events[2] = {
		{ .type = EV_KEY, .code = KEY_A, .value = !(i & 1) },
		{ .type = EV_SYN, .code = SYN_REPORT },
	};

	if (write(fd, events, sizeof(events)) != sizeof(events))
		DIE("a key");
}

static int terminal(int *other)
{
	int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct termios raw;

	if (fd < 0 || grantpt(fd) || unlockpt(fd) || (*other = open(ptsname(fd), O_RDWR | O_NOCTTY)) < 0 ||
	    tcgetattr(*other, &raw))
		DIE("a pseudo-terminal");
	cfmakeraw(&raw);
	if (tcsetattr(*other, TCSANOW, &raw))
		DIE("tcsetattr");
	return fd;
}

static void type(int fd, int other)
{
	char byte = 'a';

	if (write(fd, &byte, 1) != 1 || read(other, &byte, 1) != 1)
		DIE("typing");
}

int main(int argc, char **argv)
{
	long long begin, end, before, after;
	int fd, other = -1;
	long events;

	if (argc != 3 || (strcmp(argv[1], "tty") && strcmp(argv[1], "key"))) {
		fprintf(stderr, "usage: input tty|key EVENTS\n");
		return 2;
	}
	events = number(argv[2], 1, 10000000);
	fd = strcmp(argv[1], "tty") ? keyboard() : terminal(&other);
	before = switches();
	begin = now_ns();
	for (long i = 0; i < events; i++) {
		if (other < 0)
			key(fd, i);
		else
			type(fd, other);
	}
	end = now_ns();
	after = switches();
	printf("{\"value\": %.1f, \"switches\": %.3f}\n", (double)(end - begin) / events,
	       (double)(after - before) / events);
	return 0;
}
