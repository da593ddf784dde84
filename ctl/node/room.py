# SPDX-License-Identifier: GPL-2.0-or-later
"""Room: the memory of this node that jobs may have, so that no page of a local task is taken for a job's sake.

    room = memory - need of local tasks - reserve

Local is everything outside jobs, the kernel included. Its need is all memory that is neither available nor a job's, and
the pages of files that local tasks keep using. The largest need of the last PEAK seconds counts. So a program that
comes and goes finds its memory, and a page that went to swap for a job's sake still has its place when it comes back.

The room decides which jobs run. The limit on all of them together follows the need of this moment: a job that is larger
than the room, and runs because it is the first, uses what local tasks leave just now. The reserve stays out of the
limit, too: where jobs may have the last page, the kernel wakes up its search for pages, and finds those of local tasks.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from ctl.kernel import sysinfo

__all__ = ["PEAK", "Room", "Sample", "Space", "take_sample"]

PEAK: Final = 120.0  # seconds
_RESERVE: Final = 1 / 128  # of memory,
_MOST: Final = 1 / 32  # but no larger part of what is not locked away


@dataclass(frozen=True, slots=True)
class Sample:
    """Memory of the whole node, bytes."""

    total: int
    available: int
    active_files: int  # pages of files in use; the kernel calls them available


def take_sample() -> Sample:
    """The kernel's figures now."""
    return Sample(*sysinfo.memory("MemTotal", "MemAvailable", "Active(file)"))


class Space(NamedTuple):
    """Bytes for all jobs together."""

    room: int  # for the choice of those that run
    limit: int  # that the kernel holds them to


class Room:
    """The room, over time."""

    def __init__(self) -> None:
        self._needs: deque[tuple[float, int]] = deque()  # (when, local need); each is larger than all later ones

    def look(self, at: float, sample: Sample, jobs: int, jobs_files: int, share: float = 0.0) -> Space:
        """Room and limit at this moment (seconds).

        `jobs`: memory of all jobs that only swap could free; `jobs_files`: pages of files in use by jobs; `share`: the
        part of all memory that jobs may have in any case (knob share_mem).
        """
        files = max(0, sample.active_files - jobs_files)
        need = max(0, sample.total - sample.available - jobs + files)
        while self._needs and self._needs[-1][1] <= need:
            self._needs.pop()
        self._needs.append((at, need))
        while self._needs[0][0] < at - PEAK:
            self._needs.popleft()
        reserve = int(min(_RESERVE * sample.total, _MOST * (sample.available + jobs)))
        left = int(share * sample.total), 0
        return Space(*(max(sample.total - reserve - wanted, *left) for wanted in (self._needs[0][1], need)))
