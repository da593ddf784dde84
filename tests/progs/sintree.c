// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One to many, then many to one: Monito's sintree (Monito sec. 5, B-MO-5), run as the kernels of nas/ are. In a round
 * rank 0 sends a message of KB to each of the others, who send it back as soon as it has come; WORK means nothing. Right:
 * what came back last is what was sent.
 */
#include "nas/nas.h"

static char *message, *answer;
static size_t length;
static int sound = 1;

static void prepare(char *memory, size_t bytes)
{
	message = memory;
	length = bytes;
	answer = realloc(answer, bytes);
	if (!answer)
		fail("realloc");
	memset(message, rank ? 0 : 0x5a, bytes);
	memset(answer, 0, bytes);
	sound = 1;
}

static void one_round(long number)
{
	if (rank) {
		MPI_Recv(message, length, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Send(message, length, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
		return;
	}
	message[0] = number;
	for (int child = 1; child < ranks; child++)
		MPI_Send(message, length, MPI_CHAR, child, 0, MPI_COMM_WORLD);
	for (int child = 1; child < ranks; child++) {
		MPI_Recv(answer, length, MPI_CHAR, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		sound &= answer[0] == (char)number;
	}
}

static int right(long rounds)
{
	(void)rounds;
	return sound && (rank || memcmp(message, answer, length) == 0);
}
