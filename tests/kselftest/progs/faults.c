// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * faults FILE RECLAIM: take page faults on command; RECLAIM is memory.reclaim of its cgroup. Standard input, one command a line:
 *   out N     push N pages of anonymous memory out to swap
 *   in        read them
 *   swap N    both
 *   file N    read N pages of FILE that are not in the page cache
 *   minor N   write N pages of new memory
 *   thread N  as swap, by a second thread, which then waits
 *   join      let that thread end
 *   exec      that thread calls execve() of this program: it takes over the process
 * Answer to each: thread id, its major faults (getrusage), CLOCK_MONOTONIC in ns.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAGE	4096UL

static volatile char sink;
static char **arguments;
static int go[2], answered[2];
static long thread_pages;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static long major_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_majflt;
}

static void answer(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	printf("%d %ld %lld\n", gettid(), major_faults(), t.tv_sec * 1000000000LL + t.tv_nsec);
	fflush(stdout);
}

/* Have the cgroup give back memory: pages written to swap stay in the swap cache until then. */
static void reclaim(void)
{
	int fd = open(arguments[2], O_WRONLY);

	if (fd < 0)
		die(arguments[2]);
	if (write(fd, "4M", 2) < 0) {
		/* EAGAIN: there was less to reclaim */
	}
	close(fd);
}

/* Wait until none of the pages is in memory: then each touch is a fault with I/O. */
static void wait_out(char *memory, long pages)
{
	unsigned char *in = malloc(pages);
	long i, present, tries;

	for (tries = 0; tries < 500; tries++) {
		madvise(memory, pages * PAGE, MADV_PAGEOUT);
		if (mincore(memory, pages * PAGE, in))
			die("mincore");
		for (i = present = 0; i < pages; i++)
			present += in[i] & 1;
		if (!present) {
			free(in);
			return;
		}
		usleep(10000);
		reclaim();
	}
	fprintf(stderr, "%ld pages stayed in memory\n", present);
	exit(1);
}

static void touch(char *memory, long pages)
{
	long i;

	for (i = 0; i < pages; i++)
		sink = memory[i * PAGE];
	munmap(memory, pages * PAGE);
}

static char *new_memory(long pages)
{
	char *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || madvise(memory, pages * PAGE, MADV_NOHUGEPAGE))
		die("mmap");
	return memory;
}

static char *swapped(long pages)
{
	char *memory = new_memory(pages);

	memset(memory, 1, pages * PAGE);
	wait_out(memory, pages);
	return memory;
}

static char *uncached(const char *path, long pages)
{
	int fd = open(path, O_RDWR);
	char *memory;

	if (fd < 0 || fsync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
		die(path);
	memory = mmap(NULL, pages * PAGE, PROT_READ, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED || madvise(memory, pages * PAGE, MADV_RANDOM))
		die("mmap");
	close(fd);
	wait_out(memory, pages);
	return memory;
}

static void *second(void *arg)
{
	char byte;

	touch(arg, thread_pages);
	answer();
	if (write(answered[1], "a", 1) != 1 || read(go[0], &byte, 1) != 1)
		die("pipe");
	if (byte == 'e')
		execv("/proc/self/exe", arguments);
	answer();
	return NULL;
}

int main(int argc, char **argv)
{
	char line[64], command[16], byte;
	pthread_t thread;
	long pages, outside_pages = 0, i;
	char *outside = NULL;

	arguments = argv;
	if (argc < 3 || pipe(go) || pipe(answered))
		die("usage: faults FILE RECLAIM");
	answer();
	while (fgets(line, sizeof(line), stdin)) {
		pages = 0;
		if (sscanf(line, "%15s %ld", command, &pages) < 1)
			continue;
		if (!strcmp(command, "swap")) {
			touch(swapped(pages), pages);
		} else if (!strcmp(command, "out")) {
			outside = swapped(pages);
			outside_pages = pages;
		} else if (!strcmp(command, "in")) {
			touch(outside, outside_pages);
		} else if (!strcmp(command, "file")) {
			touch(uncached(argv[1], pages), pages);
		} else if (!strcmp(command, "minor")) {
			char *memory = new_memory(pages);

			for (i = 0; i < pages; i++)
				memory[i * PAGE] = 1;
			munmap(memory, pages * PAGE);
		} else if (!strcmp(command, "thread")) {
			thread_pages = pages;
			if (pthread_create(&thread, NULL, second, swapped(pages)) || read(answered[0], &byte, 1) != 1)
				die("thread");
			continue;
		} else if (!strcmp(command, "join")) {
			if (write(go[1], "j", 1) != 1 || pthread_join(thread, NULL))
				die("join");
			continue;
		} else if (!strcmp(command, "exec")) {
			if (write(go[1], "e", 1) != 1)
				die("exec");
			pause();
		}
		answer();
	}
	return 0;
}
