# SPDX-License-Identifier: GPL-2.0-or-later
"""A peer of the demo: a freezer by pressure, one node alone, after the manner of thrash-protect and of the OOM daemons.

It knows nothing of jobs but their cgroups and when they began. While tasks stall on memory for more than _HIGH of the
time, it freezes the newest job that runs, as long as another runs. It thaws the job that is frozen for the longest time
once no job runs, or once tasks have stalled for less than _LOW of the time for _CALM_S.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["Freezer"]

_EVERY_S: Final = 0.5
_HIGH: Final = 0.25
_LOW: Final = 0.05
_CALM_S: Final = 5.0
_PRESSURE: Final = Path("/proc/pressure/memory")


class Freezer:
    """Runs in a thread while the context is entered; in the end nothing is frozen."""

    def __init__(self, jobs: Sequence[Path]) -> None:
        """`jobs`: a cgroup each, the oldest first; jobs may come into it and go from it meanwhile."""
        self._jobs = jobs
        self._frozen: list[Path] = []  # the one that is frozen for the longest time first
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Freezer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for job in self._frozen:
            _freeze(job, False)

    def _watch(self) -> None:
        before, at, calm_since = _stalled_s(), time.monotonic(), time.monotonic()
        while not self._stop.wait(_EVERY_S):
            now, stalled = time.monotonic(), _stalled_s()
            share = (stalled - before) / (now - at)
            before, at = stalled, now
            if share >= _LOW:
                calm_since = now
            running = [job for job in tuple(self._jobs) if job not in self._frozen and _is_populated(job)]
            if share > _HIGH and len(running) > 1:
                self._frozen.append(running[-1])
                _freeze(running[-1], True)
            elif self._frozen and (not running or now - calm_since >= _CALM_S):
                _freeze(self._frozen.pop(0), False)
                calm_since = now


def _stalled_s() -> float:
    """Seconds in which some task waited for memory, since boot."""
    some = _PRESSURE.read_text().splitlines()[0]
    return int(some.rpartition("total=")[2]) / 1e6


def _is_populated(job: Path) -> bool:
    return "populated 1" in (job / "cgroup.events").read_text()


def _freeze(job: Path, frozen: bool) -> None:
    (job / "cgroup.freeze").write_text("1" if frozen else "0")
