// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The guest's init: one static program that is /init of the initrd and stays process 1.
 *
 * It loads the few modules the root disk needs, mounts the root disk and what a distribution's init would mount,
 * lays the host's disk (this checkout, the BPF objects) over it, and runs the one command the host asks for on a
 * virtio-serial control port. The command's output goes back on ports of its own; nothing else is written there.
 *
 * With COSCHED_INIT=systemd on the kernel command line it hands process 1 over to systemd, which starts this program
 * again, as a service, to run the command.
 *
 * It is in C because an emulated CPU needs half a second to start Python, and ten milliseconds for each mount(8).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest.h"

#define SYSTEMD "/usr/lib/systemd/systemd"
#define SELF "/run/cosched-init"

/* Tell the host, and the console in case the host cannot hear yet, why this guest is of no use; then end it. */
void fail(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	dprintf(STDERR_FILENO, "init: %s\n", text);
	tell_host("fail %s\n", text);
	sleep(5); /* the host ends the guest as soon as it has read this */
	reboot(RB_AUTOBOOT);
	_exit(1);
}

int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t done;

	if (fd < 0)
		return -1;
	done = write(fd, text, strlen(text));
	close(fd);
	return done == (ssize_t)strlen(text) ? 0 : -1;
}

void write_all(int fd, const void *data, size_t size)
{
	const char *at = data;

	while (size > 0) {
		ssize_t done = write(fd, at, size);

		if (done < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (done <= 0)
			return; /* the reader is gone: nobody is left to tell */
		at += done;
		size -= done;
	}
}

/* Leave a copy of this program where systemd can start it: the initrd's root is out of reach soon. */
static void save_self(int self)
{
	char buffer[65536];
	ssize_t size;
	int copy = open(SELF, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	while ((size = read(self, buffer, sizeof(buffer))) > 0)
		write_all(copy, buffer, size);
	close(copy);
	close(self);
}

int main(int argc, char **argv)
{
	const char *wanted = getenv("COSCHED_INIT");
	int self;

	signal(SIGPIPE, SIG_IGN);
	if (argc == 2 && strcmp(argv[1], "serve") == 0)
		serve();
	if (getpid() != 1) {
		fprintf(stderr, "this is the guest's init, started by the kernel\n");
		return 2;
	}
	umask(022);
	self = open("/init", O_RDONLY | O_CLOEXEC);
	early_root();
	host_files();
	if (wanted && strcmp(wanted, "systemd") == 0) {
		save_self(self);
		execl(SYSTEMD, SYSTEMD, "--unit=cosched-command.target", (char *)NULL);
		fail("cannot start %s: %s", SYSTEMD, strerror(errno));
	}
	system_mounts();
	loopback_up();
	serve();
}
