# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages of other processes: pushed out to swap, and brought back before they are asked for.

A process that was stopped and pushed out comes back one fault after the other, and sleeps at each fault. With a hint
about the needed pages, process_madvise(2) with MADV_WILLNEED, the kernel reads as many pages at once as the device
takes. These pages wait in the swap cache, where a fault finds them and reclaim may take them again.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ctl.kernel import swap

__all__ = ["push_out", "spans", "will_need"]

_PROCESS_MADVISE: Final = 440  # the number is the same on all architectures
_MADV_WILLNEED: Final = 3  # asm-generic/mman-common.h
_OWN: Final = ("", "[heap]")
_WRITE_LIMIT: Final = 0.25  # seconds to wait until pages are written
_WRITE_STEP: Final = 0.001  # seconds between two looks


def push_out(cgroup: Path, size: int) -> float:
    """Reclaim so many bytes of a cgroup, or as many as the kernel can, until they are written; seconds spent waiting.

    The count of pages under write-back in memory.stat would be exact for the cgroup, but it lags by up to 2 s.
    """
    began, computed = time.monotonic(), time.thread_time()
    with contextlib.suppress(OSError):  # EAGAIN: not all bytes; ENODEV, ENOENT: the cgroup is gone
        (cgroup / "memory.reclaim").write_text(str(size))  # the kernel waits, too, if the device is slow
    until = time.monotonic() + _WRITE_LIMIT
    while swap.writes() and time.monotonic() < until:
        time.sleep(_WRITE_STEP)
    return time.monotonic() - began - (time.thread_time() - computed)


def spans(pid: int, most: int) -> Iterator[tuple[int, int]]:
    """Address and size, bytes, of the private writable memory of a process, at most `most` at a time; none if it ended.

    Of mappings of files nothing, and not the stacks: they are small, and touched at once.
    """
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        between, access, _, _, inode, *path = line.split(maxsplit=5)
        if access.startswith("rw") and access.endswith("p") and inode == "0" and "".join(path) in _OWN:
            start, end = (int(each, 16) for each in between.split("-"))
            yield from ((at, min(most, end - at)) for at in range(start, end, most))


def will_need(pid: int, start: int, size: int) -> None:
    """Make the kernel begin to read the pages of this span that are in swap. Raises OSError."""
    descriptor = os.pidfd_open(pid)
    try:
        span = ctypes.create_string_buffer(struct.pack("PN", start, size))
        libc = ctypes.CDLL(None, use_errno=True)
        arguments = (descriptor, span, ctypes.c_size_t(1), _MADV_WILLNEED, 0)
        if libc.syscall(ctypes.c_long(_PROCESS_MADVISE), *arguments) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(descriptor)
