# SPDX-License-Identifier: GPL-2.0-or-later
"""Model csm against what the kernel did with the same tasks when that was last kept; ticks and given gaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ctl.demo import results
from ctl.sim.csm.model import MODEL
from ctl.sim.csm.simulation import Job, Simulation
from ctl.sim.native import CHECKED
from tests.experiments.kernel_and_simulator import compare
from tests.experiments.pinned import POLICIES, WORKLOADS, arguments, parameters, tasks
from tests.experiments.pinned_simulated import gaps_s, jobs
from tests.reference.insert_rq import CAUSES

from .sim_decisions import problem

_KEPT = Path(__file__).resolve().parents[3] / "results/crosscheck.jsonl"
_MEASURED = results.read(_KEPT).runs


def test_every_workload_was_measured_under_every_policy() -> None:
    assert {(run["workload"], run["policy"]) for run in _MEASURED} == {(w, p) for w in WORKLOADS for p in POLICIES}


@pytest.mark.parametrize("run", _MEASURED, ids=lambda run: f"{run['policy']} on {run['workload']}")
def test_the_simulator_agrees_with_the_kernel(run: dict[str, Any]) -> None:
    found = compare(run["workload"], run["policy"], run["ends"])
    assert found.same_order
    assert found.agree, f"share of {found.worst}"


@pytest.mark.parametrize("run", _MEASURED, ids=lambda run: f"{run['policy']} on {run['workload']}")
def test_another_policy_does_not(run: dict[str, Any]) -> None:
    found = compare(run["workload"], run["policy"], run["ends"], "pred" if run["policy"] == "rr" else "rr")
    assert not found.same_order
    assert not found.agree


def test_a_share_that_is_off_is_found() -> None:
    run = next(run for run in _MEASURED if run["policy"] == "rr")
    name, at_s, cpu_s = run["ends"][0]
    off = compare(run["workload"], "rr", [(name, at_s, [1.2 * cpu_s[0], *cpu_s[1:]]), *run["ends"][1:]])
    assert off.same_order and not off.agree
    assert off.worst[0] == tasks(WORKLOADS[run["workload"]])[0]


@pytest.mark.parametrize(("tick_ms", "ends_ms"), [(0, [176, 200]), (4, [180, 200]), (100, [100, 200])])
def test_slices_end_with_the_first_tick_after_them(tick_ms: float, ends_ms: list[float]) -> None:
    """Two tasks of 100 ms take turns of 38 ms: as they are, of 40, and of 100."""
    values = {"nodes": 1, "local_share": 1, "slices": "equal", "slice_ms": 38, "tick_ms": tick_ms, "refs": 0}
    with Simulation("rr", MODEL.complete(values), 1, [Job(0, "local", 0.1, 1, 1, 0)] * 2, kind=CHECKED) as simulation:
        assert simulation.advance()
        assert [record.slow / 1e6 for record in simulation.records()] == pytest.approx(ends_ms, abs=0.01)


@pytest.mark.parametrize("tick_ms", [0, 4])
def test_who_only_awaits_the_tick_is_displaced_by_nobody(tick_ms: float) -> None:
    """Local tasks that end last leave no CPU idle: a decision without a running task is one between slice and tick."""
    workload = WORKLOADS["one CPU"]
    values = MODEL.complete(parameters(workload) | {"tick_ms": tick_ms})
    with Simulation("dyn", values, 1, jobs(workload), kind=CHECKED) as simulation:
        simulation.advance(until_s=2)
        log, n = simulation.decisions()
        between = [d for d in log[1:n] if CAUSES[d.env.cause] == "wake" and not d.has_running]
        assert all(not d.preempt and d.position == 0 for d in between)
        assert bool(between) == bool(tick_ms)
        assert not [wrong for d in log[0:n] if (wrong := problem(d, "dyn"))]


def test_the_program_is_told_when_messages_fall_due_in_the_simulator() -> None:
    for workload in WORKLOADS.values():
        given = gaps_s(workload)
        assert list(given) == [work.name for work in workload if work.parallel]
        number, *rest = arguments(workload, given)
        assert int(number) == len(given)
        assert [round(1e6 * sum(gaps)) for gaps in given.values()] == pytest.approx(
            [sum(map(int, word.split(","))) for word in rest[: len(given)]], abs=len(rest[0])
        )
        assert len(rest) == len(given) + len(tasks(workload))


def test_gaps_are_those_that_the_engine_draws() -> None:
    """A job by itself sends a message at each of them, and one with the end of each task."""
    values = MODEL.complete({"nodes": 2, "local_share": 1, "mfreq_ms": 10})
    with Simulation("rr", values, 7, [Job(0, "large", 2.0, 1, 2, 0)]) as simulation:
        assert simulation.advance()
        gaps, sent = simulation.gaps_s(0, 1000), 0
        while sum(gaps[: sent + 1]) < 2.0:
            sent += 1
        assert sent > 100
        assert simulation.stats().messages == 2 * (sent + 1)
