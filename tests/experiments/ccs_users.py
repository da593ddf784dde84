# SPDX-License-Identifier: GPL-2.0-or-later
"""The local users of a run of ccs_guest.py: they come and go, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tests.experiments import ccs_plan as plan
from tests.experiments.ccs_plan import Workload

if TYPE_CHECKING:
    from tests.experiments.ccs_guest import Node

__all__ = ["Users", "arguments"]


class Users:
    """The local users of a run: so many at a time, one on a node; who comes next comes to the next node without one."""

    def __init__(self, nodes: Sequence[Node], workload: Workload, seed: int, loops_per_ms: int) -> None:
        self._nodes, self._workload, self._loops = nodes, workload, loops_per_ms
        self._coming = plan.sessions(workload, seed)
        self._present: dict[str, str] = {}  # node -> profile
        self.gone: list[dict[str, Any]] = []

    def begin(self) -> None:
        """The first come."""
        for node in self._nodes[: self._workload.locals]:
            self._come(node)

    def _come(self, node: Node) -> None:
        session = next(self._coming)
        self._present[node.name] = session.profile
        room = self._workload.rooms[self._nodes.index(node)]
        other = self._after(node)[0].name
        node.call("start_local", argv=arguments(session, room, self._loops, other))

    def _after(self, node: Node) -> list[Node]:
        """The nodes from the next one on, this one the last."""
        at = self._nodes.index(node) + 1
        return [*self._nodes[at:], *self._nodes[:at]]

    def look(self) -> None:
        """Note users who have gone, and let others come."""
        for node in self._nodes:
            while node.events:
                said = node.events.pop(0)["said"]
                if said is None:
                    raise SystemExit(f"a local user on {node.name} failed")
                self.gone.append({"node": node.name, "profile": self._present.pop(node.name), **said})
                self._come(next(each for each in self._after(node) if each.name not in self._present))

    def end(self) -> list[dict[str, Any]]:
        """End all users; returns their measurements, with latencies."""
        for node in self._nodes:
            if node.name in self._present and node.call("stop_local"):
                while not node.events:
                    node.read()
            for event in node.events:
                self.gone.append({"node": node.name, "profile": self._present.get(node.name), **event["said"]})
            node.events.clear()
        return self.gone


def arguments(session: plan.Session, room: float, loops_per_ms: int, other: str) -> list[str]:
    """The command line of local_user for a stay on a node with this part of NEEDS_MB."""
    profile = plan.PROFILES[session.profile]
    kb = int(profile.memory * room * plan.NEEDS_MB * 1024)
    cycle_s = plan.PERIOD_MS / 1000
    numbers = (
        int(plan.PERIOD_MS * (1 - profile.cpu)),
        int(plan.PERIOD_MS * profile.cpu * loops_per_ms),
        kb,
        int(kb / 4 * cycle_s / plan.PASS_S),
        max(1, round(session.seconds / cycle_s)),
        other,
        max(8, int(profile.sent * cycle_s)),
        int(profile.received * cycle_s),
    )
    return [str(number) for number in numbers]
