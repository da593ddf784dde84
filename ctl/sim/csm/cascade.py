# SPDX-License-Identifier: GPL-2.0-or-later
"""The cost of page faults on one node for a job on all nodes (CSM §2.1: "cascading delays on other nodes").

A job runs beside a local task on each node, twice with the same seed: without and with faults injected on one node.
Memory is enough, so there are no others. The local tasks outlast the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ctl.sim.csm.simulation import Job, Simulation
from ctl.sim.params import Value

__all__ = ["JOB", "NODES", "PARAMETERS", "run"]

NODES = 8
JOB = Job(0.0, "large", 600.0, 8192, NODES, 0)
_LOCALS = tuple(Job(0.0, "local", 20_000.0, 4096, 1, node) for node in range(NODES))
_STEP_S = 50.0

PARAMETERS: Mapping[str, Value] = {"local_share": 1.0, "inject_every_s": 2.0, "phase": 0.0}


class _Ends(NamedTuple):
    """When the job's first and last task ended, in s, and how many faults were injected until then."""

    first: float
    last: float
    injected: int


def _ends(policy: str, values: Mapping[str, Value], seed: int, jobs: tuple[Job, ...]) -> _Ends:
    number, at, done = sorted(jobs).index(JOB), 0.0, False
    with Simulation(policy, values, seed, jobs) as simulation:
        while not done:
            at += _STEP_S
            done = simulation.advance(until_s=at)
            job = list(simulation.records())[number]
            if job.slow:
                return _Ends(job.fast / 1e9, job.slow / 1e9, int(simulation.stats().injected))
    raise AssertionError("a simulation that is done has no job left")


def run(policy: str, values: Mapping[str, Value], seed: int) -> dict[str, Any]:
    """How much later the job and its first task end for each fault, in parts of a fault's time; None without faults.

    Beside a local task on each node, and by itself.
    """
    found: dict[str, Any] = {}
    for where, jobs in (("beside", (JOB, *_LOCALS)), ("alone", (JOB,))):
        without = _ends(policy, {**values, "inject_every_s": 0.0}, seed, jobs)
        with_ = _ends(policy, values, seed, jobs)
        suspended = with_.injected * float(values["fault_ms"]) / 1e3
        found[f"response_{where}_s"], found[f"injected_{where}"] = without.last, with_.injected
        for of in ("first", "last"):
            later = getattr(with_, of) - getattr(without, of)
            found[f"{of}_{where}"] = later / suspended if suspended else None
    return found
