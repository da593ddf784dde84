# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults injected on one node (CSM-40): each costs what a fault costs, only tasks of jobs there have any."""

from __future__ import annotations

import pytest

from ctl.errors import USAGE, CoschedError
from ctl.sim.csm.model import MODEL, run
from ctl.sim.csm.simulation import Job, Simulation, metrics
from ctl.sim.native import CHECKED

LONE = {"nodes": 2, "local_share": 1, "mfreq_ms": 1e6, "phase": 0, "inject_every_s": 1.0}


@pytest.mark.parametrize(("node", "hit"), [(0, True), (1, False)])
def test_each_fault_suspends_the_task_for_a_faults_time_and_nothing_else_changes(node: int, hit: bool) -> None:
    """A task by itself on node 0: it takes its CPU time and 20 ms for each fault; elsewhere none hits it."""
    values = MODEL.complete({**LONE, "inject_node": node})
    with Simulation("rr", values, 3, [Job(0.0, "large", 100.0, 1000, 1, 0)], kind=CHECKED) as simulation:
        assert simulation.advance()
        job, stats = next(iter(simulation.records())), simulation.stats()
        assert (stats.injected > 70) == hit
        assert stats.faults == stats.injected
        assert job.slow - job.tc == stats.injected * 20_000_000
        assert stats.injected == pytest.approx(102 if hit else 0, abs=25)


def test_local_tasks_have_none_and_the_run_ends() -> None:
    with Simulation("rr", MODEL.complete(LONE), 3, [Job(0.0, "local", 100.0, 1000, 1, 0)]) as simulation:
        assert simulation.advance()
        assert (simulation.stats().injected, simulation.stats().faults) == (0, 0)


def test_a_page_that_is_taken_comes_back() -> None:
    with Simulation("rr", MODEL.complete(LONE), 3, [Job(0.0, "large", 100.0, 1000, 1, 0)], kind=CHECKED) as simulation:
        resident = set()
        for at in range(1, 90):
            simulation.advance(until_s=at)
            resident |= {view.res for view in simulation.node(0)}
        assert simulation.stats().injected > 50
        assert resident <= {999, 1000} and 1000 in resident


def test_the_checked_engine_finds_nothing_wrong_and_jobs_meet_them_in_a_crowd() -> None:
    crowded = {
        "nodes": 16, "jobs": 300, "memory": 8000, "mest": 2000, "mit_s": 3, "local_share": 0.9, "tc_local_s": 5,
        "tc_small_s": 5, "tc_large_s": 10, "mfreq_ms": 60,
    }  # fmt: skip
    for name in ("rr", "csm"):
        values = MODEL.complete({**crowded, "inject_every_s": 0.05, "inject_node": 7})
        result = run(name, values, 5, kind=CHECKED)
        assert result == run(name, values, 5)
        assert result["arrivals"] == 300
        without = run(name, MODEL.complete(crowded), 5)
        assert without == run(name, MODEL.complete({**crowded, "inject_node": 7}), 5)
        assert result["end_s"] != without["end_s"]


def test_a_pause_changes_nothing() -> None:
    values = MODEL.complete({"jobs": 60, "local_share": 0.9, "tc_large_s": 100, "mit_s": 10, "inject_every_s": 1})
    with Simulation("csm", values, 9) as simulation:
        at = 0.0
        while not simulation.advance(until_s=at):
            at += 7
        assert simulation.stats().injected > 100
        assert metrics(simulation.stats()) == run("csm", values, 9)


def test_a_node_that_is_not_there_is_refused() -> None:
    with pytest.raises(CoschedError, match="inject_node cannot be 32 of 32 nodes: allowed is 0 to 31") as refused:
        MODEL.complete({"inject_node": 32})
    assert refused.value.status == USAGE
    with pytest.raises(CoschedError, match="inject_every_s cannot be -1"):
        MODEL.complete({"inject_every_s": -1})


def test_the_trial_measures_a_job_by_itself_as_delayed_by_each_fault() -> None:
    values = MODEL.complete({"trial": "cascade", "nodes": 8, "local_share": 1, "inject_every_s": 2, "mfreq_ms": 1e5})
    result = run("rr", values, 1)
    assert result["last_alone"] == pytest.approx(1, abs=0.01)
    assert result["injected_alone"] > 250
    assert run("rr", values | {"inject_every_s": 0.0}, 1)["last_beside"] is None
