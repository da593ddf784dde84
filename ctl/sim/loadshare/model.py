# SPDX-License-Identifier: GPL-2.0-or-later
"""Models `loadshare` (LoadShare §2: known memory demands) and `loadshare-unknown` (§3: unknown ones)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from ctl.sim.engine import to_the_end
from ctl.sim.loadshare import params
from ctl.sim.loadshare.programs import GROUPS
from ctl.sim.loadshare.simulation import KNOWN_POLICIES, UNKNOWN_POLICIES, Simulation, group_metrics, metrics
from ctl.sim.params import Model, Value

__all__ = ["KNOWN", "UNKNOWN", "run"]

_EVENTS = 200_000  # between two looks at the request to stop: some tenths of a second


def run(
    policy: str,
    values: Mapping[str, Value],
    seed: int,
    stop: threading.Event | None = None,
    kind: str = "",
    events: int = 0,
) -> dict[str, Any]:
    """Run a replication to its end, or refuse after `events`. Raises KeyboardInterrupt if `stop` is set meanwhile."""
    with Simulation(policy, values, seed, kind=kind) as simulation:
        group = values.get("group", "trace")
        names = GROUPS[str(group)].programs if group in GROUPS else [str(i) for i in range(simulation.jobs)]
        found = group_metrics(simulation, names) if group != "trace" else {}
        to_the_end(simulation, stop, _EVENTS, events)
        return metrics(simulation.stats()) | found


KNOWN = Model(
    "loadshare",
    "LoadShare §2: load sharing among 32 nodes, memory demands known",
    tuple(KNOWN_POLICIES),
    params.KNOWN,
    run,
    "loadshare",
)

UNKNOWN = Model(
    "loadshare-unknown",
    "LoadShare §3: load sharing among 32 nodes, memory demands unknown, jobs migrate",
    tuple(UNKNOWN_POLICIES),
    params.UNKNOWN,
    run,
    "loadshare",
    params.check_unknown,
)
