# SPDX-License-Identifier: GPL-2.0-or-later
"""Announcements of the kernel side: processes that were moved into a job of Slurm, or within a job
(bpf/slurm.bpf.h), tasks of jobs that were refused a scheduling class (bpf/class.bpf.h), and cgroups whose CPU limits
were set (bpf/joins.bpf.h)."""

from __future__ import annotations

import os
from typing import Any, Final, NamedTuple

from ctl.kernel.layout import ffi
from ctl.kernel.ringbuf import RingBuffer

__all__ = ["Joins", "Refusal"]

_CLASSES: Final = {getattr(os, name): name for name in dir(os) if name.startswith("SCHED_") and "RESET" not in name}
_CLASSES.update({6: "SCHED_DEADLINE", 7: "SCHED_EXT"})  # linux/sched.h


class Refusal(NamedTuple):
    """A task of a job asked for another scheduling class."""

    cgid: int  # of the job
    pid: int
    program: str
    asked: str  # "SCHED_FIFO"


class Joins:
    """The only consumer of the ring buffer."""

    def __init__(self, map_fd: int) -> None:
        """Consume the ring buffer map behind this descriptor, which must stay open."""
        self._taken: list[int] = []
        self._refusals: list[Refusal] = []
        self._limited = False
        self._ring = RingBuffer(map_fd, self._take, ffi.sizeof("struct join"))

    def _take(self, record: bytes) -> None:
        join: Any = ffi.from_buffer("struct join *", record)
        if join.asked:
            program = bytes(ffi.buffer(join.comm)).partition(b"\0")[0].decode(errors="replace")
            asked = _CLASSES.get(join.asked - 1, "another class")
            self._refusals.append(Refusal(join.job, join.pid, program, asked))
        elif not join.pid:
            self._limited = True
        else:
            self._taken.append(join.pid)

    def fileno(self) -> int:
        """A descriptor that is readable (poll, epoll, add_reader) when processes have joined."""
        return self._ring.epoll_fd

    def read(self) -> list[int]:
        """The processes there are now, oldest first."""
        self._ring.consume()
        taken, self._taken = self._taken, []
        return taken

    def refusals(self) -> list[Refusal]:
        """The refusals among what read() has met, oldest first; each is given once."""
        found, self._refusals = self._refusals, []
        return found

    def limited(self) -> bool:
        """Whether a cgroup's CPU limit was among what read() has met; it is told once."""
        found, self._limited = self._limited, False
        return found

    def close(self) -> None:
        """Free the consumer."""
        self._ring.close()
