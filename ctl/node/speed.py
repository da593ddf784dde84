# SPDX-License-Identifier: GPL-2.0-or-later
"""The speed of this node, by a short counted loop as for the papers' bogomips (CCS eq. 1).

/proc/cpuinfo's bogomips are of no use: today's kernels derive them from the clock of the time stamp counter, which can
be equal on a fast, a slow and an emulated machine.
"""

from __future__ import annotations

import time

__all__ = ["measure"]

_TURNS = 10_000  # 0.3 ms of today's CPUs, 5 ms of emulated ones: short, so that some run is not disturbed
_RUNS = 50


def measure() -> float:
    """Million turns of a loop per second of CPU time: the best run, so that caches and a busy host do not count.

    Only CPU time of this thread counts, so that a busy node does not seem slow.
    """
    best = 0.0
    for _ in range(_RUNS):
        began = time.thread_time_ns()
        total = 0
        for turn in range(_TURNS):
            total += turn & 3
        best = max(best, _TURNS * 1e3 / max(1, time.thread_time_ns() - began))
    return round(best, 3)
