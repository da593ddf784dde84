# SPDX-License-Identifier: GPL-2.0-or-later
"""The load of this node, for the placement of jobs (LoadShare §2.1): runnable tasks and major faults, over time."""

from __future__ import annotations

import math
from typing import Final

from ctl.contract import Load
from ctl.kernel import sysinfo

__all__ = ["LoadMeter"]

_SECONDS: Final = 5.0  # a change counts by two thirds after so long: shorter than jobs, longer than their waits


class LoadMeter:
    """Means of what is seen now and then."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._faults = 0
        self._runnable = self._faults_s = 0.0

    def look(self, at: float, speed: float) -> Load:
        """The load at this moment, seconds; `speed`: of this node."""
        runnable, faults = max(0, sysinfo.runnable_tasks() - 1), sysinfo.major_faults()  # the agent runs, too
        if self._at is None:
            self._runnable = float(runnable)
        elif at > self._at:
            seconds = at - self._at
            old = math.exp(-seconds / _SECONDS)
            self._runnable = old * self._runnable + (1 - old) * runnable
            self._faults_s = old * self._faults_s + (1 - old) * (faults - self._faults) / seconds
        self._at, self._faults = at, faults
        return Load(len(sysinfo.online_cpus()), speed, round(self._runnable, 2), round(max(0.0, self._faults_s), 1))
