// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Stencil with halo exchange, in the style of MG: a grid cut into bands of rows, one for each rank, relaxed red, then
 * black; before either the border rows are passed to the neighbours, and each round ends with the sum over all. The first
 * row of the whole is hot, everything else begins cold. Right: no cell is hotter than the source, and the sum only grew.
 */
#include "nas.h"

#define COLUMNS 1024L
#define HOT ((int64_t)1 << 40)

static int64_t *grid; /* rows + 2 rows: with the neighbours' */
static long rows;
static int64_t sum;
static int sound = 1;

static void prepare(char *memory, size_t bytes)
{
	grid = (int64_t *)memory;
	rows = bytes / (COLUMNS * sizeof(*grid)) - 2;
	if (rows < 1) {
		fprintf(stderr, "mg: too little memory\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	sum = 0;
	sound = 1;
	memset(grid, 0, (rows + 2) * COLUMNS * sizeof(*grid));
	for (long column = 0; rank == 0 && column < COLUMNS; column++)
		grid[column] = HOT;
}

static void exchange(void)
{
	int up = rank ? rank - 1 : MPI_PROC_NULL, down = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;

	WAITING(MPI_Sendrecv(grid + COLUMNS, COLUMNS, MPI_INT64_T, up, 0, grid + (rows + 1) * COLUMNS, COLUMNS,
			     MPI_INT64_T, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	WAITING(MPI_Sendrecv(grid + rows * COLUMNS, COLUMNS, MPI_INT64_T, down, 1, grid, COLUMNS, MPI_INT64_T, up, 1,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void relax(long colour)
{
	for (long row = 1; row <= rows; row++) {
		int64_t *cells = grid + row * COLUMNS;

		for (long turn = 0; turn < work; turn++)
			for (long i = 1 + (row + colour) % 2; i < COLUMNS - 1; i += 2)
				cells[i] = (cells[i - 1] + cells[i + 1] + cells[i - COLUMNS] + cells[i + COLUMNS]) >> 2;
	}
}

static void one_round(long number)
{
	int64_t mine = 0, all;

	(void)number;
	for (long colour = 0; colour < 2; colour++) {
		exchange();
		relax(colour);
	}
	for (long row = 1; row <= rows; row++)
		for (long i = 0; i < COLUMNS; i++) {
			int64_t cell = grid[row * COLUMNS + i];

			sound &= cell >= 0 && cell <= HOT;
			mine += cell >> 20;
		}
	WAITING(MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
	sound &= all >= sum && all > 0;
	sum = all;
}

static int right(long rounds)
{
	(void)rounds;
	return sound;
}
