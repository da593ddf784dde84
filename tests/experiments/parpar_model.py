# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiment `parpar` beside the simulator: the same jobs in the model of docs/simulator-parpar.md."""

from __future__ import annotations

from typing import Any

from ctl.sim.parpar.model import MODEL, run
from ctl.sim.parpar.simulation import ADMIT, GANG
from tests.experiments.parpar_claims import Results
from tests.experiments.parpar_plan import ACCESSES, FAULT_MS, FREE_MB, NO_LIMIT, NODE_MB, SLOT_MS, Case

__all__ = ["access_ns", "modelled"]


def access_ns(results: Results) -> float:
    """The CPU time of an access where nothing pages, a job's beginning and end included. Raises Missing."""
    return results.figure("cpu_s", results.most, 2.0, 0.8) / results.most / ACCESSES * 1e9


def modelled(case: Case, ns: float) -> dict[str, Any]:
    """What the simulator says of a case; `ns`: of an access."""
    c = case.c if case.c != NO_LIMIT else 1.0
    values = MODEL.complete({
        "trial": "static", "nodes": 1, "jobs": case.jobs, "theta": case.theta, "c": c, "accesses": ACCESSES,
        "access_ns": ns, "fault_ms": float(FAULT_MS), "slot_s": SLOT_MS / 1000, "node_mb": float(NODE_MB),
        "free_mb": float(FREE_MB),
    })  # fmt: skip
    return run(GANG if case.c == NO_LIMIT else ADMIT, values, 1)
