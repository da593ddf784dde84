# SPDX-License-Identifier: GPL-2.0-or-later
"""Policy fit on one node: what is measured for the queue."""

from __future__ import annotations

import time

import pytest

from ctl.contract import NodeFacts, Wish
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

    def all_movable(self) -> int:
        return 0


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


def _fitting(monkeypatch: pytest.MonkeyPatch, available: int) -> tuple[Fitting, Queue]:
    monkeypatch.setattr(fitting, "take_sample", lambda: Sample(1000 * MB, available, 0))
    monkeypatch.setattr(Pools, "hold", lambda _self, _most: None)
    monkeypatch.setattr(Pools, "reached", lambda _self: None)
    monkeypatch.setattr(_Cgroups, "declared", lambda _self, _jid: 0)
    cgroups, queue = _Cgroups(), Queue()
    return Fitting(queue, cgroups, Pools(cgroups)), queue


def test_a_job_whose_stop_frees_little_is_not_stopped_and_keeps_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without swap two jobs of 420 MB run in a room of about 630, and no third begins."""
    fit, queue = _fitting(monkeypatch, 634 * MB)
    jobs: list[Job] = [Job(jid, 420 * MB, 0, 0.0, stays=420 * MB) for jid in "ab"]
    monkeypatch.setattr(_Cgroups, "pool_held", lambda _self: (840 * MB, 0))
    monkeypatch.setattr(fitting, "take_sample", lambda: Sample(1500 * MB, 300 * MB, 0))
    fit.look(jobs, 0.0, 0.0, 1.0)
    assert not fit.stops
    assert [(row["need"], row["stays"]) for row in fit.report()["jobs"]] == [(420 * MB, 420 * MB)] * 2
    assert "needs 400 MiB" in queue.ask(Wish("c", "u", need=400 * MB), time.time())
    fit.look([Job(jid, 840 * MB, 0, 0.0, stays=740 * MB) for jid in "ab"], 0.0, 0.0, 1.0)
    assert not fit.stops, "seven eighths stay"
    movable = [Job(jid, 800 * MB, 0, 0.0, stays=8 * MB) for jid in "ab"]
    fit.look(movable, 0.0, 0.0, 1.0)
    assert [jid for jid, _ in fit.stops] == ["b"], "with swap it is stopped"


def test_what_ended_jobs_left_in_shared_memory_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    fit, _ = _fitting(monkeypatch, 300 * MB)
    monkeypatch.setattr(_Cgroups, "pool_held", lambda _self: (600 * MB, 0))
    monkeypatch.setattr(_Cgroups, "all_movable", lambda _self: 500 * MB)
    fit.look([Job("a", 100 * MB, 0, 0.0, movable=100 * MB)], 0.0, 0.0, 1.0)
    report = fit.report()
    assert report["left_behind"] == 400 * MB
    assert report["room"] // MB == 900 - 8 - 400, "100 of local tasks, the reserve, and what was left"
