// SPDX-License-Identifier: GPL-2.0-or-later
/* flood PORT...: sends datagrams of one byte to the local ports in turn, without end, whoever reads them or not. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int end = socket(AF_INET, SOCK_DGRAM, 0);

	if (argc < 2 || end < 0)
		return 2;
	for (int i = 1;; i = i + 1 < argc ? i + 1 : 1) {
		to.sin_port = htons(atoi(argv[i]));
		sendto(end, "", 1, 0, (struct sockaddr *)&to, sizeof(to));
	}
}
