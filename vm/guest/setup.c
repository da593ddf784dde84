// SPDX-License-Identifier: GPL-2.0-or-later
/* Run a program before the command; it makes a guest a node of a cluster. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

#define LOG "/run/setup.log"

/* Tell the host the last words of a log, on one line. */
__attribute__((noreturn)) static void fail_by_log(int log, const char *program)
{
	char text[400];
	off_t size = lseek(log, 0, SEEK_END);
	ssize_t got = pread(log, text, sizeof(text) - 1, size > (off_t)sizeof(text) ? size - (off_t)sizeof(text) + 1 : 0);

	text[got > 0 ? got : 0] = '\0';
	for (char *at = text; *at; at++)
		if (*at == '\n')
			*at = ' ';
	fail("%s failed: %s", program, text);
}

/* Run what the host wants to have run before the command, if anything, and see that it succeeds. */
void set_up(struct request *request)
{
	int log, status;
	pid_t child;

	if (!request->setup[0])
		return;
	log = open(LOG, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	child = fork();
	if (child == 0) {
		setsid();
		dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
		dup2(log, STDOUT_FILENO);
		dup2(log, STDERR_FILENO);
		signal(SIGPIPE, SIG_DFL);
		execvpe(request->setup[0], request->setup, request->envp);
		dprintf(STDERR_FILENO, "%s", strerror(errno));
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		fail_by_log(log, request->setup[0]);
	close(log);
}
