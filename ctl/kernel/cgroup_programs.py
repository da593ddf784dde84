# SPDX-License-Identifier: GPL-2.0-or-later
"""BPF programs of cgroups that bound what their processes may do: the devices of a container, the addresses of a
service. Like other limits they act by the cgroup that a process is in."""

from __future__ import annotations

import os
from ctypes import byref, c_uint32
from pathlib import Path
from typing import Final

from ctl.kernel.libbpf import library

__all__ = ["KINDS", "programs"]

KINDS: Final = {
    "device": 6,
    "ingress": 0,
    "egress": 1,
    "socket": 2,
    "bind4": 8,
    "bind6": 9,
    "connect4": 10,
    "connect6": 11,
    "sendmsg4": 14,
    "sendmsg6": 15,
    "sysctl": 18,
    "setsockopt": 22,
}
"""The kinds of programs that may refuse something: enum bpf_attach_type of linux/bpf.h."""

_EFFECTIVE: Final = 1  # BPF_F_QUERY_EFFECTIVE: also those of the cgroups above
_MOST: Final = 64  # programs of a cgroup and a kind: the kernel's own limit


def programs(cgroup: Path) -> set[tuple[str, int]]:
    """The programs that act in a cgroup, each as kind and number; none of a kind that the kernel does not tell."""
    try:
        descriptor = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return set()
    found = set()
    try:
        for kind, number in KINDS.items():
            ids, count = (c_uint32 * _MOST)(), c_uint32(_MOST)
            if library().bpf_prog_query(descriptor, number, _EFFECTIVE, None, ids, byref(count)) == 0:
                found |= {(kind, one) for one in ids[: count.value]}
    finally:
        os.close(descriptor)
    return found
