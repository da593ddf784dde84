# SPDX-License-Identifier: GPL-2.0-or-later
"""Announcements of the kernel side: processes that were moved into a job of Slurm, or within a job
(bpf/slurm.bpf.h)."""

from __future__ import annotations

from typing import Any

from ctl.kernel.layout import ffi
from ctl.kernel.ringbuf import RingBuffer

__all__ = ["Joins"]


class Joins:
    """The only consumer of the ring buffer."""

    def __init__(self, map_fd: int) -> None:
        """Consume the ring buffer map behind this descriptor, which must stay open."""
        self._taken: list[int] = []
        self._ring = RingBuffer(map_fd, self._take, ffi.sizeof("struct join"))

    def _take(self, record: bytes) -> None:
        join: Any = ffi.from_buffer("struct join *", record)
        self._taken.append(join.pid)

    def fileno(self) -> int:
        """A descriptor that is readable (poll, epoll, add_reader) when processes have joined."""
        return self._ring.epoll_fd

    def read(self) -> list[int]:
        """The processes there are now, oldest first."""
        self._ring.consume()
        taken, self._taken = self._taken, []
        return taken

    def close(self) -> None:
        """Free the consumer."""
        self._ring.close()
