# SPDX-License-Identifier: GPL-2.0-or-later
"""Model `parpar`: a gang-scheduled cluster whose memory is looked at, or not (ParPar §3, §4)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from ctl.sim.engine import to_the_end
from ctl.sim.params import Model, Value
from ctl.sim.parpar import replay
from ctl.sim.parpar.params import PARAMETERS, check
from ctl.sim.parpar.program import coverage, jumps
from ctl.sim.parpar.simulation import ADMIT, GANG, Simulation, metrics
from ctl.sim.parpar.workload import jobs_of

__all__ = ["MODEL", "run"]

_EVENTS = 1_000_000  # between two looks at the request to stop: less than a tenth of a second


def run(
    policy: str,
    values: Mapping[str, Value],
    seed: int,
    stop: threading.Event | None = None,
    kind: str = "",
) -> dict[str, Any]:
    """Run a replication until all jobs have ended or it is saturated. Raises KeyboardInterrupt if `stop` is set."""
    if values["trial"] == "walk":
        return _walk(values, seed)
    if values["trial"] == "replay":
        return replay.run(values)
    with Simulation(policy, values, seed, jobs_of(values, seed), kind=kind) as simulation:
        to_the_end(simulation, stop, _EVENTS, given_up=lambda: simulation.stats().overload)
        return metrics(simulation)


def _walk(values: Mapping[str, Value], seed: int) -> dict[str, Any]:
    """The program alone: its jumps below 4 (§4.1), and how much of its array 100,000 accesses touch."""
    theta, k, array = float(values["theta"]), int(values["k_bytes"]), float(values["job_mb"])
    drawn = jumps(theta, seed, 1_000_000)
    covered = coverage(theta, k, array, seed, 100_000)
    return {"events": len(drawn), "below_4": sum(x < 4 for x in drawn) / len(drawn), "coverage": covered}


MODEL = Model(
    "parpar",
    "ParPar §4: gang scheduling on 16 nodes, jobs that do not all fit in memory",
    (GANG, ADMIT),
    PARAMETERS,
    run,
    "parpar",
    check,
)
