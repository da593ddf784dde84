# SPDX-License-Identifier: GPL-2.0-or-later
"""Model `dcndc`: one node of a non-dedicated cluster under dynamic coscheduling (Monito §5.3)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from ctl.sim.dcndc.params import PARAMETERS
from ctl.sim.dcndc.simulation import Simulation, metrics
from ctl.sim.engine import to_the_end
from ctl.sim.params import Model, Value

__all__ = ["MODEL", "run"]

_EVENTS = 1_000_000  # between two looks at the request to stop: a tenth of a second


def run(
    name: str, values: Mapping[str, Value], seed: int, stop: threading.Event | None = None, kind: str = ""
) -> dict[str, Any]:
    """Run a replication to its end. Raises KeyboardInterrupt if `stop` is set meanwhile."""
    with Simulation(name, values, seed, kind=kind) as simulation:
        to_the_end(simulation, stop, _EVENTS)
        return metrics(simulation.stats())


MODEL = Model(
    "dcndc",
    "Monito §5.3: one node with local tasks, distributed tasks and messages for these",
    ("rr", "sdca", "dynamic", "implicit"),
    PARAMETERS,
    run,
    "dcndc",
)
