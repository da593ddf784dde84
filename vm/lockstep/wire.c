// SPDX-License-Identifier: GPL-2.0-only
/*
 * Frames. QEMU writes what the guest sends to a socket whose other end is here (-netdev socket,fd=: each frame with its
 * size, big-endian, in 4 bytes before it), at the moment of guest time at which the guest sends: nothing waits for the
 * main loop. What others have sent goes straight to the guest's network card, not through the socket: the main loop
 * would read that whenever the host lets it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "lockstep.h"
#include "qemu.h"

#define FRAME_MAX (68 * 1024) /* as in QEMU's net.h, and its size */
#define ADDRESS_BYTES 6

static struct net_client *net;
static const char *netdev;
static int wire = -1;
static uint8_t own[ADDRESS_BYTES];
static bool filtered;
static uint8_t begun[FRAME_MAX]; /* of a frame whose end has not come yet */
static size_t begun_size;

void wire_open(const char *id, int fd, const char *mac)
{
	netdev = id;
	wire = fd;
	if (!mac)
		return;
	filtered = true;
	if (sscanf(mac, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", own, own + 1, own + 2, own + 3, own + 4, own + 5) != 6)
		give_up("mac=%s is not the address of a network card", mac);
}

static uint32_t frame_size(const uint8_t *at)
{
	uint32_t size;

	memcpy(&size, at, sizeof(size));
	return ntohl(size);
}

/* The bytes of whole frames at the beginning of some. */
static size_t whole(const uint8_t *bytes, size_t size)
{
	size_t at = 0;

	while (at + 4 <= size && at + 4 + frame_size(bytes + at) <= size)
		at += 4 + frame_size(bytes + at);
	return at;
}

/* Put what the guest has sent since the last boundary into the box; what has no room there goes into the next one. */
void wire_collect(struct box *box)
{
	size_t size = begun_size;

	memcpy(box->frames, begun, begun_size);
	while (wire >= 0 && size < BOX_BYTES) {
		ssize_t got = recv(wire, box->frames + size, BOX_BYTES - size, MSG_DONTWAIT);

		if (got <= 0)
			break;
		size += got;
	}
	box->size = whole(box->frames, size);
	begun_size = size - box->size;
	if (begun_size > sizeof(begun))
		give_up("a frame of %u bytes came from the guest", frame_size(box->frames + box->size));
	memcpy(begun, box->frames + box->size, begun_size);
}

static bool is_for_me(const uint8_t *frame)
{
	return !filtered || (frame[0] & 1) || memcmp(frame, own, ADDRESS_BYTES) == 0; /* odd: to several */
}

/* Hand the guest what the others have sent before this boundary: guest by guest, each one's in the order of sending. */
void wire_deliver(int me, int count)
{
	if (wire >= 0 && !net && !(net = qemu_find_netdev(netdev)))
		give_up("there is no -netdev with id=%s", netdev);
	for (int i = 0; wire >= 0 && i < count; i++) {
		const struct box *box = i == me ? NULL : peers_box(i);

		for (size_t at = 0; box && at < box->size; at += 4 + frame_size(box->frames + at)) {
			uint32_t size = frame_size(box->frames + at);

			if (size >= ADDRESS_BYTES && is_for_me(box->frames + at + 4))
				qemu_send_packet(net, box->frames + at + 4, size);
		}
	}
}
