# SPDX-License-Identifier: GPL-2.0-or-later
# C programs that a guest runs, one of each *.c of a directory; mpi_* are ranks of MPICH, *.bpf.c are BPF objects.
#     make -C DIRECTORY -f vm/progs.mk OUT=DIRECTORY    vm/checkout.py, with the image's compilers

OUT ?= .
CFLAGS := -O2 -Wall -Werror

all: $(patsubst %.c,$(OUT)/%,$(filter-out %.bpf.c,$(wildcard *.c))) $(patsubst %.c,$(OUT)/%.o,$(wildcard *.bpf.c))

$(OUT)/%.bpf.o: %.bpf.c
	@clang -O2 -Wall -Werror -target bpf -c -o $@ $<

$(OUT)/mpi_%: mpi_%.c
	@mpicc.mpich $(CFLAGS) -o $@ $<

$(OUT)/%: %.c
	@gcc $(CFLAGS) -o $@ $<

.PHONY: all
