# SPDX-License-Identifier: GPL-2.0-or-later
"""Policy fit on one node: what is measured for the queue."""

from __future__ import annotations

import time

import pytest

from ctl.contract import NodeFacts
from ctl.jobs.queue import Queue
from ctl.kernel.cgroups import JobCgroups
from ctl.node import fitting
from ctl.node.fitting import Fitting
from ctl.node.pools import Pools
from ctl.node.room import PEAK, Sample
from ctl.node.set_memory import Job

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


def test_an_outgrown_job_is_told_once_and_not_at_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "take_sample", lambda: Sample(1000 * MB, 300 * MB, 0))
    cgroups, queue = _Cgroups(), Queue("n1")
    queue.hear({"n2": NodeFacts(2000 * MB, 0, ())})
    fit = Fitting(queue, cgroups, Pools(cgroups))
    monkeypatch.setattr(Pools, "hold", lambda _self, _most: None)
    told = []
    for jobs in ([Job("a", 500 * MB, 0, 0.0)], [Job("a", 500 * MB, 0, 0.0)], [], [Job("a", 600 * MB, 0, 0.0)]):
        fit.look(jobs, 0.0, 0.0, 1.0)
        told.append([why.partition(":")[0] for _, why in fit.outgrown()])
    assert [len(why) for why in told] == [1, 0, 0, 1], "the second job of this name is another"
    assert told[0][0].endswith("for jobs; n2 has 2000 MiB free")


def test_what_was_declared_to_an_earlier_agent_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "take_sample", lambda: Sample(1000 * MB, 300 * MB, 0))
    monkeypatch.setattr(Pools, "hold", lambda _self, _most: None)
    monkeypatch.setattr(_Cgroups, "declared", lambda _self, jid: {"a": 200 * MB, "b": 0}[jid])
    cgroups, queue = _Cgroups(), Queue("n1")
    fit = Fitting(queue, cgroups, Pools(cgroups))
    here = [Job("a", 5 * MB, 0, 0.0), Job("b", 7 * MB, 0, 0.0)]
    for _ in range(2):
        fit.look(here, 0.0, 0.0, 1.0)
        assert [(row["declared"], row["need"]) for row in fit.report()["jobs"]] == [(200 * MB, 200 * MB), (0, 7 * MB)]
        fit.clear()  # another policy, and fit again
