// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A job of one process by the profile of a program: CPU time, a working set that may grow, reads of a disk.
 *
 *	profiled_job LOW-KB HIGH-KB GROWTH LOOPS TOUCHES READS DISK SEED
 *	profiled_job calibrate
 *
 * Its life has TOUCHES steps. A step turns a loop LOOPS / TOUCHES times and touches a page that is drawn from the whole
 * working set, every page as likely as any other; one touch in four writes. The set is LOW-KB at the beginning and HIGH-KB
 * after GROWTH percent of the steps; between these it grows evenly. Pages are filled as the set gets them. READS reads of a
 * page each, of places of DISK drawn at random, past the page cache, are spread evenly over the steps.
 *
 * At its end it prints one JSON object: seconds, and of these the seconds of CPU time, and ready without a CPU (queue_s);
 * major faults. The rest of its seconds it read, waited for pages, or was stopped.
 *
 * `calibrate` prints how many loops make a millisecond of CPU time here.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "compute.h"

#define NUMBERS 6 /* of the arguments, before DISK */
#define NOPS "250"
#define WRITES 4 /* one touch in so many */

static uint64_t state;

/*
 * CPU time: a turn is NOPS instructions. In a guest whose time counts instructions any of them takes as long as any
 * other, and these cost the computer that emulates it next to nothing.
 */
static void compute(long loops)
{
	while (loops-- > 0)
		__asm__ volatile(".rept " NOPS "\n\tnop\n\t.endr");
}

/* xorshift64*: the same numbers for the same seed, on any machine. */
static uint64_t draw(uint64_t below)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 0x2545F4914F6CDD1DULL >> 33) % below;
}

static void die(const char *what)
{
	fprintf(stderr, "profiled_job: ");
	perror(what);
	exit(1);
}

static void read_page(int disk, uint64_t pages)
{
	static char page[PAGE] __attribute__((aligned(PAGE)));

	if (pread(disk, page, PAGE, draw(pages) * PAGE) != PAGE)
		die("read");
}

/* The time in which this process was ready and had no CPU, ns. */
static long long queued(void)
{
	unsigned long long ran, waited = 0;
	FILE *file = fopen("/proc/self/schedstat", "r");

	if (!file || fscanf(file, "%llu %llu", &ran, &waited) != 2)
		die("/proc/self/schedstat");
	fclose(file);
	return waited;
}

/* What the process had used before it became this program does not count. */
struct times {
	long long wall, cpu, queue, faults;
};

static struct times now(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (struct times){ now_ns(CLOCK_MONOTONIC), now_ns(CLOCK_PROCESS_CPUTIME_ID), queued(), used.ru_majflt };
}

static void report(struct times began)
{
	struct times ends = now();

	printf("{\"seconds\": %.4f, \"cpu_s\": %.4f, \"queue_s\": %.4f, \"faults\": %lld}\n",
	       (ends.wall - began.wall) * 1e-9, (ends.cpu - began.cpu) * 1e-9, (ends.queue - began.queue) * 1e-9,
	       ends.faults - began.faults);
}

int main(int argc, char **argv)
{
	struct times began = now();
	long numbers[NUMBERS], low, high, have = 0, touches, reads, done = 0;
	uint64_t places = 0;
	int disk = -1;
	char *memory;

	if (argc == 2 && strcmp(argv[1], "calibrate") == 0)
		return printf("%ld\n", loops_per_ms(compute, 4000)) < 0;
	if (argc != NUMBERS + 3) {
		fprintf(stderr, "usage: profiled_job LOW-KB HIGH-KB GROWTH LOOPS TOUCHES READS DISK SEED\n");
		return 2;
	}
	for (int i = 0; i < NUMBERS; i++)
		numbers[i] = number(argv[i + 1], i == 1 || i == 4);
	low = numbers[0] * 1024 / PAGE;
	high = (numbers[1] * 1024 + PAGE - 1) / PAGE;
	touches = numbers[4];
	reads = numbers[5];
	state = number(argv[NUMBERS + 2], 1);
	if (reads) {
		disk = open(argv[NUMBERS + 1], O_RDONLY | O_DIRECT | O_CLOEXEC);
		if (disk < 0 || (places = lseek(disk, 0, SEEK_END) / PAGE) == 0)
			die(argv[NUMBERS + 1]);
	}
	memory = mmap(NULL, high * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || madvise(memory, high * PAGE, MADV_NOHUGEPAGE) != 0)
		die("memory");

	for (long step = 0; step < touches; step++) {
		long until = numbers[2] * touches / 100, want = step < until ? low + (high - low) * step / until : high;
		char *page;

		for (want = want > 0 ? want : 1; have < want; have++)
			memset(memory + have * PAGE, 1 + have % 100, PAGE);
		compute(numbers[3] / touches);
		page = memory + draw(have) * PAGE;
		if (draw(WRITES) == 0)
			++*(volatile char *)page;
		else
			(void)*(volatile char *)page;
		for (; done * touches < reads * (step + 1); done++)
			read_page(disk, places);
	}
	report(began);
	return 0;
}
