// SPDX-License-Identifier: GPL-2.0-only
/*
 * The guest and its host. Whatever the host gives a guest is handed over at a boundary, so that it is part of a run at
 * a moment of guest time, not whenever the host came round to it:
 *
 * - feeds: bytes from a descriptor for a character device, given as soon as the device has room;
 * - questions: lines that the guest writes to a character device. All guests stand still until the host has answered
 *   one, so however long that takes, to the guest it takes the rest of a quantum;
 * - the host's own wishes, for which it knocks first, and all guests stand still until it says "go".
 *
 * With the host the plugin speaks in lines on one socket:
 *
 *	joined			this guest is in step with the others from now on
 *	ask TEXT		the guest asks; the host's "answer TEXT" is for it
 *	knock			the host wants something; "open" tells it that all guests stand still, until its "go"
 *	do LINE			at such times, to any guest: a line for QEMU's text monitor; "did TEXT" is what it said
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lockstep.h"
#include "qemu.h"

#define MAX_FEEDS 8
#define LINE 8192

struct feed {
	const char *id;
	struct chardev *chardev;
	int fd;
	size_t begin, end; /* of what the guest has not got yet */
	bool ended, told;
	uint8_t bytes[LINE];
};

/* Bytes that have come, up to the end of a line. */
struct lines {
	size_t size;
	char bytes[LINE];
};

static struct feed feeds[MAX_FEEDS + 1]; /* the last: answers */
static struct feed *answers;
static int feed_count, host = -1, questions = -1;
static struct lines asked, said;
static bool knocked;

void host_open(int fd)
{
	host = fd;
}

void host_add_feed(const char *chardev, int fd)
{
	if (feed_count == MAX_FEEDS)
		give_up("more than %d feeds", MAX_FEEDS);
	feeds[feed_count++] = (struct feed){ .id = chardev, .fd = fd };
}

void host_add_questions(const char *chardev, int fd)
{
	answers = &feeds[MAX_FEEDS];
	answers->id = chardev;
	answers->fd = -1;
	questions = fd;
}

void host_say(const char *text)
{
	char line[LINE + 16];
	int size = snprintf(line, sizeof(line), "%s\n", text);

	if (host >= 0 && send(host, line, size, MSG_NOSIGNAL) != size)
		give_up("the host does not listen: %s", strerror(errno));
}

/* Read what is there; false at the end. */
static bool read_more(struct lines *lines, int fd)
{
	ssize_t got;

	if (lines->size == LINE)
		give_up("a line of more than %d bytes came", LINE);
	got = recv(fd, lines->bytes + lines->size, LINE - lines->size, MSG_DONTWAIT);
	if (got > 0)
		lines->size += got;
	return got > 0 || (got < 0 && errno == EAGAIN);
}

/* Take the first line out; false where there is none. */
static bool take_line(struct lines *lines, char *line)
{
	char *end = memchr(lines->bytes, '\n', lines->size);
	size_t size;

	if (!end)
		return false;
	size = end - lines->bytes;
	memcpy(line, lines->bytes, size);
	line[size] = '\0';
	lines->size -= size + 1;
	memmove(lines->bytes, end + 1, lines->size);
	return true;
}

static void fill(struct feed *feed)
{
	ssize_t got = read(feed->fd, feed->bytes, sizeof(feed->bytes));

	feed->begin = 0;
	feed->end = got > 0 ? got : 0;
	feed->ended = got == 0 || (got < 0 && errno != EAGAIN);
}

static void monitor(const char *line)
{
	void *error = NULL;
	char *output = qmp_human_monitor_command(line, false, 0, &error);
	char text[LINE];

	snprintf(text, sizeof(text), "did %s", output ? output : "failed");
	for (char *at = text; *at; at++)
		if (*at == '\r' || *at == '\n')
			*at = ' ';
	g_free(output);
	host_say(text);
}

static void hear(void)
{
	if (!read_more(&said, host))
		give_up("the host is gone");
}

void host_look(void)
{
	struct pollfd fds[MAX_FEEDS + 2] = {
		{ .fd = host, .events = POLLIN },
		{ .fd = questions, .events = POLLIN },
	};
	char line[LINE];

	for (int i = 0; i < feed_count; i++)
		fds[i + 2] = (struct pollfd){ .fd = feeds[i].ended || feeds[i].end > feeds[i].begin ? -1 : feeds[i].fd,
					      .events = POLLIN };
	if (poll(fds, feed_count + 2, 0) <= 0)
		return;
	if (fds[0].revents) {
		hear();
		while (take_line(&said, line))
			if (strcmp(line, "knock") == 0)
				knocked = true;
	}
	if (fds[1].revents)
		read_more(&asked, questions);
	for (int i = 0; i < feed_count; i++)
		if (fds[i + 2].revents)
			fill(&feeds[i]);
}

static bool has_room(struct feed *feed)
{
	if (!feed->chardev && !(feed->chardev = qemu_chr_find(feed->id)))
		give_up("there is no -chardev with id=%s", feed->id);
	return qemu_chr_be_can_write(feed->chardev) > 0;
}

static bool is_waiting(const struct feed *feed)
{
	return feed->id && (feed->end > feed->begin || (feed->ended && !feed->told));
}

bool host_has_input(void)
{
	for (int i = 0; i <= MAX_FEEDS; i++)
		if (is_waiting(&feeds[i]) && has_room(&feeds[i]))
			return true;
	return false;
}

/* A guest that has not opened a port has no room: so it is told of an end when it can hear, not while it boots. */
static void give(struct feed *feed)
{
	while (feed->end > feed->begin && has_room(feed)) {
		int size = qemu_chr_be_can_write(feed->chardev);

		if ((size_t)size > feed->end - feed->begin)
			size = feed->end - feed->begin;
		qemu_chr_be_write(feed->chardev, feed->bytes + feed->begin, size);
		feed->begin += size;
	}
	if (feed->ended && !feed->told && feed->end == feed->begin && has_room(feed)) {
		feed->told = true;
		qemu_chr_be_event(feed->chardev, CHARDEV_CLOSED);
	}
}

void host_feed(void)
{
	for (int i = 0; i <= MAX_FEEDS; i++)
		if (is_waiting(&feeds[i]))
			give(&feeds[i]);
}

bool host_asks(void)
{
	return knocked || memchr(asked.bytes, '\n', asked.size);
}

static void answer(const char *text)
{
	answers->begin = 0;
	answers->end = snprintf((char *)answers->bytes, sizeof(answers->bytes), "%s\n", text);
}

/* Carry out what the host says until a word of its that ends this: "answer", with the rest of the line, or "go". */
static void serve_until(const char *word)
{
	char line[LINE];

	for (;;) {
		while (take_line(&said, line)) {
			if (strncmp(line, word, strlen(word)) == 0) {
				if (answers && strcmp(word, "answer ") == 0)
					answer(line + strlen(word));
				return;
			}
			if (strncmp(line, "do ", 3) == 0)
				monitor(line + 3);
			else if (strcmp(line, "knock") == 0)
				knocked = true;
		}
		poll(&(struct pollfd){ .fd = host, .events = POLLIN }, 1, -1);
		hear();
	}
}

void host_ask(void)
{
	char line[LINE], text[LINE + 8];

	while (take_line(&asked, line)) {
		snprintf(text, sizeof(text), "ask %s", line);
		host_say(text);
		serve_until("answer ");
	}
	if (knocked) {
		knocked = false;
		host_say("open");
		serve_until("go");
	}
}

void host_serve(void)
{
	char line[LINE];

	if (poll(&(struct pollfd){ .fd = host, .events = POLLIN }, 1, 1) > 0)
		hear();
	while (take_line(&said, line)) {
		if (strncmp(line, "do ", 3) == 0)
			monitor(line + 3);
		else if (strcmp(line, "knock") == 0)
			knocked = true;
	}
}
