# SPDX-License-Identifier: GPL-2.0-or-later
"""Room: the memory of this node that jobs may have, so that no page of a local task is taken for a job's sake.

    room = memory - need of local tasks - reserve

Local is everything outside jobs, the kernel included. Its need is all memory that is neither available nor a job's; the
pages of files that local tasks keep using; and what they have in swap, but not what was there all of the last IDLE
seconds, and no more than came back from there in the last RETURNS seconds: who fetches pages all the time has too
little memory, and who leaves them in swap does not need them. The largest need of the last PEAK seconds counts. So a
program that comes and goes finds its memory.

The room decides which jobs run. The limit on all of them together follows the need of this moment: a job that is larger
than the room, and runs because it is the first, uses what local tasks leave just now. The reserve stays out of the
limit, too: where jobs may have the last page, the kernel wakes up its search for pages, and finds those of local tasks.
"""

from __future__ import annotations

import resource
from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from ctl.kernel import sysinfo

__all__ = ["IDLE", "PEAK", "RETURNS", "Part", "Room", "Sample", "Space", "take_sample"]

PEAK: Final = 120.0  # seconds
IDLE: Final = 3600.0  # seconds
RETURNS: Final = 20.0  # seconds
_PAGE: Final = resource.getpagesize()
_RESERVE: Final = 1 / 128  # of memory,
_MOST: Final = 1 / 32  # but no larger part of what is not locked away


@dataclass(frozen=True, slots=True)
class Sample:
    """Memory of the whole node, bytes."""

    total: int
    available: int
    active_files: int  # pages of files in use; the kernel calls them available
    swapped: int = 0  # only in swap
    refaults: int = 0  # anonymous pages, not bytes, that came back from swap since boot


class Part(NamedTuple):
    """What all jobs together have of it, bytes."""

    memory: int  # that only swap could free
    active_files: int = 0
    swapped: int = 0
    refaults: int = 0  # pages


def take_sample() -> Sample:
    """The kernel's figures now."""
    now, refaults = sysinfo.meminfo(), sysinfo.vmstat().get("workingset_refault_anon", 0)
    swapped = now["SwapTotal"] - now["SwapFree"] - now["SwapCached"]
    return Sample(now["MemTotal"], now["MemAvailable"], now["Active(file)"], swapped, refaults)


class Space(NamedTuple):
    """Bytes for all jobs together."""

    room: int  # for the choice of those that run
    limit: int  # that the kernel holds them to


class _Peak:
    """A figure over time: its largest value of the last seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._values: deque[tuple[float, int]] = deque()  # (when, value); each is larger than all later ones

    def among(self, at: float, value: int) -> int:
        """The largest, this value of this moment included."""
        while self._values and self._values[-1][1] <= value:
            self._values.pop()
        self._values.append((at, value))
        while self._values[0][0] < at - self._seconds:
            self._values.popleft()
        return self._values[0][1]


class Room:
    """The room, over time."""

    def __init__(self) -> None:
        self._need, self._in_memory = _Peak(PEAK), _Peak(IDLE)
        self._refaults: deque[tuple[float, int]] = deque()  # (when, those of local tasks so far), the last RETURNS s

    def look(self, at: float, sample: Sample, jobs: Part, share: float = 0.0) -> Space:
        """Room and limit at this moment (seconds); `share`: the part of all memory that jobs may have in any case (knob
        share_mem)."""
        files = max(0, sample.active_files - jobs.active_files)
        need = max(0, sample.total - sample.available - jobs.memory + files) + self._returning(at, sample, jobs)
        reserve = int(min(_RESERVE * sample.total, _MOST * (sample.available + jobs.memory)))
        left = int(share * sample.total), 0
        return Space(*(max(sample.total - reserve - wanted, *left) for wanted in (self._need.among(at, need), need)))

    def _returning(self, at: float, sample: Sample, jobs: Part) -> int:
        """Bytes that local tasks have in swap and seem to need."""
        self._refaults.append((at, sample.refaults - jobs.refaults))
        while self._refaults[0][0] < at - RETURNS:
            self._refaults.popleft()
        came = max(0, self._refaults[-1][1] - self._refaults[0][1])
        swapped = max(0, sample.swapped - jobs.swapped)
        idle = -self._in_memory.among(at, -swapped)
        return min(swapped - idle, came * _PAGE)
