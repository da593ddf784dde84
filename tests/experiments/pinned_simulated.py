# SPDX-License-Identifier: GPL-2.0-or-later
"""The workloads of pinned.py in model csm."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence

from ctl.sim.csm.model import MODEL
from ctl.sim.csm.simulation import Job, Simulation
from tests.experiments.pinned import End, Place, Work, parameters, tasks

__all__ = ["gaps_s", "jobs", "simulated"]

_SEED = 1
_MOST_GAPS = 4096  # MOST_GAPS of pinned_tasks.c
_APART_S = 1e-6  # so they begin in their order
_ALMOST_S = 1e-9


def jobs(workload: Sequence[Work]) -> list[Job]:
    """Its tasks as the simulator is given them."""
    return [
        Job(_APART_S * k, "large" if work.parallel else "local", work.cpu_ms / 1e3, 1, len(work.cpus), work.cpus[0])
        for k, work in enumerate(workload)
    ]


def _cpu_s(simulation: Simulation, workload: Sequence[Work], nodes: int) -> dict[Place, float]:
    """CPU time by place; of tasks that have ended all they asked for."""
    demand_s = {work.name: work.cpu_ms / 1e3 for work in workload}
    there: Counter[Place] = Counter()
    had_s: defaultdict[Place, float] = defaultdict(float)
    for cpu in range(nodes):
        for view in simulation.node(cpu):
            there[workload[view.job].name, cpu] += 1
            had_s[workload[view.job].name, cpu] += view.cpu_s
    return {
        place: had_s[place] + (number - there[place]) * demand_s[place[0]]
        for place, number in Counter(tasks(workload)).items()
    }


def simulated(workload: Sequence[Work], policy: str) -> list[End]:
    """Run it under a policy; the ends in their order."""
    values, given = MODEL.complete(parameters(workload)), jobs(workload)
    with Simulation(policy, values, _SEED, given) as simulation:
        simulation.advance()
        ends = sorted((r.arrived + r.slow, work.name) for r, work in zip(simulation.records(), workload, strict=True))
    with Simulation(policy, values, _SEED, given) as simulation:
        found = []
        for at_ns, name in ends:
            simulation.advance(until_s=at_ns / 1e9 + _ALMOST_S)
            found.append(End(name, at_ns / 1e9, _cpu_s(simulation, workload, int(values["nodes"]))))
    return found


def gaps_s(workload: Sequence[Work]) -> dict[str, list[float]]:
    """By job: the computations of its tasks between two messages, until the tasks have all their CPU time."""
    found = {}
    with Simulation("rr", MODEL.complete(parameters(workload)), _SEED, jobs(workload)) as simulation:
        for number, work in enumerate(workload):
            if work.parallel:
                drawn = simulation.gaps_s(number, _MOST_GAPS)
                due = itertools.accumulate(drawn)
                found[work.name] = [gap for gap, at in zip(drawn, due, strict=True) if at < work.cpu_ms / 1e3]
    return found
