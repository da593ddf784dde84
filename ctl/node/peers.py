# SPDX-License-Identifier: GPL-2.0-or-later
"""The other nodes of a cluster, as this node's agent sees them: what it tells them, and what they tell it.

The agent knows no cluster. Whoever starts it may give it a function that makes `Peers` (ctl/daemon.py does, from
ctl/cluster); without one, or while there are none, the node decides alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Join", "Listener", "Peers"]


class Peers(Protocol):
    """What the agent tells the others: each call returns at once, and works while nobody can be reached."""

    def hold(self, jid: str, user: str) -> None:
        """A job has a task here now, and is this user's."""

    def release(self, jid: str) -> None:
        """The job's last task here has ended."""

    def local_user(self, why: str) -> None:
        """A local user is present, by this sign; an empty string: none is."""

    def stops(self, wants: list[tuple[str, str]]) -> None:
        """The jobs that this node wants stopped, all of them, each with a reason."""

    def describe(self, speed: float, memory: int, share_l: float) -> None:
        """This node's speed, its memory in bytes, and its L."""

    async def check_user(self, jid: str, user: str) -> None:
        """Raise CoschedError (status 2) if a node holds this job for another user."""

    def status(self) -> dict[str, Any]:
        """All that is known, for people."""

    def start(self) -> None:
        """Be in touch from now on."""

    async def end(self) -> None:
        """Tell the others that this node has no more say in anything, and be in touch no longer."""


class Listener(Protocol):
    """What the others tell the agent. From the event loop's thread; no call blocks."""

    def decided(self, jid: str, state: str, why: str, elsewhere: bool) -> None:
        """A job is to be "free", "slowed" or "stopped" here; `elsewhere`: other nodes have part in it."""

    def sizes(self, nodes: int, speed_max: float, memory_min: int) -> None:
        """How many nodes there are, the fastest one's speed, the smallest one's memory in bytes."""

    def tell(self, kind: str, text: str, **details: object) -> None:
        """Something happened that people should know."""


Join = Callable[[Listener], "Peers | None"]
"""Makes the peers of a listener; None: this node is in no cluster. May take a second, and runs in a thread."""
