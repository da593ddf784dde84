# SPDX-License-Identifier: GPL-2.0-or-later
"""Model `csm`: a cluster with local, small and large jobs (CSM §5.1)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from ctl.sim.csm import trials
from ctl.sim.csm.params import PARAMETERS, check
from ctl.sim.csm.simulation import Simulation, metrics
from ctl.sim.engine import to_the_end
from ctl.sim.params import Model, Value

__all__ = ["MODEL", "run"]

_EVENTS = 2_000_000  # between two looks at the request to stop: a tenth of a second


def run(
    name: str,
    values: Mapping[str, Value],
    seed: int,
    stop: threading.Event | None = None,
    kind: str = "",
    events: int = 0,
) -> dict[str, Any]:
    """Run a replication to its end, or refuse after `events`. Raises KeyboardInterrupt if `stop` is set meanwhile."""
    if values["trial"] != "none":
        return trials.run(name, values, seed)
    with Simulation(name, values, seed, kind=kind) as simulation:
        to_the_end(simulation, stop, _EVENTS, events)
        return metrics(simulation.stats())


MODEL = Model(
    "csm",
    "CSM §5.1: a cluster of 32 nodes with local, small and large jobs",
    ("rr", "pred", "dyn", "csm", "csm-bounded", "csm-first", "ccs"),
    PARAMETERS,
    run,
    "csm",
    check,
)
