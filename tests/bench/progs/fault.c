// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fault minor|swap PAGES: touch PAGES pages of anonymous memory, new ones or ones that
 * were pushed out to swap. Prints ns per fault; "major" is how many of them were major.
 */
#include <sys/resource.h>

#include "bench.h"

#define PAGE 4096

static void touch(volatile char *memory, long pages)
{
	for (long i = 0; i < pages; i++)
		memory[i * PAGE]++;
}

static long major_faults(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage))
		DIE("getrusage");
	return usage.ru_majflt;
}

int main(int argc, char **argv)
{
	long long begin, end, before, after;
	long pages, major;
	char *memory;

	if (argc != 3 || (strcmp(argv[1], "minor") && strcmp(argv[1], "swap"))) {
		fprintf(stderr, "usage: fault minor|swap PAGES\n");
		return 2;
	}
	pages = number(argv[2], 1, 1 << 20);
	memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || madvise(memory, pages * PAGE, MADV_NOHUGEPAGE))
		DIE("%ld pages", pages);
	if (!strcmp(argv[1], "swap")) {
		touch(memory, pages);
		if (madvise(memory, pages * PAGE, MADV_PAGEOUT))
			DIE("pushing %ld pages out", pages);
	}
	major = major_faults();
	before = switches();
	begin = now_ns();
	touch(memory, pages);
	end = now_ns();
	after = switches();
	printf("{\"value\": %.1f, \"switches\": %.3f, \"major\": %.3f}\n", (double)(end - begin) / pages,
	       (double)(after - before) / pages, (double)(major_faults() - major) / pages);
	return 0;
}
