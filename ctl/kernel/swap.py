# SPDX-License-Identifier: GPL-2.0-or-later
"""Swap: how long reads from its devices took, whether they write, how much they can still take of a cgroup, and how
much of what they have is still in memory, compressed: by zram, a device in memory, or by zswap, before a device."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from ctl.kernel.kernfs import read
from ctl.kernel.sysinfo import memory

__all__ = ["Kept", "free", "kept", "read_s", "writes"]

_ENOUGH: Final = 16 << 20  # bytes in swap that tell how well pages can be compressed;
_GUESS: Final = 0.5  # until then
_MM_USED: Final = 2  # the field of mm_stat with all the memory that a zram device has taken


class Kept(NamedTuple):
    """The part of a byte in swap that is still in memory."""

    zram: float = 0.0  # charged to no cgroup
    zswap: float = 0.0  # charged to the cgroup of the pages

    @property
    def all(self) -> float:
        return min(1.0, self.zram + self.zswap)


def free(cgroup: Path, root: Path) -> int:
    """Bytes of a cgroup that swap can still take: by its devices, and by memory.swap.max of the cgroup and those above
    it, up to `root`. Raises OSError if there is no such cgroup."""
    least = memory("SwapFree")[0]
    while cgroup != root and least:  # a kernel without swap has no such files
        most = read(f"{cgroup}/memory.swap.max").strip()
        if most != "max":
            least = min(least, max(0, int(most) - int(read(f"{cgroup}/memory.swap.current"))))
        cgroup = cgroup.parent
    return least


def kept() -> Kept:
    """What swap keeps in memory now, of each byte; with little in swap, a guess for the next page."""
    areas = _areas()
    if not areas:
        return Kept()
    used, zswap = sum(area.used for area in areas), _zswap_is_on()
    if used >= _ENOUGH:
        return Kept(sum(_zram(area.path) or 0 for area in areas) / used, memory("Zswap")[0] / used if zswap else 0.0)
    if zswap:
        return Kept(zswap=_GUESS)
    first = max(areas, key=lambda area: area.priority)
    return Kept(zram=0.0 if _zram(first.path) is None else _GUESS)


def _zram(path: str) -> int | None:
    """Bytes of memory that a zram device has taken; None: it is none."""
    try:
        return int(read(f"{_block(path)}/mm_stat").split()[_MM_USED])
    except OSError:
        return None


def _zswap_is_on() -> bool:
    try:
        return read("/sys/module/zswap/parameters/enabled").strip() == "Y"
    except OSError:
        return False


def read_s() -> float | None:
    """Seconds that all reads from swap devices took since boot, summed; None where one tells nothing, as a file."""
    total = 0.0
    for area in _areas():
        try:
            if area.kind != "partition":
                return None
            total += int(read(f"{_block(area.path)}/stat").split()[3]) / 1000
        except (OSError, IndexError):  # no node of that name in /dev, or a driver that counts nothing
            return None
    return total


def writes() -> int:
    """Requests to write that the devices of swap serve now; one that does not tell, as the one of a file, counts 0."""
    total = 0
    for area in _areas():
        try:
            total += int(read(f"{_block(area.path)}/inflight").split()[1])
        except (OSError, IndexError):
            continue
    return total


class _Area(NamedTuple):
    """A line of /proc/swaps."""

    path: str
    kind: str
    used: int  # bytes
    priority: int


def _areas() -> list[_Area]:
    """All areas of swap; none where the kernel has no swap at all."""
    try:
        lines = [line.split() for line in read("/proc/swaps").splitlines()[1:]]
    except FileNotFoundError:
        return []
    return [_Area(path, kind, 1024 * int(used), int(priority)) for path, kind, _size, used, priority in lines]


def _block(path: str) -> str:
    """The directory of the block device behind a node in /dev. Raises OSError."""
    number = os.stat(path).st_rdev
    return f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"
