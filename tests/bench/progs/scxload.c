// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * scxload OBJECT: load a sched_ext scheduler without a control plane of its own,
 * say so on stdout, and keep it until standard input ends.
 */
#include <bpf/libbpf.h>

#include "bench.h"

int main(int argc, char **argv)
{
	struct bpf_object *obj;
	struct bpf_map *map;
	struct bpf_link *link = NULL;
	char byte;

	if (argc != 2) {
		fprintf(stderr, "usage: scxload OBJECT\n");
		return 2;
	}
	obj = bpf_object__open_file(argv[1], NULL);
	if (!obj || bpf_object__load(obj))
		DIE("%s", argv[1]);
	bpf_object__for_each_map(map, obj)
		if (bpf_map__type(map) == BPF_MAP_TYPE_STRUCT_OPS)
			link = bpf_map__attach_struct_ops(map);
	if (!link)
		DIE("%s: attaching", argv[1]);
	puts("attached");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	bpf_link__destroy(link);
	bpf_object__close(obj);
	return 0;
}
