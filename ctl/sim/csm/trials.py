# SPDX-License-Identifier: GPL-2.0-or-later
"""Trials with jobs that are given: the static workload of CSM Fig. 4 and the narrative of Fig. 2.

The text prints no sizes for the two figures. The sizes here are ours, chosen so that J1 and the local
tasks fit in memory and J2 does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ctl.sim.csm import cascade
from ctl.sim.csm.simulation import Job, Simulation
from ctl.sim.params import Value

__all__ = ["TRIALS", "Trial", "run"]


class Trial(NamedTuple):
    """Jobs by name, in the order of arrival, and how often node N1 is looked at."""

    names: tuple[str, ...]
    jobs: tuple[Job, ...]
    every_s: float
    nodes: int
    parameters: Mapping[str, Value]


def _everywhere(nodes: int, name: str, tc_s: float, vir: int) -> list[tuple[str, Job]]:
    """A local task on each node; the first is named."""
    return [(name if k == 0 else "", Job(0.0, "local", tc_s, vir, 1, k)) for k in range(nodes)]


def _trial(nodes: int, jobs: list[tuple[str, Job]], every_s: float, parameters: Mapping[str, Value]) -> Trial:
    jobs = sorted(jobs, key=lambda pair: pair[1])
    return Trial(tuple(name for name, _ in jobs), tuple(job for _, job in jobs), every_s, nodes, parameters)


TRIALS = {
    # CSM §5.2, Fig. 4: J1 18 K pages, J2 22 K, two local tasks of 4 K on each node, M 32 K
    "static": _trial(
        32,
        [
            ("J1", Job(0.0, "large", 3600.0, 18432, 32, 0)),
            ("J2", Job(10.0, "large", 3600.0, 22528, 32, 0)),
            *_everywhere(32, "L1", 300.0, 4096),
            *_everywhere(32, "L2", 300.0, 4096),
        ],
        20.0,
        {},
    ),
    # CSM §2.2, Fig. 2: three nodes, one local task each, m1 0.4 M, m2 0.6 M, mL 0.3 M. The CPU times are read off the
    # figure's narrative: L ends at 300 of three tasks that share the CPU, J1 and J2 need about half as much again
    "toy": _trial(
        3,
        [
            ("J1", Job(0.0, "large", 170.0, 13107, 3, 0)),
            ("J2", Job(0.0, "large", 190.0, 19661, 3, 0)),
            *_everywhere(3, "L", 100.0, 9830),
        ],
        5.0,
        {"local_share": 1.0},
    ),
    # CSM §4.2: three jobs of 16 K pages, one after the other, and three of different sizes at once; M 32 K
    "equal": _trial(
        8,
        [(f"J{k + 1}", Job(100.0 * k, "large", 600.0, 16384, 8, 0)) for k in range(3)],
        20.0,
        {"local_share": 1.0},
    ),
    "sizes": _trial(
        8,
        [(f"J{k + 1}", Job(0.0, "large", 600.0, vir, 8, 0)) for k, vir in enumerate((10240, 14336, 20480))],
        20.0,
        {"local_share": 1.0},
    ),
    # CSM §2.1: not looked at over time, see cascade.py
    "cascade": _trial(cascade.NODES, [("J", cascade.JOB)], 0.0, cascade.PARAMETERS),
}


def run(policy: str, values: Mapping[str, Value], seed: int) -> dict[str, Any]:
    """Run the trial of `values`; each named job's response time and N1's tasks over time (CPU s, resident pages)."""
    if values["trial"] == "cascade":
        return cascade.run(policy, values, seed)
    trial = TRIALS[str(values["trial"])]
    traces: dict[str, list[tuple[float, float, int]]] = {name: [] for name in trial.names if name}
    with Simulation(policy, values, seed, trial.jobs) as simulation:
        at, done = 0.0, False
        while not done:
            at += trial.every_s
            done = simulation.advance(until_s=at)
            for view in simulation.node(0):
                label = trial.names[view.job]
                if label:
                    traces[label].append((at, view.cpu_s, view.res))
        records = list(simulation.records())
        response = {label: records[number].slow / 1e9 for number, label in enumerate(trial.names) if label}
        arrived = {label: records[number].arrived / 1e9 for number, label in enumerate(trial.names) if label}
        faults = simulation.stats().faults
    return {"response_s": response, "arrived_s": arrived, "traces": traces, "faults": faults}
