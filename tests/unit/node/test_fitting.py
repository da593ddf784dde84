# SPDX-License-Identifier: GPL-2.0-or-later
"""Policy fit on one node: what is measured for the queue."""

from __future__ import annotations

import time

import pytest

from ctl.jobs.queue import Queue
from ctl.kernel.cgroups import JobCgroups
from ctl.node import fitting
from ctl.node.fitting import Fitting
from ctl.node.pools import Pools
from ctl.node.room import PEAK, Sample

MB = 1 << 20


class _Cgroups(JobCgroups):
    """No jobs."""

    def pool_held(self) -> tuple[int, int]:
        return 0, 0


def test_a_peak_of_local_tasks_is_forgotten_though_the_clock_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = {"time": 1e9, "monotonic": 50.0}
    available = 100 * MB
    monkeypatch.setattr(fitting, "take_sample", lambda: Sample(1000 * MB, available, 0))
    monkeypatch.setattr(time, "time", lambda: clocks["time"])
    monkeypatch.setattr(time, "monotonic", lambda: clocks["monotonic"])
    cgroups, queue = _Cgroups(), Queue()
    fit = Fitting(queue, cgroups, Pools(cgroups))
    rooms = []
    for forward in (0.0, 1.0, PEAK):
        clocks["monotonic"] += forward
        fit.look([], 0.0, 0.0, 1.0)
        rooms.append(queue.facts().room // MB)
        clocks["time"], available = 1e9 - 86400, 900 * MB
    assert rooms == [96, 92, 892]
