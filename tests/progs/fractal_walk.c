// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The program of ParPar's experiments (ParPar sec. 4.1, F. 4): a fractal random walk over a static array.
 *
 *	fractal_walk CGROUP.PROCS THETA ACCESSES SEED
 *
 * It enters the cgroup, touches each page of its array once (B-PP-3), and makes so many accesses, each a jump from the
 * last: P(jump > u) = u^-THETA in units of K bytes, both signs alike. F. 4 prints pow(r, theta), which never jumps
 * further than 1; the text's distribution is its inverse, pow(r, -1/THETA) with r in (0, 1] (B-PP-1). The array is
 * static as in the paper, so the executable's size tells what the program needs. RANGE is a constant of the compiler:
 * -DRANGE=10240 for 10 MB. Volatile: nobody reads it, and a compiler would leave it out.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../ctl/demo/progs/common.h"

#define K	1024	/* bytes (B-PP-2) */
#ifndef RANGE
#define RANGE	10240
#endif

static volatile char mem[(long)K * RANGE];

static void enter(const char *procs)
{
	FILE *file = fopen(procs, "w");

	if (!file || fputs("0\n", file) < 0 || fclose(file) != 0) {
		perror(procs);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	double theta, addr = 0;
	long max;

	if (argc != 5 || (theta = atof(argv[2])) <= 0) {
		fprintf(stderr, "usage: fractal_walk CGROUP.PROCS THETA ACCESSES SEED\n");
		return 2;
	}
	max = number(argv[3], 0);
	srandom((unsigned int)number(argv[4], 0));
	enter(argv[1]);
	for (long at = 0; at < (long)sizeof(mem); at += PAGE)
		mem[at + 1] = 1;	/* not a page of zeros, which the kernel would never write to swap */
	for (long i = 0; i < max; i++) {
		long randint = random();
		double jump = pow((double)(randint + 1) / ((double)RAND_MAX + 1), -1 / theta);
		long at;

		/* fmod() here is F. 4's % RANGE, for jumps that no int holds, too */
		addr = fmod(addr + (randint & 1 ? -jump : jump), RANGE);
		at = (long)addr;
		if (at < 0)
			at += RANGE;
		at *= K;
		mem[at] = (char)(at % 200);
	}
	return 0;
}
