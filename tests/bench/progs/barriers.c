// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * barriers [OPTION...] [CGROUP.PROCS...]: a job of threads that compute for a phase and then meet at a barrier, time
 * after time; a job for each cgroup given, one local job where none is. The options are in the table below.
 *
 * Prints ns from the jobs' common begin to the end of the last: the median of the repeats, the lowest and the highest;
 * how many repeats there were and how many of them were cut at the limit (once most are, the median is known, and there
 * are no more); context switches per barrier; what part of the CPUs the hogs had meanwhile; and by how much a local task
 * was late that sleeps 10 ms and computes 0.3 ms, again and again.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <pthread.h>

#include "barrier.h"
#include "hogs.h"
#include "job.h"
#include "samples.h"

#define MOST_JOBS	8
#define SLEEP_US	10000
#define WORK_US		300
#define APART_US	40000	/* repeats begin at different moments of a scheduler's periods */
#define COME_S		30	/* threads may be late to begin, too */

static struct {
	enum way way;
	enum as as;
	long phase_us, threads, barriers, hogs, repeats, seed, limit_ms, sleeper, jobs, turns, checks;
	char **procs;
} asked = { .phase_us = 70, .threads = 2, .barriers = 1000, .repeats = 5, .seed = 1, .limit_ms = 3000 };

/* Of all processes. */
static struct board {
	int go, left;		/* futexes */
	int ready;
	long long ended;
	volatile int noting;	/* the sleeper notes */
	long noted, room;
	long long late[];
} *board;

static const struct option options[] = {
	{ "way", required_argument, NULL, 'w' },	/* of waiting: see barrier.h */
	{ "as", required_argument, NULL, 'a' },		/* how the jobs are run */
	{ "phase", required_argument, NULL, 'p' },	/* us of computing before each barrier */
	{ "threads", required_argument, NULL, 't' },	/* of each job */
	{ "barriers", required_argument, NULL, 'b' },
	{ "hogs", required_argument, NULL, 'h' },	/* local tasks that compute */
	{ "sleeper", no_argument, NULL, 's' },
	{ "repeats", required_argument, NULL, 'r' },
	{ "seed", required_argument, NULL, 'x' },	/* of the pauses between repeats */
	{ "limit", required_argument, NULL, 'l' },	/* ms; a repeat that takes longer is stopped */
	{ }
};

static void parse(int argc, char **argv)
{
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'w': asked.way = which(ways, optarg); break;
		case 'a': asked.as = which(kinds, optarg); break;
		case 'p': asked.phase_us = number(optarg, 1, 1000000); break;
		case 't': asked.threads = number(optarg, 1, 1000); break;
		case 'b': asked.barriers = number(optarg, 1, 10000000); break;
		case 'h': asked.hogs = number(optarg, 0, 1000); break;
		case 's': asked.sleeper = 1; break;
		case 'r': asked.repeats = number(optarg, 1, 1000); break;
		case 'x': asked.seed = number(optarg, 0, 1000000); break;
		case 'l': asked.limit_ms = number(optarg, 1, 1000000); break;
		default: exit(2);
		}
	}
	asked.procs = argv + optind;
	asked.jobs = argc - optind;
	if (asked.jobs > MOST_JOBS) {
		fprintf(stderr, "barriers: %d jobs at most\n", MOST_JOBS);
		exit(2);
	}
}

static void *compute_and_meet(void *barrier)
{
	__atomic_add_fetch(&board->ready, 1, __ATOMIC_ACQ_REL);
	while (!__atomic_load_n(&board->go, __ATOMIC_ACQUIRE))
		futex(&board->go, FUTEX_WAIT, 0, NULL);
	for (long i = 0; i < asked.barriers; i++) {
		compute(asked.turns);
		meet(barrier, asked.way);
	}
	board->ended = now_ns();
	if (__atomic_sub_fetch(&board->left, 1, __ATOMIC_ACQ_REL) == 0)
		futex(&board->left, FUTEX_WAKE, 1, NULL);
	return NULL;
}

static pid_t start_job(const char *procs)
{
	struct barrier barrier = { .threads = asked.threads, .checks = asked.checks };
	pthread_t threads[asked.threads];
	pid_t child = start_child();

	if (child)
		return child;
	become_a_job(asked.as, procs);
	for (long i = 0; i < asked.threads; i++)
		if (pthread_create(&threads[i], NULL, compute_and_meet, &barrier))
			DIE("a thread");
	for (long i = 0; i < asked.threads; i++)
		pthread_join(threads[i], NULL);
	_exit(0);
}

static pid_t start_sleeper(void)
{
	long turns = turns_in(compute, WORK_US * 1000LL, 10000);
	pid_t child = start_child();

	while (!child) {
		int noting = board->noting;
		long long late = nap(SLEEP_US), began = now_ns();

		compute(turns);
		late += now_ns() - began - WORK_US * 1000;
		if (noting && board->noting && board->noted < board->room)
			board->late[board->noted++] = late > 0 ? late : 0;
	}
	return child;
}

static long long cpu_ns(const pid_t *children, long n)
{
	struct timespec ts;
	long long sum = 0;
	clockid_t clock;

	for (long i = 0; i < n; i++) {
		if (clock_getcpuclockid(children[i], &clock) || clock_gettime(clock, &ts))
			DIE("the CPU time of a hog");
		sum += ts.tv_sec * 1000000000LL + ts.tv_nsec;
	}
	return sum;
}

static void wait_until_ready(long threads)
{
	long long end = now_ns() + COME_S * 1000000000LL;

	while (__atomic_load_n(&board->ready, __ATOMIC_ACQUIRE) < threads) {
		if (now_ns() > end) {
			fprintf(stderr, "barriers: the threads have not begun after %d s\n", COME_S);
			exit(1);
		}
		usleep(1000);
	}
}

/* Run the jobs once, asleep meanwhile. Returns ns, and the limit if they took longer. */
static long long run(long jobs)
{
	long long limit = asked.limit_ms * 1000000LL, began, took;
	int left = jobs * asked.threads;

	board->left = left;
	board->noting = 1;
	began = now_ns();
	__atomic_store_n(&board->go, 1, __ATOMIC_RELEASE);
	futex(&board->go, FUTEX_WAKE, INT_MAX, NULL);
	while ((left = __atomic_load_n(&board->left, __ATOMIC_ACQUIRE)) && (took = now_ns() - began) < limit) {
		struct timespec rest = { (limit - took) / 1000000000, (limit - took) % 1000000000 };

		futex(&board->left, FUTEX_WAIT, left, &rest);
	}
	board->noting = 0;
	took = left ? limit : board->ended - began;
	return took < limit ? took : limit;
}

struct sums {
	long long took, hogs, switched;
	long runs, cut;
};

static double repeat(const pid_t *hogs, struct sums *sums)
{
	long jobs = asked.jobs ? asked.jobs : 1;
	long long before, took, switched;
	pid_t children[MOST_JOBS];

	usleep(random() % APART_US);
	board->go = board->ready = 0;
	for (long i = 0; i < jobs; i++)
		children[i] = start_job(asked.jobs ? asked.procs[i] : NULL);
	wait_until_ready(jobs * asked.threads);
	before = cpu_ns(hogs, asked.hogs);
	switched = switches();
	took = run(jobs);
	sums->switched += switches() - switched;
	sums->hogs += cpu_ns(hogs, asked.hogs) - before;
	sums->took += took;
	sums->runs++;
	sums->cut += took >= asked.limit_ms * 1000000LL;
	for (long i = 0; i < jobs; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	return took;
}

static void print(double *took, const struct sums *sums)
{
	long n = sums->runs, noted = board->noted;
	double mid = median(took, n), sum = 0;

	printf("{\"value\": %.0f, \"low\": %.0f, \"high\": %.0f, \"runs\": %ld, \"cut\": %ld, \"switches\": %.3f", mid,
	       took[0], took[n - 1], n, sums->cut, (double)sums->switched / n / asked.barriers);
	if (asked.hogs)
		printf(", \"hogs\": %.4f", (double)sums->hogs / sums->took / sysconf(_SC_NPROCESSORS_ONLN));
	if (noted) {
		for (long i = 0; i < noted; i++)
			sum += board->late[i];
		qsort(board->late, noted, sizeof(*board->late), order);
		printf(", \"late_mean\": %.0f, \"late_p99\": %lld, \"late_samples\": %ld", sum / noted,
		       board->late[rank_of(noted, 99)], noted);
	}
	printf("}\n");
}

int main(int argc, char **argv)
{
	struct sums sums = { };
	pid_t *hogs, sleeper = 0;
	double *took;
	long room;

	parse(argc, argv);
	srandom(asked.seed);
	room = asked.repeats * (asked.limit_ms * 1000 / SLEEP_US + 2);
	board = shared(sizeof(*board) + room * sizeof(*board->late));
	board->room = room;
	took = calloc(asked.repeats, sizeof(*took));
	if (!took)
		DIE("memory for %ld repeats", asked.repeats);
	asked.turns = turns_in(compute, asked.phase_us * 1000, 10000);
	asked.checks = checks_of_a_spin();
	weigh(asked.as, asked.procs[0], LIGHT);
	if (asked.sleeper)
		sleeper = start_sleeper();
	hogs = start_hogs(asked.hogs, NULL);
	while (sums.runs < asked.repeats && 2 * sums.cut <= asked.repeats) {
		double one = repeat(hogs, &sums);

		took[sums.runs - 1] = one;
	}
	print(took, &sums);
	weigh(asked.as, asked.procs[0], USUAL);
	if (sleeper)
		kill(sleeper, SIGKILL);
	end_hogs(hogs, asked.hogs);
	return 0;
}
