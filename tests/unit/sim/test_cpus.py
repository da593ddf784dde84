# SPDX-License-Identifier: GPL-2.0-or-later
"""Nodes of several CPUs in model csm: a ready queue for each CPU, one memory for all of a node."""

from __future__ import annotations

import pytest

from ctl.errors import CoschedError
from ctl.sim import plots
from ctl.sim.csm.model import MODEL, run
from ctl.sim.csm.simulation import Job, Simulation
from ctl.sim.experiment import Panel
from ctl.sim.experiment import runs as runs_of
from ctl.sim.native import CHECKED
from ctl.sim.registry import find_experiment

CROWDED = {
    "nodes": 4, "cpus": 4, "jobs": 400, "memory": 32000, "mest": 2000, "mit_s": 0.6, "local_share": 0.95,
    "tc_local_s": 5, "tc_small_s": 5, "tc_large_s": 10, "mfreq_ms": 60,
}  # fmt: skip


@pytest.mark.parametrize("name", MODEL.policies)
def test_the_checked_engine_finds_nothing_wrong(name: str) -> None:
    result = run(name, MODEL.complete(CROWDED), 5, kind=CHECKED)
    assert result == run(name, MODEL.complete(CROWDED), 5)
    assert result["arrivals"] == 400
    assert result["faults"] > 100


def _responses(name: str, **given: object) -> list[int]:
    jobs = [Job(0.1 * k, "large", 5.0 + k, 4000, 2 + k % 3, k % 8) for k in range(12)]
    with Simulation(name, MODEL.complete({"local_share": 1, "mfreq_ms": 30, **given}), 1, jobs) as simulation:
        assert simulation.advance()
        return [r.slow for r in simulation.records()]


@pytest.mark.parametrize("name", ["rr", "pred", "csm"])
def test_where_memory_is_enough_eight_nodes_are_two_of_four_cpus(name: str) -> None:
    assert _responses(name, nodes=8) == _responses(name, nodes=2, cpus=4, memory=4 * 32768)


@pytest.mark.parametrize(("nodes", "cpus", "faults"), [(2, 1, False), (1, 2, True)])
def test_the_cpus_of_a_node_share_its_memory(nodes: int, cpus: int, faults: bool) -> None:
    """Two tasks of three quarters of M, each by itself on a CPU: they fit on two nodes, not on one."""
    values = MODEL.complete({"nodes": nodes, "cpus": cpus, "memory": 1000, "wrk_local": 1, "local_share": 1})
    with Simulation(
        "rr", values, 1, [Job(0.0, "local", 50.0, 750, 1, k) for k in range(2)], kind=CHECKED
    ) as simulation:
        assert simulation.advance()
        assert (simulation.stats().faults > 0) == faults
        assert simulation.stats().mem_area == pytest.approx(1500 * simulation.stats().task_area / 2)


def test_who_runs_on_another_cpu_loses_pages_last() -> None:
    """A runs for ever on CPU 0; the others take turns on CPU 1 and take each other's pages, not A's."""
    values = MODEL.complete({
        "nodes": 1, "cpus": 2, "memory": 1000, "slice_ms": 200, "wrk_local": 1, "wrk_sd": 0, "phase": 0,
        "local_share": 1, "enter": "free",
    })  # fmt: skip
    jobs = [Job(0.0, "local", 1000.0, 600, 1, 0), *(Job(1.0, "local", 200.0, 250, 1, 1) for _ in range(3))]
    with Simulation("rr", values, 1, jobs, kind=CHECKED) as simulation:
        simulation.advance(until_s=3)
        before = next(view.res for view in simulation.node(0) if view.job == 0)
        simulation.advance(until_s=100)
        assert simulation.stats().faults > 100
        assert next(view.res for view in simulation.node(0) if view.job == 0) == before


def test_a_local_task_goes_to_the_idlest_cpu_of_its_node() -> None:
    """Of eight that come at once, each of four CPUs has two: all end within twice the time of the longer."""
    values = MODEL.complete({"nodes": 1, "cpus": 4, "jobs": 8, "local_share": 1, "mit_s": 1e-6, "tc_cv": 0, "mest": 1})
    with Simulation("rr", values, 1) as simulation:
        assert simulation.advance()
        assert max(r.slow for r in simulation.records()) <= 2 * 300_000_000_000 + 10


def test_a_job_fills_the_node_with_the_least_memory() -> None:
    jobs = [Job(float(k), "large", 1e3, 1000, 4) for k in range(2)]
    with Simulation("rr", MODEL.complete({"nodes": 2, "cpus": 4, "local_share": 1}), 1, jobs) as simulation:
        simulation.advance(until_s=0.5)
        assert sorted(len(simulation.node(k)) for k in range(2)) == [0, 4]
        simulation.advance(until_s=5)
        assert [len(simulation.node(k)) for k in range(2)] == [4, 4]
        assert {view.job for view in simulation.node(0)} != {view.job for view in simulation.node(1)}


def test_the_tasks_of_a_job_go_to_the_cpus_of_a_node_that_have_the_fewest() -> None:
    jobs = [*(Job(0.0, "local", 100.0, 10, 1, k) for k in (0, 2)), Job(1.0, "large", 10.0, 10, 2)]
    values = MODEL.complete({"nodes": 1, "cpus": 4, "local_share": 1, "mfreq_ms": 1e6})
    with Simulation("rr", values, 1, jobs) as simulation:
        assert simulation.advance()
        assert [r.slow for r in simulation.records()] == [100_000_000_000, 100_000_000_000, 10_000_000_000]


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(CoschedError, match="cpus cannot be 2 in trial static: allowed is 1"):
        MODEL.complete({"trial": "static", "cpus": 2})
    with pytest.raises(CoschedError, match="cpus cannot be 16 on 20000 nodes: allowed is 200000 in all"):
        MODEL.complete({"nodes": 20_000, "cpus": 16})
    with pytest.raises(CoschedError, match="cpus cannot be 0: allowed is a whole number, 1 to 1024 CPUs"):
        MODEL.complete({"cpus": 0})


def test_the_scale_experiment_runs_in_small() -> None:
    """Eight nodes instead of 1,024: where memory is enough, how long a fault takes changes nothing."""
    points = runs_of(find_experiment("scale"), 1, {"nodes": 8, "jobs": 600, "mit_s": 0.0347})
    results = {point: run(of[0].policy, of[0].parameters, of[0].seed) for point, of in points.items()}
    assert all(result["arrivals"] == 600 for result in results.values())
    least, most = min(x for _, x in points), max(x for _, x in points)
    for name in ("rr", "pred", "csm", "ccs"):
        assert results[f"{name}, disk", most] == results[f"{name}, NVMe", most]
        assert results[f"{name}, disk", least]["faults"] > 0
    assert results["pred, disk", most] == results["csm, disk", most] | {
        key: results["pred, disk", most][key] for key in ("by_mes", "by_rec", "by_flt")
    }


def test_a_panel_shows_replications_in_parts_of_another_line() -> None:
    results: plots.Results = {
        ("rr", 1): [{"m": 2.0}, {"m": 4.0}, {"m": None}],
        ("ccs", 1): [{"m": 1.0}, {"m": 6.0}, {"m": 1.0}],
    }
    assert plots._shown(Panel("m", "", ""), results, "ccs", 1) == [1.0, 6.0, 1.0]
    assert plots._shown(Panel("m", "", "", against="rr"), results, "ccs", 1) == [0.5, 1.5, None]
