# SPDX-License-Identifier: GPL-2.0-or-later
"""Promptness of the agent on a node that is short of CPUs and memory.

Events between the nodes of a job are of use within some milliseconds (CCS §4.3), and busy nodes have the most events.
An agent that waits for its turn, for its own pages in swap, or for khugepaged, sends its events too late.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
from pathlib import Path
from typing import Final

__all__ = [
    "COMPILER",
    "LONGEST",
    "SHORTEST_SLICE",
    "before_all_others",
    "first_at_wakeup",
    "keep_small_pages",
    "stay_in_memory",
]

LONGEST: Final = 20  # seconds of CPU: under emulation the longest piece of work takes one
COMPILER: Final = ("libLLVM", "libclang")  # of the sensors: a hundred megabytes that are needed once
SHORTEST_SLICE: Final = 100_000  # ns: the kernel takes no shorter one (kernel/sched/syscalls.c, __setparam_fair)
_SCHED_SETATTR: Final = 314  # x86-64's number
_RESET_ON_FORK: Final = 1  # uapi/linux/sched.h, SCHED_FLAG_RESET_ON_FORK
_SCHED_ATTR: Final = struct.Struct("IIQiIQQQ")  # uapi/linux/sched/types.h: size, policy, flags, nice, priority, times
_PR_SET_THP_DISABLE: Final = 41  # uapi/linux/prctl.h
_MADV_PAGEOUT, _MCL_CURRENT, _MCL_ONFAULT = 21, 1, 4  # asm-generic/mman-common.h, mman.h


def before_all_others() -> str:
    """Have the calling thread, and none that it starts, run before all others; returns why not, "" if it does.

    By SCHED_RR of the lowest priority, over which sched_ext has no say: so it is under every policy. The kernel leaves
    a twentieth of each second to the other tasks (sched_rt_runtime_us), and ends a process that computes for LONGEST
    seconds without waiting (RLIMIT_RTTIME). The supervisor then undoes the agent's changes.
    """
    try:
        resource.setrlimit(resource.RLIMIT_RTTIME, (LONGEST * 1_000_000, resource.RLIM_INFINITY))
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except (OSError, ValueError) as error:
        return f"SCHED_RR is refused ({error})"
    return ""


def first_at_wakeup() -> str:
    """Have the calling thread, and none that it starts, be first when it wakes, as a fair task; returns why not, or "".

    By the shortest slice of EEVDF. The thread's deadline is then the nearest, and its share no larger than that of
    others: once it has run for longer than they, it is their turn at the next tick.
    """
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = _SCHED_ATTR.pack(_SCHED_ATTR.size, os.SCHED_OTHER, _RESET_ON_FORK, nice, 0, SHORTEST_SLICE, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_SCHED_SETATTR, 0, attributes, 0):
        return f"a slice of {SHORTEST_SLICE / 1e6:g} ms is refused ({os.strerror(ctypes.get_errno())})"
    return ""


def keep_small_pages() -> str:
    """Have the kernel make no huge pages of this process's memory, nor of its children's; returns why not, or "".

    khugepaged holds the process's memory map while it makes one, and is a task of niceness 19: beside a task that
    computes it takes a quarter of a second, and a process that needs its map waits for so long.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0):
        return f"khugepaged may hold it up, which costs time on a busy node: {os.strerror(ctypes.get_errno())}"
    return ""


def stay_in_memory() -> str:
    """Lock what this process touches from now on, but give up its compiler's pages; returns why not, "" if it does.

    Files mapped later are not locked: call it again.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for start, end in _mappings(COMPILER):
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_PAGEOUT)  # refused: they stay, no harm
    if libc.mlockall(_MCL_CURRENT | _MCL_ONFAULT):
        return f"its memory may be paged out, which costs time on a full node: {os.strerror(ctypes.get_errno())}"
    return ""


def _mappings(names: tuple[str, ...]) -> list[tuple[int, int]]:
    """The mappings of files with these names."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, *_, path = line.split(maxsplit=5)
        if Path(path).name.startswith(names):
            start, _, end = span.partition("-")
            found.append((int(start, 16), int(end, 16)))
    return found
