# SPDX-License-Identifier: GPL-2.0-or-later
"""The devices of swap: how long their reads took, and whether they write."""

from __future__ import annotations

import os

from ctl.kernel.kernfs import read

__all__ = ["read_s", "writes"]


def read_s() -> float | None:
    """Seconds that all reads from swap devices took since boot, summed; None where one tells nothing, as a file."""
    total = 0.0
    for path, kind in _areas():
        try:
            if kind != "partition":
                return None
            total += int(read(f"{_block(path)}/stat").split()[3]) / 1000
        except (OSError, IndexError):  # no node of that name in /dev, or a driver that counts nothing
            return None
    return total


def writes() -> int:
    """Requests to write that the devices of swap serve now; one that does not tell, as the one of a file, counts 0."""
    total = 0
    for path, _kind in _areas():
        try:
            total += int(read(f"{_block(path)}/inflight").split()[1])
        except (OSError, IndexError):
            continue
    return total


def _areas() -> list[list[str]]:
    """Path and kind of each; none where the kernel has no swap at all."""
    try:
        return [line.split()[:2] for line in read("/proc/swaps").splitlines()[1:]]
    except FileNotFoundError:
        return []


def _block(path: str) -> str:
    """The directory of the block device behind a node in /dev. Raises OSError."""
    number = os.stat(path).st_rdev
    return f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"
