# SPDX-License-Identifier: GPL-2.0-or-later
"""Room: the memory of this node that jobs may have, so that no page of a local task is taken for a job's sake.

    room = memory - need of local tasks - reserve

Local is everything outside jobs, the kernel included. Its need is all memory that is neither available nor a job's, and
the pages of files that local tasks keep using. The largest need of the last PEAK seconds counts. So a program that
comes and goes finds its memory, and a page that went to swap for a job's sake still has its place when it comes back.

The room decides which jobs run. The limit on all of them together follows the need of this moment: a job that is larger
than the room, and runs because it is the first, uses what local tasks leave just now. The reserve stays out of the
limit, too: where jobs may have the last page, the kernel wakes up its search for pages, and finds those of local tasks.

A local task that fetches pages from swap while others of its pages go there has too little memory, though its need
seems to be met: then the limit is lower by as much as came back without a gain, until the gain comes.
"""

from __future__ import annotations

import resource
from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from ctl.kernel import sysinfo

__all__ = ["PEAK", "Part", "Room", "Sample", "Space", "take_sample"]

PEAK: Final = 120.0  # seconds
_FADES: Final = 5.0  # seconds in which half of what is missing is forgotten
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


class Room:
    """The room, over time."""

    def __init__(self) -> None:
        self._needs: deque[tuple[float, int]] = deque()  # (when, local need); each is larger than all later ones
        self._missing = _Missing()

    def look(self, at: float, sample: Sample, jobs: Part, share: float = 0.0) -> Space:
        """Room and limit at this moment (seconds); `share`: the part of all memory that jobs may have in any case (knob
        share_mem)."""
        files = max(0, sample.active_files - jobs.active_files)
        need = max(0, sample.total - sample.available - jobs.memory + files)
        while self._needs and self._needs[-1][1] <= need:
            self._needs.pop()
        self._needs.append((at, need))
        while self._needs[0][0] < at - PEAK:
            self._needs.popleft()
        swapped, came = sample.swapped - jobs.swapped, _PAGE * (sample.refaults - jobs.refaults)
        need_soon = need + self._missing.look(at, need, max(0, swapped), came)
        reserve = int(min(_RESERVE * sample.total, _MOST * (sample.available + jobs.memory)))
        left = int(share * sample.total), 0
        return Space(*(max(sample.total - reserve - wanted, *left) for wanted in (self._needs[0][1], need_soon)))


class _Missing:
    """Memory that local tasks lack: what they fetch from swap takes the place of other pages of theirs."""

    def __init__(self) -> None:
        self._before: tuple[float, int, int] | None = None  # of the last look
        self._bytes = 0.0

    def look(self, at: float, need: int, swapped: int, came: int) -> int:
        """Bytes. `need`: what they have in memory; `swapped`: in swap; `came`: what came back from there so far."""
        if self._before is not None:
            seconds, gained = at - self._before[0], need - self._before[1]
            fetched = max(0, came - self._before[2])
            gained = min(fetched, max(0, gained))
            faded = self._bytes * 0.5 ** (seconds / _FADES)
            self._bytes = min(swapped, max(0.0, faded - gained) + fetched - gained)
        self._before = at, need, came
        return int(self._bytes)
