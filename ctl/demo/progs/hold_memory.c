// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Fixes the room of a comparison: holds memory, and keeps program files in memory.
 *
 *	hold_memory KB FILE...
 *
 * Locks the cached pages of each FILE and drops the rest of the page cache. So only the programs' data are paged, on
 * the swap device, and not program files, on the image's disk. Then leaves KB of available memory (MemAvailable),
 * whatever else is loaded, by allocating and locking the rest. When that has been so for QUIET_MS it prints "files KB
 * held KB", stops adjusting and waits to be killed.
 *
 * The kernel counts pages of files as available until it has tried to reclaim them and met the lock: of folios of several
 * pages it learns that only then. So the kernel is made to try first; otherwise 30 MB of a room of 96 were missing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096L
#define CHUNK (512 * 1024L) /* of held memory */
#define EXACT (2 * CHUNK) /* programs that idle take and give as much */
#define MAX_CHUNKS 65536
#define STEP_MS 50
#define QUIET_MS 2000
#define PATIENCE_MS 60000
#define ALL_FILES "1G swappiness=0"

static void die(const char *what)
{
	fprintf(stderr, "hold_memory: ");
	perror(what);
	exit(1);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	/* EAGAIN: not all that was asked for could be reclaimed */
	if (fd < 0 || (write(fd, text, strlen(text)) < 0 && errno != EAGAIN))
		die(path);
	close(fd);
}

/* Lock the pages of a file that are in memory; return how many. */
static long lock_cached(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	long locked = 0, pages, run;
	unsigned char *cached;
	struct stat status;
	char *memory;

	if (fd < 0 || fstat(fd, &status) != 0)
		die(path);
	pages = (status.st_size + PAGE - 1) / PAGE;
	if (pages == 0)
		return close(fd), 0;
	memory = mmap(NULL, pages * PAGE, PROT_READ, MAP_SHARED, fd, 0);
	cached = malloc(pages);
	if (memory == MAP_FAILED || !cached || mincore(memory, pages * PAGE, cached) != 0)
		die(path);
	for (long page = 0; page < pages; page += run + 1) {
		for (run = 0; page + run < pages && cached[page + run] & 1;)
			run++;
		if (run && mlock(memory + page * PAGE, run * PAGE) != 0)
			die(path);
		locked += run;
	}
	free(cached);
	close(fd); /* the mapping stays, and the locks with it */
	return locked;
}

static long available_kb(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	char line[128];
	long kb = -1;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %ld", &kb) == 1)
			break;
	if (kb < 0)
		die("/proc/meminfo");
	fclose(file);
	return kb;
}

/* Hold more, or less when negative, in chunks; returns the number of held chunks. */
static long hold(long chunks, long more)
{
	static char *held[MAX_CHUNKS];

	for (; more > 0 && chunks < MAX_CHUNKS; more--) {
		held[chunks] = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED | MAP_POPULATE, -1, 0);
		if (held[chunks++] == MAP_FAILED)
			die("memory");
	}
	for (; more < 0 && chunks > 0; more++)
		munmap(held[--chunks], CHUNK);
	return chunks;
}

int main(int argc, char **argv)
{
	char *rest = "";
	long leave = argc > 1 ? strtol(argv[1], &rest, 10) : 0, files = 0, chunks = 0, off;

	if (argc < 2 || *rest != '\0' || leave < 1) {
		fprintf(stderr, "usage: hold_memory KB FILE..., KB at least 1\n");
		return 2;
	}
	for (int i = 2; i < argc; i++)
		files += lock_cached(argv[i]) * PAGE / 1024;
	write_file("/proc/sys/vm/drop_caches", "3");
	write_file("/sys/fs/cgroup/memory.reclaim", ALL_FILES);

	/* In steps, because memory freed elsewhere and pages that come back change the estimate for a while. */
	for (int ms = 0, quiet = 0; quiet < QUIET_MS; ms += STEP_MS, quiet += STEP_MS) {
		off = available_kb() - leave;
		if (labs(off) * 1024 > EXACT) {
			quiet = 0;
			chunks = hold(chunks, off * 1024 / CHUNK);
		}
		if (ms >= PATIENCE_MS) {
			fprintf(stderr, "hold_memory: %ld KB are available and not the %ld KB to leave, with %ld MB held\n",
				leave + off, leave, chunks * CHUNK >> 20);
			return 1;
		}
		usleep(STEP_MS * 1000);
	}
	printf("files %ld held %ld\n", files, chunks * CHUNK / 1024);
	fflush(stdout);
	for (;;)
		pause();
}
