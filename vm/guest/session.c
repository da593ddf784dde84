// SPDX-License-Identifier: GPL-2.0-or-later
/* One command in the guest: init reads the command from the host, carries its output to the host, and reports its end.
 * */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

#define REQUEST_MAX (1 << 20)
#define OUT_DIR "/out"

/* A stream from a descriptor to another; the host compares the count with what has arrived. */
struct stream {
	int from, to;
	unsigned long long count;
};

static int control = -1;

/*
 * Open a virtio-serial port by its number; the bus number depends on the machine, and ports appear after the bus.
 * The wait has no end, as the host has a limit for the boot, and does not sleep: where guest time counts instructions
 * an idle guest's clock jumps ahead, by minutes while a busy host gets round to its part.
 */
int open_port(enum port port, int flags)
{
	for (;;) {
		for (int bus = 0; bus < 32; bus++) {
			char path[32];
			int fd;

			snprintf(path, sizeof(path), "/dev/vport%dp%d", bus, port);
			fd = open(path, flags | O_CLOEXEC);
			if (fd >= 0)
				return fd;
		}
		sched_yield();
	}
}

void tell_host(const char *format, ...)
{
	char text[600];
	va_list args;
	int size;

	if (control < 0)
		control = open_port(PORT_CONTROL, O_RDWR | O_NONBLOCK);
	va_start(args, format);
	size = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	write_all(control, text, (size_t)size < sizeof(text) ? (size_t)size : sizeof(text) - 1);
}

/* Read one byte stream from the host until the word "end"; the strings stay in the buffer. */
static char *read_request(size_t *size)
{
	char *buffer = malloc(REQUEST_MAX);

	*size = 0;
	while (*size < 4 || memcmp(buffer + *size - 4, "end", 4) != 0 || (*size > 4 && buffer[*size - 5] != '\0')) {
		ssize_t got;

		if (*size == REQUEST_MAX)
			fail("the command is longer than %d bytes", REQUEST_MAX);
		got = read(control, buffer + *size, REQUEST_MAX - *size);
		if (got > 0)
			*size += got;
		else
			sched_yield(); /* nothing is there yet; see open_port() why this does not sleep */
	}
	return buffer;
}

static void parse_request(struct request *request)
{
	size_t size;
	char *text = read_request(&size);

	for (char *word = text; word < text + size; word += strlen(word) + 1) {
		if (strncmp(word, "arg=", 4) == 0 && request->argc < MAX_WORDS)
			request->argv[request->argc++] = word + 4;
		else if (strncmp(word, "env=", 4) == 0 && request->envc < MAX_WORDS)
			request->envp[request->envc++] = word + 4;
		else if (strncmp(word, "setup=", 6) == 0 && request->setupc < MAX_SETUP)
			request->setup[request->setupc++] = word + 6;
		else if (sscanf(word, "tty=%hux%hu", &request->rows, &request->cols) == 2)
			request->tty = true;
		else if (strcmp(word, "out") == 0)
			request->out = true;
		else if (strncmp(word, "clock=", 6) == 0)
			request->clock_ns = atoll(word + 6);
		else if (sscanf(word, "swap=%lu:%lu", &request->swap_mb, &request->swap_latency_us) != 2 &&
			 strcmp(word, "end") != 0)
			fail("the host asked for something unknown, or too much: %.60s", word);
	}
	if (request->argc == 0)
		fail("the host named no command");
}

/* In the child: become the command. 127 and 126 are the shell's statuses for "not found" and "cannot run". */
__attribute__((noreturn)) static void become(struct request *request)
{
	sigset_t none;
	int error;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	if (chdir("/src") != 0)
		_exit(126);
	execvpe(request->argv[0], request->argv, request->envp);
	error = errno;
	dprintf(STDERR_FILENO, "%s: %s\n", request->argv[0], strerror(error));
	_exit(error == ENOENT ? 127 : 126);
}

static pid_t start_on_tty(struct request *request, struct stream *out, int *input)
{
	struct winsize size = { .ws_row = request->rows, .ws_col = request->cols };
	int master;
	pid_t child = forkpty(&master, NULL, NULL, &size);

	if (child == 0)
		become(request);
	if (child < 0)
		fail("cannot start the command on a terminal: %s", strerror(errno));
	fcntl(master, F_SETFD, FD_CLOEXEC);
	fcntl(master, F_SETFL, O_NONBLOCK);
	out->from = master;
	*input = dup(master);
	return child;
}

static pid_t start_on_pipes(struct request *request, struct stream *out, struct stream *err, int *input)
{
	int in[2], to_out[2], to_err[2];
	pid_t child;

	if (pipe2(in, O_CLOEXEC) || pipe2(to_out, O_CLOEXEC) || pipe2(to_err, O_CLOEXEC))
		fail("cannot make the command's pipes: %s", strerror(errno));
	child = fork();
	if (child == 0) {
		setsid();
		dup2(in[0], STDIN_FILENO);
		dup2(to_out[1], STDOUT_FILENO);
		dup2(to_err[1], STDERR_FILENO);
		become(request);
	}
	if (child < 0)
		fail("cannot start the command: %s", strerror(errno));
	close(in[0]);
	close(to_out[1]);
	close(to_err[1]);
	fcntl(to_out[0], F_SETFL, O_NONBLOCK);
	fcntl(to_err[0], F_SETFL, O_NONBLOCK);
	fcntl(in[1], F_SETFL, O_NONBLOCK);
	out->from = to_out[0];
	err->from = to_err[0];
	*input = in[1];
	return child;
}

/* Carry all present bytes; false at the stream's end. */
static bool carry(struct stream *stream)
{
	static char buffer[32768];
	ssize_t got = read(stream->from, buffer, sizeof(buffer));

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (got <= 0) { /* a terminal whose last process is gone reads as EIO */
		close(stream->from);
		stream->from = -1;
		return false;
	}
	write_all(stream->to, buffer, got);
	stream->count += got;
	return true;
}

/* Carry all that is left without waiting for more: a daemon the command left behind may keep the pipe open. */
static void drain(struct stream *stream)
{
	struct pollfd ready = { .fd = stream->from, .events = POLLIN };

	while (stream->from >= 0 && poll(&ready, 1, 0) == 1 && carry(stream))
		;
}

/* Carry the host's input to the command, at the command's pace; -1 in *to ends it. */
struct input {
	int from, *to;
	char buffer[4096];
	size_t held, given;
};

static void feed(struct input *input)
{
	if (input->held == input->given) {
		ssize_t got = read(input->from, input->buffer, sizeof(input->buffer));

		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		input->given = 0;
		input->held = got > 0 ? got : 0;
	}
	if (input->held > input->given) {
		ssize_t done = write(*input->to, input->buffer + input->given, input->held - input->given);

		if (done > 0)
			input->given += done;
		if (done > 0 || errno == EAGAIN || errno == EINTR)
			return;
	}
	close(*input->to); /* the host's input has ended, or the command reads no more */
	*input->to = -1;
}

/* The host speaks on the control port during a session only to tell that its terminal changed size. */
static void hear_host(int terminal)
{
	char text[64];
	struct winsize size = { 0 };
	ssize_t got = read(control, text, sizeof(text) - 1);

	if (got <= 0)
		return;
	text[got] = '\0';
	if (sscanf(text, "size %hu %hu", &size.ws_row, &size.ws_col) == 2 && terminal >= 0)
		ioctl(terminal, TIOCSWINSZ, &size);
}

/* Reap ended processes; true, with the wait status, once the command itself ended. */
static bool reap(int signals, pid_t command, int *status)
{
	struct signalfd_siginfo info;
	bool ended = false;
	pid_t pid;
	int one;

	(void)!read(signals, &info, sizeof(info));
	while ((pid = waitpid(-1, &one, WNOHANG)) > 0) {
		if (pid == command) {
			*status = one;
			ended = true;
		}
	}
	return ended;
}

static unsigned long oom_kills(void)
{
	char line[128];
	unsigned long count = 0;
	FILE *file = fopen("/proc/vmstat", "re");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "oom_kill %lu", &count) == 1)
			break;
	if (file)
		fclose(file);
	return count;
}

/*
 * Without swap a guest that is out of memory goes on reading back the program text it has just dropped, for minutes.
 * Make the kernel kill as soon as it cannot keep the pages used in the last second. With swap, thrashing is the
 * subject.
 */
static void kill_rather_than_thrash(void)
{
	write_file("/sys/kernel/mm/lru_gen/min_ttl_ms", "1000");
}

static bool is_empty(const char *path)
{
	struct dirent *entry;
	DIR *dir = opendir(path);
	bool empty = true;

	while (dir && empty && (entry = readdir(dir)))
		empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
	if (dir)
		closedir(dir);
	return empty;
}

/* Send what the command left in /out, as a tar stream. */
static unsigned long long send_out(void)
{
	struct stream tar = { .to = open_port(PORT_OUT, O_WRONLY) };
	int ends[2], status = 0;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC) != 0)
		fail("cannot send /out: %s", strerror(errno));
	child = fork();
	if (child == 0) {
		dup2(ends[1], STDOUT_FILENO);
		execl("/usr/bin/tar", "tar", "-C", OUT_DIR, "--sort=name", "--sparse", "-cf", "-", ".", (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	tar.from = ends[0];
	while (carry(&tar))
		;
	if (waitpid(child, &status, 0) != child || status != 0)
		fail("cannot send /out: tar ended with wait status %d", status);
	return tar.count;
}

static int run_command(struct request *request, struct stream *out, struct stream *err)
{
	int signals, status = 0, feeding = -1;
	struct input input = { .from = open_port(PORT_STDIN, O_RDONLY | O_NONBLOCK), .to = &feeding };
	sigset_t mask;
	pid_t command;

	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	command = request->tty ? start_on_tty(request, out, &feeding) : start_on_pipes(request, out, err, &feeding);
	for (;;) {
		bool pending = input.given < input.held;
		struct pollfd fds[] = {
			{ .fd = signals, .events = POLLIN },
			{ .fd = out->from, .events = POLLIN },
			{ .fd = err->from, .events = POLLIN },
			{ .fd = control, .events = POLLIN },
			{ .fd = feeding < 0 || pending ? -1 : input.from, .events = POLLIN },
			{ .fd = pending ? feeding : -1, .events = POLLOUT },
		};

		if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0)
			continue;
		if (fds[1].revents)
			carry(out);
		if (fds[2].revents)
			carry(err);
		if (fds[3].revents & POLLIN)
			hear_host(request->tty ? out->from : -1);
		if (fds[4].revents || fds[5].revents)
			feed(&input);
		if (fds[0].revents && reap(signals, command, &status))
			return status;
	}
}

static double uptime(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/*
 * Where time counts instructions the time stamp counter is the ns since the machine was switched on, on all nodes that
 * are in lock-step. A clock set by it is the same everywhere; the battery-backed one has whole seconds only.
 */
static void set_clock(long long switched_on_ns)
{
	long long now = switched_on_ns + (long long)__builtin_ia32_rdtsc();
	struct timespec time = { .tv_sec = now / 1000000000, .tv_nsec = now % 1000000000 };

	if (clock_settime(CLOCK_REALTIME, &time) != 0)
		fail("cannot set the clock: %s", strerror(errno));
}

void serve(void)
{
	static struct request request;
	struct stream out = { .from = -1 }, err = { .from = -1 };
	unsigned long long sent = 0;
	unsigned long killed_before;
	int status, code;

	control = open_port(PORT_CONTROL, O_RDWR | O_NONBLOCK);
	parse_request(&request);
	if (request.clock_ns)
		set_clock(request.clock_ns);
	out.to = open_port(PORT_STDOUT, O_WRONLY);
	err.to = open_port(PORT_STDERR, O_WRONLY);
	if (request.swap_mb)
		add_swap(request.swap_mb, request.swap_latency_us);
	else
		kill_rather_than_thrash();
	set_up(&request);
	killed_before = oom_kills();
	tell_host("start %.3f\n", uptime());
	status = run_command(&request, &out, &err);
	drain(&out);
	drain(&err);
	code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	if (request.out && !is_empty(OUT_DIR))
		sent = send_out();
	tell_host("end %d %d %llu %llu %llu\n", code, code == 128 + SIGKILL && oom_kills() > killed_before, out.count,
		  err.count, sent);
	for (;;)
		pause(); /* the host ends the guest */
}
