// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Samples of running processes: run_samples HZ
 *
 * Samples the process on CPU 0 by a timer interrupt, HZ times a second, under any scheduler; prints "MS PID" for each
 * sample (milliseconds of CLOCK_MONOTONIC) at the end of its input. Between two samples it costs nothing but a wake-up
 * every DRAIN_MS to empty the kernel's buffer. Its memory never goes to swap, and grows with the samples that it has: it
 * is part of the room that the measured tasks share.
 */
#include <linux/perf_event.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGES 64 /* of the buffer; a power of two: 8,192 samples */
#define PAGE 4096L
#define DRAIN_MS 5000
#define MAX_SAMPLES (1 << 20)

struct sample { /* what the kernel writes for PERF_SAMPLE_TID | PERF_SAMPLE_TIME */
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t time;
};

static struct {
	uint32_t ms, pid;
} kept[MAX_SAMPLES];
static long count;

static void drain(struct perf_event_mmap_page *page)
{
	char *data = (char *)page + PAGE;
	uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE), tail = page->data_tail;

	while (tail < head) {
		struct sample one;
		struct perf_event_header header;

		/* Records are multiples of 8 bytes, so a header is never cut by the buffer's end; a sample may be. */
		memcpy(&header, data + tail % (PAGES * PAGE), sizeof(header));
		for (size_t i = 0; i < sizeof(one); i += 8)
			memcpy((char *)&one + i, data + (tail + i) % (PAGES * PAGE), 8);
		if (header.type == PERF_RECORD_SAMPLE && count < MAX_SAMPLES) {
			kept[count].ms = one.time / 1000000;
			kept[count++].pid = one.pid;
		}
		tail += header.size;
	}
	__atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
}

int main(int argc, char **argv)
{
	struct perf_event_attr what = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(what), .config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME, .use_clockid = 1, .clockid = CLOCK_MONOTONIC,
		.watermark = 1, .wakeup_watermark = PAGES * PAGE,
	};
	struct pollfd input = { .fd = 0, .events = POLLIN };
	struct perf_event_mmap_page *page;
	int event;

	if (argc != 2 || atoi(argv[1]) < 1) {
		fprintf(stderr, "usage: run_samples HZ\n");
		return 2;
	}
	what.sample_period = 1000000000L / atoi(argv[1]);
	event = syscall(SYS_perf_event_open, &what, -1, 0, -1, 0);
	if (event < 0) {
		perror("run_samples: perf_event_open");
		return 1;
	}
	page = mmap(NULL, (PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, event, 0);
	if (page == MAP_FAILED || mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0) {
		perror("run_samples: memory");
		return 1;
	}
	printf("on\n");
	fflush(stdout);
	while (poll(&input, 1, DRAIN_MS) == 0)
		drain(page);
	ioctl(event, PERF_EVENT_IOC_DISABLE, 0);
	drain(page);
	for (long i = 0; i < count; i++)
		printf("%u %u\n", kept[i].ms, kept[i].pid);
	return 0;
}
