// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sparse matrix times vector, in the style of CG: every rank has a band of the matrix and gathers the whole vector in each
 * round; two dot products follow. All modulo 2^64. Right: the matrix times a vector of ones is the sums of its rows.
 */
#include "nas.h"

#define ENTRIES 128L /* in a row */

struct entry {
	uint32_t column, value;
};

static struct entry *matrix;
static uint64_t *vector, *product;
static long rows;

static uint64_t multiply_row(long row)
{
	struct entry *entry = matrix + row * ENTRIES;
	uint64_t result = 0;

	for (long turn = 0; turn < work; turn++) {
		result = 0;
		for (long i = 0; i < ENTRIES; i++)
			result += entry[i].value * vector[entry[i].column];
		__asm__ volatile("" : : "r"(result) : "memory"); /* each turn is done */
	}
	return result;
}

static void prepare(char *memory, size_t bytes)
{
	uint32_t random = 12345 + rank;

	rows = bytes / (ENTRIES * sizeof(*matrix) + (ranks + 1) * sizeof(*vector));
	matrix = (struct entry *)memory;
	vector = (uint64_t *)(matrix + rows * ENTRIES);
	product = vector + rows * ranks;
	for (long i = 0; i < rows * ENTRIES; i++) {
		random = random * 1664525u + 1013904223u;
		matrix[i].column = ((uint64_t)random * (rows * ranks)) >> 32;
		matrix[i].value = random | 1;
	}
	for (long i = 0; i < rows; i++)
		product[i] = rank * rows + i + 1;
}

static void one_round(long number)
{
	uint64_t mine[2] = {0, 0}, all[2];

	(void)number;
	WAITING(MPI_Allgather(product, rows, MPI_UINT64_T, vector, rows, MPI_UINT64_T, MPI_COMM_WORLD));
	for (long row = 0; row < rows; row++)
		product[row] = multiply_row(row);
	for (int dot = 0; dot < 2; dot++) {
		for (long row = 0; row < rows; row++)
			mine[dot] += product[row] * (dot ? product[row] : vector[rank * rows + row]);
		WAITING(MPI_Allreduce(mine + dot, all + dot, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
	}
	for (long row = 0; row < rows; row++)
		product[row] += all[0] ^ all[1];
}

static int right(long rounds)
{
	int ok = 1;

	(void)rounds;
	for (long row = 0; row < rows; row++)
		product[row] = 1;
	WAITING(MPI_Allgather(product, rows, MPI_UINT64_T, vector, rows, MPI_UINT64_T, MPI_COMM_WORLD));
	for (long row = 0; row < rows; row++) {
		uint64_t sum = 0;

		for (long i = 0; i < ENTRIES; i++)
			sum += matrix[row * ENTRIES + i].value;
		ok &= multiply_row(row) == sum;
	}
	return ok;
}
