# SPDX-License-Identifier: GPL-2.0-or-later
"""Trials with given jobs: the CPU shares of CCS Fig. 3, and the effect of a stop on paging (CCS §4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ctl.sim.ccs.simulation import PAGES_MB, Job, Simulation
from ctl.sim.params import Value

__all__ = ["run"]

_LONG_S = 1e6


def _cpu(simulation: Simulation, node: int) -> dict[str, float]:
    """CPU seconds of each task of a node so far: "local", or the job's number."""
    return {"local" if view.local else str(view.job): view.cpu_s for view in simulation.node(node)}


def _fig3(name: str, values: Mapping[str, Value], seed: int) -> dict[str, Any]:
    """Job_1 on N1 to N4, Job_2 on N3 to N5, local users who never wait on N1 and N2: each one's part of its CPU.

    Returns by name, "job1_N1" and so on, the parts from 60 s to 360 s.
    """
    jobs = [Job(0.0, _LONG_S, 10 * PAGES_MB, 4, 0), Job(0.0, _LONG_S, 10 * PAGES_MB, 3, 2)]
    with Simulation(name, values, seed, jobs) as simulation:
        simulation.advance(until_s=60)
        before = [_cpu(simulation, node) for node in range(5)]
        simulation.advance(until_s=360)
        after = [_cpu(simulation, node) for node in range(5)]
    found: dict[str, Any] = {}
    for node, (old, new) in enumerate(zip(before, after, strict=True)):
        for task, cpu in new.items():
            label = {"0": "job1", "1": "job2"}.get(task, "local")
            found[f"{label}_N{node + 1}"] = (cpu - old.get(task, 0.0)) / 300
    return found | {"events": 0}


def _stop(name: str, values: Mapping[str, Value], seed: int) -> dict[str, Any]:
    """Two jobs on four nodes of 512 MB, each node with a user: more than fits. Faults a second around the first stop.

    before: the 5 s before it; after: from the 5th second on (5 epochs at the most) for 5 s; later: the minute from then
    on. None without a stop within 10 minutes; then `later` is of the second minute.
    """
    jobs = [Job(0.0, _LONG_S, mb * PAGES_MB, 4, 0) for mb in (240, 300)]
    with Simulation(name, values, seed, jobs) as simulation:
        at, counts = 0.0, [0]
        while not simulation.stats().stops and at < 600:
            at += 0.25
            simulation.advance(until_s=at)
            counts.append(simulation.stats().faults)
        stopped = bool(simulation.stats().stops)
        if not stopped:
            return {"before": None, "after": None, "later": (counts[480] - counts[240]) / 60, "events": 0}
        before = (counts[-1] - counts[max(0, len(counts) - 21)]) / min(5.0, at)
        faults = []
        for wait in (5, 10, 70):
            simulation.advance(until_s=at + wait)
            faults.append(simulation.stats().faults)
    return {
        "before": before,
        "after": (faults[1] - faults[0]) / 5,
        "later": (faults[2] - faults[1]) / 60,
        "events": 0,
    }


def run(name: str, values: Mapping[str, Value], seed: int) -> dict[str, Any]:
    """Run the trial of `values`."""
    return {"fig3": _fig3, "stop": _stop}[str(values["trial"])](name, values, seed)
