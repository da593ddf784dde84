// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * messages PROTO COUNT [ROUNDS]: send COUNT messages over tcp, tcp6, udp, udp6, stream,
 * dgram or seqpacket, the hard way. In each round a new connected pair is
 *   shared: two threads send on one end, two receive on the other;
 *   passed: the receiving end goes to another process by SCM_RIGHTS, whose two
 *           threads receive, while ours is closed;
 *   left:   messages are left unread in both directions, SIGKILL kills the receiver, our end is closed.
 * Prints "done", then waits for end of file on its standard input with all of
 * these sockets gone and itself alive.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE	64	/* bytes of a message */
#define WINDOW	8	/* messages in flight: no datagram is dropped */
#define LEFT	5	/* messages left unread in each direction */

struct flow {
	int fd;
	int stream;
	long target;
	/* Shared between the processes. */
	atomic_long *sent, *received;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void *sender(void *arg)
{
	struct flow *f = arg;
	char message[SIZE] = { 0 };
	long number;

	while ((number = atomic_fetch_add(f->sent, 1)) < f->target) {
		while (number - atomic_load(f->received) >= WINDOW)
			sched_yield();
		if (send(f->fd, message, SIZE, 0) != SIZE)
			die("send");
	}
	return NULL;
}

static void *receiver(void *arg)
{
	struct flow *f = arg;
	char buffer[SIZE * WINDOW];
	ssize_t n;

	while (atomic_load(f->received) < f->target) {
		/* One message at a time; of a stream, MSG_WAITALL would hold on to half of one. */
		n = recv(f->fd, buffer, SIZE, f->stream ? MSG_WAITALL : 0);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n != SIZE)
			die("recv");
		atomic_fetch_add(f->received, 1);
	}
	return NULL;
}

static void inet_pair(int family, int type, int fd[2])
{
	struct sockaddr_storage address[2];
	socklen_t size[2] = { sizeof(address[0]), sizeof(address[1]) };
	int one = 1, listener, i;

	for (i = 0; i < 2; i++) {
		struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };

		fd[i] = socket(family, type, 0);
		if (fd[i] < 0 || bind(fd[i], family == AF_INET ? (void *)&v4 : (void *)&v6,
				      family == AF_INET ? sizeof(v4) : sizeof(v6)) ||
		    getsockname(fd[i], (void *)&address[i], &size[i]))
			die("socket");
	}
	if (type == SOCK_DGRAM) {
		if (connect(fd[0], (void *)&address[1], size[1]) || connect(fd[1], (void *)&address[0], size[0]))
			die("connect");
		return;
	}
	listener = fd[1];
	if (listen(listener, 1) || connect(fd[0], (void *)&address[1], size[1]) ||
	    (fd[1] = accept(listener, NULL, NULL)) < 0)
		die("accept");
	close(listener);
	setsockopt(fd[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void make_pair(const char *proto, int fd[2])
{
	struct timeval patience = { .tv_usec = 50000 };	/* a second receiver may wait for nothing */

	if (!strncmp(proto, "tcp", 3))
		inet_pair(proto[3] ? AF_INET6 : AF_INET, SOCK_STREAM, fd);
	else if (!strncmp(proto, "udp", 3))
		inet_pair(proto[3] ? AF_INET6 : AF_INET, SOCK_DGRAM, fd);
	else if (socketpair(AF_UNIX, !strcmp(proto, "stream") ? SOCK_STREAM :
			    !strcmp(proto, "dgram") ? SOCK_DGRAM : SOCK_SEQPACKET, 0, fd))
		die("socketpair");
	if (setsockopt(fd[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		die("SO_RCVTIMEO");
}

static void run_threads(struct flow *f, int senders, int receivers)
{
	pthread_t threads[4];
	int i;

	for (i = 0; i < senders + receivers; i++)
		if (pthread_create(&threads[i], NULL, i < senders ? sender : receiver, f))
			die("pthread_create");
	for (i = 0; i < senders + receivers; i++)
		pthread_join(threads[i], NULL);
}

static void pass_fd(int control, int fd)
{
	char space[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(control, &m, 0) != 1)
		die("sendmsg");
}

static int take_fd(int control)
{
	char space[CMSG_SPACE(sizeof(int))], byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space) };
	int fd;

	if (recvmsg(control, &m, 0) != 1 || !CMSG_FIRSTHDR(&m))
		die("recvmsg");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

/* The other process: receives, leaves messages unread, waits to be killed. */
static void other(int control, struct flow f)
{
	char message[SIZE] = { 0 };
	int i;

	f.fd = take_fd(control);
	run_threads(&f, 0, 2);
	for (i = 0; i < LEFT; i++)
		if (send(f.fd, message, SIZE, 0) != SIZE)
			die("send back");
	if (write(control, "r", 1) != 1)
		die("ready");
	for (;;)
		pause();
}

static void one_round(const char *proto, long count)
{
	atomic_long *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct flow f = { .sent = &shared[0], .received = &shared[1], .target = count / 2 };
	char message[SIZE] = { 0 }, byte;
	int control[2], fd[2], i;
	pid_t child;

	f.stream = !strncmp(proto, "tcp", 3) || !strcmp(proto, "stream");
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, control))
		die("socketpair");
	child = fork();
	if (child < 0)
		die("fork");
	if (!child) {
		close(control[0]);
		f.target = count;
		other(control[1], f);
	}
	close(control[1]);
	make_pair(proto, fd);

	f.fd = fd[0];
	struct flow receiving = f;
	receiving.fd = fd[1];
	pthread_t threads[2];
	for (i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, receiver, &receiving))
			die("pthread_create");
	run_threads(&f, 2, 0);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);

	pass_fd(control[0], fd[1]);
	close(fd[1]);
	atomic_store(f.sent, f.target);		/* each sender drew one number too many */
	f.target = count;
	run_threads(&f, 2, 0);
	if (read(control[0], &byte, 1) != 1)
		die("other process");

	for (i = 0; i < LEFT; i++)
		if (send(fd[0], message, SIZE, 0) != SIZE)
			die("send");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(fd[0]);
	close(control[0]);
	munmap(shared, 4096);
}

int main(int argc, char **argv)
{
	long count = argc > 2 ? atol(argv[2]) : 1000;
	int rounds = argc > 3 ? atoi(argv[3]) : 10, i;

	signal(SIGPIPE, SIG_IGN);
	for (i = 0; i < rounds; i++)
		one_round(argv[1], count / rounds);
	puts("done");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
