// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * insn OBJECT [KERNEL_FUNCTION...]: measure every call of every struct_ops program
 * now loaded and of the kernel functions named, from the line "measuring" on stdout
 * until standard input ends; then print one JSON object, function name to calls,
 * mean and longest (ns). OBJECT is insn.bpf.o.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "bench.h"

#define MAX_TARGETS 64
#define MAX_CPUS 64

struct timing {
	unsigned long long begin;
	unsigned long long calls, sum, max;
	unsigned long long pad[4];
};

struct target {
	char name[128];
	struct bpf_object *obj;
};

static struct target targets[MAX_TARGETS];
static int nr_targets;

/* Attach to a function: of the BPF program fd, or of the kernel when fd is 0. */
static void measure(const char *object, int fd, const char *name)
{
	struct target *target = &targets[nr_targets++];
	struct bpf_program *prog;

	if (nr_targets == MAX_TARGETS)
		DIE("more than %d functions", MAX_TARGETS);
	snprintf(target->name, sizeof(target->name), "%s", name);
	target->obj = bpf_object__open_file(object, NULL);
	if (!target->obj)
		DIE("%s", object);
	bpf_object__for_each_program(prog, target->obj)
		if (bpf_program__set_attach_target(prog, fd, name))
			DIE("%s is nothing to attach to", name);
	if (bpf_object__load(target->obj))
		DIE("%s: loading %s", name, object);
	/* The exit first: a call that is under way when both are there must not count. */
	if (!bpf_program__attach(bpf_object__find_program_by_name(target->obj, "on_exit")) ||
	    !bpf_program__attach(bpf_object__find_program_by_name(target->obj, "on_entry")))
		DIE("%s: attaching", name);
}

/* The full name of a program's main function; the kernel keeps only 15 letters of the program's own. */
static const char *function_name(int fd, struct bpf_prog_info *info, __u32 *len)
{
	struct bpf_func_info func;
	struct btf *btf;
	const struct btf_type *type;
	__u32 btf_id = info->btf_id;

	memset(info, 0, *len);
	info->nr_func_info = 1;
	info->func_info_rec_size = sizeof(func);
	info->func_info = (unsigned long)&func;
	if (bpf_prog_get_info_by_fd(fd, info, len))
		DIE("a program's functions");
	btf = btf__load_from_kernel_by_id(btf_id);
	if (!btf)
		DIE("a program's BTF");
	type = btf__type_by_id(btf, func.type_id);
	return btf__name_by_offset(btf, type->name_off);
}

static void measure_schedulers(const char *object)
{
	__u32 id = 0;

	while (!bpf_prog_get_next_id(id, &id)) {
		struct bpf_prog_info info = {};
		__u32 len = sizeof(info);
		int fd = bpf_prog_get_fd_by_id(id);

		if (fd < 0)
			continue;
		if (bpf_prog_get_info_by_fd(fd, &info, &len))
			DIE("program %u", id);
		if (info.type == BPF_PROG_TYPE_STRUCT_OPS)
			measure(object, fd, function_name(fd, &info, &len));
		close(fd);
	}
}

static void report(const struct target *target, int last)
{
	struct bpf_map *map = bpf_object__find_map_by_name(target->obj, ".bss");
	struct timing all = {};
	const struct timing *cpu;
	size_t size;

	cpu = bpf_map__initial_value(map, &size);
	for (int i = 0; cpu && i < MAX_CPUS; i++) {
		all.calls += cpu[i].calls;
		all.sum += cpu[i].sum;
		if (cpu[i].max > all.max)
			all.max = cpu[i].max;
	}
	printf("\"%s\": {\"calls\": %llu, \"mean\": %.1f, \"max\": %llu}%s", target->name, all.calls,
	       all.calls ? (double)all.sum / all.calls : 0.0, all.max, last ? "" : ", ");
}

int main(int argc, char **argv)
{
	char byte;

	if (argc < 2) {
		fprintf(stderr, "usage: insn OBJECT [KERNEL_FUNCTION...]\n");
		return 2;
	}
	measure_schedulers(argv[1]);
	for (int i = 2; i < argc; i++)
		measure(argv[1], 0, argv[i]);
	puts("measuring");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	printf("{");
	for (int i = 0; i < nr_targets; i++)
		report(&targets[i], i == nr_targets - 1);
	puts("}");
	return 0;
}
