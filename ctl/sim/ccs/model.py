# SPDX-License-Identifier: GPL-2.0-or-later
"""Model `ccs`: parallel jobs and local users on a non-dedicated, heterogeneous cluster (CCS §5)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from ctl.sim.ccs import trials
from ctl.sim.ccs.params import PARAMETERS, check
from ctl.sim.ccs.simulation import Simulation, metrics
from ctl.sim.engine import to_the_end
from ctl.sim.params import Model, Value

__all__ = ["MODEL", "run"]

_EVENTS = 500_000  # between two looks at the request to stop: a tenth of a second


def run(
    name: str, values: Mapping[str, Value], seed: int, stop: threading.Event | None = None, kind: str = ""
) -> dict[str, Any]:
    """Run a replication to its end. Raises KeyboardInterrupt if `stop` is set meanwhile."""
    if values["trial"] != "none":
        return trials.run(name, values, seed)
    with Simulation(name, values, seed, kind=kind) as simulation:
        to_the_end(simulation, stop, _EVENTS)
        return metrics(simulation)


MODEL = Model(
    "ccs",
    "CCS §5: parallel jobs and local users on a non-dedicated, heterogeneous cluster",
    ("rr", "implicit", "dyn", "pred", "zhang", "poly", "ccs"),
    PARAMETERS,
    run,
    "ccs",
    check,
)
