# SPDX-License-Identifier: GPL-2.0-or-later
"""The memory of a job's cgroup: what it needs, what of it is already in swap, and what can never go there.

The files that a job reads, and the inodes and directories that the kernel caches for it, need no room: the kernel drops
them when others ask for memory. Files in shared memory do: /dev/shm, System V's segments, a /tmp on tmpfs, and what MPI
puts there. Like anonymous pages they can only go to swap, and they stay when the processes have ended.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from ctl.kernel.kernfs import numbers, read

__all__ = ["Memory", "memory_of", "number", "stalled"]

_LINES: Final = ("anon", "shmem", "swapcached", "active_anon", "inactive_anon", "file_mapped", "inactive_file",
                 "kernel", "slab_reclaimable", "unevictable", "workingset_refault_anon")
_SOME: Final = ("zswap", "hugetlb")  # lines that not every kernel has
_there: list[str] = []  # of these, those that this kernel has: the same in each cgroup


class Memory(NamedTuple):
    """The memory of a job, bytes. What leaves memory for swap is `resident`, and not `locked`, and no file's."""

    resident: int  # that room is needed for
    swapped: int  # only in swap
    locked: int  # of the resident: it stays while the job is stopped, as its pages are locked, huge, or the kernel's
    refaults: int = 0  # anonymous pages that came back from swap since the job began
    movable: int = 0  # of the resident: swap could take it
    cold: int = 0  # beside the resident: pages of files not in use, and caches of inodes, which the kernel can drop


def memory_of(path: Path | str) -> Memory:
    """The memory of a cgroup. Raises OSError if there is no such cgroup.

    Pages that came back early (paging.py) are on the kernel's lists of anonymous pages, which have shared memory, too,
    and not mapped yet. A page that came back also keeps its place in swap while swap is not scarce; it counts once. Of
    mapped files and mapped shared memory the kernel tells the sum: what exceeds the shared memory is taken for files.
    What zswap has of the job counts as swapped: the size of it compressed is `ctl.kernel.swap`'s.
    """
    stat = _stat(f"{path}/memory.stat")
    swapped = number(f"{path}/memory.swap.current") - stat["swapcached"]
    backed = max(stat["anon"] + stat["shmem"], stat["active_anon"] + stat["inactive_anon"])
    files = max(0, stat["file_mapped"] - stat["shmem"])
    kernel = max(0, stat["kernel"] - stat["slab_reclaimable"] - stat["zswap"]) + stat["hugetlb"]
    return Memory(
        resident=backed + files + kernel,
        swapped=max(0, swapped),
        locked=stat["unevictable"] + kernel,
        refaults=stat["workingset_refault_anon"],
        movable=max(0, backed - stat["unevictable"]),
        cold=stat["inactive_file"] + stat["slab_reclaimable"],
    )


def _stat(path: str) -> dict[str, int]:
    """The lines of a memory.stat that count here."""
    if not _there:
        text = f"\n{read(path)}"
        _there.extend((*_LINES, *(name for name in _SOME if f"\n{name} " in text)))
    return dict.fromkeys(_SOME, 0) | dict(zip(_there, numbers(path, *_there), strict=True))


def number(path: Path | str) -> int:
    """The number in a file; 0 if the kernel was built without the file."""
    try:
        return int(read(path))
    except FileNotFoundError:
        return 0


def stalled(path: Path | str) -> float:
    """The part of the last 10 s in which all tasks of a cgroup that could run waited for memory (PSI, full); 0 where
    the kernel keeps none. Raises OSError if there is no such cgroup."""
    try:
        full = next(line for line in read(f"{path}/memory.pressure").splitlines() if line.startswith("full"))
    except FileNotFoundError:
        return 0.0
    return float(full.split()[1].partition("=")[2]) / 100
