# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages of other processes: pushed out to swap, and brought back before they are asked for.

A process that was stopped and pushed out comes back one fault after the other, and sleeps at each fault. With a hint
about the needed pages, process_madvise(2) with MADV_WILLNEED, the kernel reads as many pages at once as the device
takes. These pages wait in the swap cache, where a fault finds them and reclaim may take them again.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ctl.kernel import swap
from ctl.kernel.kernfs import read

__all__ = ["Portion", "drop_cold", "portions", "push_out", "will_need"]

_PROCESS_MADVISE: Final = 440  # the number is the same on all architectures
_MADV_WILLNEED: Final = 3  # asm-generic/mman-common.h
_WRITE_LIMIT: Final = 0.25  # seconds to wait until pages are written
_WRITE_STEP: Final = 0.001  # seconds between two looks
_ONLY_SWAP: Final = ("swappiness=max", "swappiness=200", "")  # of memory.reclaim, the newest first
_SCAN: Final = struct.Struct("=12Q")  # struct pm_scan_arg of linux/fs.h, and the number of its ioctl (Linux 6.7)
_PAGEMAP_SCAN: Final = 0xC0606610
_IS_SWAPPED: Final = 1 << 4
_REGIONS: Final = 512  # of swapped pages that a scan returns at a time; the kernel takes 1,024 of them in a hint


class Portion(NamedTuple):
    """Pages of a process that are in swap."""

    spans: list[tuple[int, int]]  # address and size, bytes
    size: int  # bytes of them that are in swap


def push_out(cgroup: Path, size: int) -> float:
    """Push so many bytes of a cgroup out to swap, or as many as the kernel can, until they are written; seconds spent
    waiting. Pages of files stay: the kernel drops them by itself, and programs need theirs when they go on.

    The count of pages under write-back in memory.stat would be exact for the cgroup, but it lags by up to 2 s.
    """
    began, computed = time.monotonic(), time.thread_time()
    for how in _ONLY_SWAP:
        if _reclaim(cgroup, f"{size} {how}"):  # the kernel waits, too, if the device is slow
            break
    until = time.monotonic() + _WRITE_LIMIT
    while swap.writes() and time.monotonic() < until:
        time.sleep(_WRITE_STEP)
    return time.monotonic() - began - (time.thread_time() - computed)


def drop_cold(cgroup: Path, size: int) -> None:
    """Drop pages of files that a cgroup does not use, and the kernel's caches for it, up to so many bytes."""
    _reclaim(cgroup, f"{size} swappiness=0")


def _reclaim(cgroup: Path, order: str) -> bool:
    """Whether the kernel knows such an order."""
    try:
        (cgroup / "memory.reclaim").write_text(order)
    except OSError as error:  # EAGAIN: not all bytes; ENODEV, ENOENT: the cgroup is gone
        return error.errno != errno.EINVAL
    return True


def portions(pid: int, most: int, seen: set[str]) -> Iterator[Portion]:
    """What a process has in swap, at most about `most` bytes at a time; nothing if it has ended.

    Of shared memory what is mapped, once: `seen` has the files that were returned for other processes.
    """
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        yield from _private(pid, most)
        yield from _mapped(pid, most, seen)


def _private(pid: int, most: int) -> Iterator[Portion]:
    """The pages in swap that the process's page tables tell. Empty parts cost nothing, however large they are."""
    found, size = list[tuple[int, int]](), 0
    for start, end in _swapped(pid):
        for at in range(start, end, most):
            length = min(most, end - at)
            if size + length > most or len(found) == _REGIONS:
                yield Portion(found, size)
                found, size = [], 0
            found.append((at, length))
            size += length
    if found:
        yield Portion(found, size)


def _swapped(pid: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each run of pages in swap. Raises OSError if the process has ended."""
    region = struct.Struct("=3Q")
    found = ctypes.create_string_buffer(_REGIONS * region.size)
    mappings = [line.split() for line in read(f"/proc/{pid}/maps").splitlines() if not line.endswith("[vsyscall]")]
    start, top = 0, max((int(words[0].partition("-")[2], 16) for words in mappings), default=0)
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        while start < top:
            wanted = (0, 0, _IS_SWAPPED, 0, _IS_SWAPPED)  # max_pages, inverted, mask, anyof, return
            order = bytearray(_SCAN.pack(_SCAN.size, 0, start, top, 0, ctypes.addressof(found), _REGIONS, *wanted))
            count = fcntl.ioctl(pagemap, _PAGEMAP_SCAN, order)
            start = _SCAN.unpack(order)[4]  # where the walk ended
            for one in range(count):
                yield region.unpack_from(found, one * region.size)[:2]
            if count < _REGIONS:
                return


def _mapped(pid: int, most: int, seen: set[str]) -> Iterator[Portion]:
    """Mapped shared memory of which pages are in swap: page tables do not tell which."""
    start = end = 0
    file = ""
    for line in read(f"/proc/{pid}/smaps").splitlines():
        words = line.split(maxsplit=5)
        if not words[0].endswith(":"):  # addresses, access, offset, device, inode: the lines of a mapping follow
            start, end = (int(each, 16) for each in words[0].split("-"))
            file = " ".join(words[2:5]) if words[1].endswith("s") else ""
        elif words[0] == "Swap:" and words[1] != "0" and file and file not in seen:
            seen.add(file)
            left = int(words[1]) << 10
            for at in range(start, end, most):
                length = min(most, end - at)
                yield Portion([(at, length)], min(length, left))
                left -= min(length, left)


def will_need(pid: int, spans: list[tuple[int, int]]) -> None:
    """Make the kernel begin to read the pages of these spans that are in swap. Raises OSError."""
    descriptor = os.pidfd_open(pid)
    try:
        table = ctypes.create_string_buffer(b"".join(struct.pack("PN", *span) for span in spans))
        libc = ctypes.CDLL(None, use_errno=True)
        arguments = (descriptor, table, ctypes.c_size_t(len(spans)), _MADV_WILLNEED, 0)
        if libc.syscall(ctypes.c_long(_PROCESS_MADVISE), *arguments) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(descriptor)
