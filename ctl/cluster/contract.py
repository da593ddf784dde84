# SPDX-License-Identifier: GPL-2.0-or-later
"""The words cooperating nodes use: events, what a job's state is, and what a node is told to do about it.

The papers' four events say what *changed* (CCS §4.3). Each event here also says how things *are* on the node that sends
it: a local user is present, the job is stopped. So an event that was lost, doubled or overtaken does no harm, the next
one from that node says all there is to know (B-CCS-12, B-CCS-13).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

__all__ = ["LEASE", "MAX_LEASE", "Decision", "Event", "Kind", "Node", "Sizes", "State", "jid_order"]

LEASE = 9.0  # seconds that what a node says holds, unless it says it again: it does so three times in this time
MAX_LEASE = 60.0  # seconds; a longer one is cut: no other node may keep a job stopped for longer by one word


class Kind(StrEnum):
    """What changed on the sending node (CCS §4.3)."""

    LOCAL_U = "LOCAL_U"
    NO_LOCAL = "NO_LOCAL"
    STOP = "STOP"
    RESUME = "RESUME"


class State(StrEnum):
    """What a job is to be on this node: the papers' NULL, LOCAL and STOP (CCS §3.2)."""

    FREE = "free"
    SLOWED = "slowed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Event:
    """What one node says of one job."""

    node: str
    incarnation: int  # grows with each start of the node's agent
    seq: int  # grows with each event of an incarnation
    jid: str
    kind: Kind  # what changed last
    local: bool  # a local user is present on the node
    stop: bool  # the node has stopped the job
    lease: float  # seconds
    why: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What this node is to do with a job, and why; `by` are the nodes whose doing it is."""

    jid: str
    state: State
    by: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What Set_Quantum and Set_Memory need to know of the other nodes (CCS eq. 1 and 5)."""

    nodes: int
    speed_max: float  # in the unit nodes measure theirs in
    memory_min: int  # bytes: M_Paral = memory_min * L


class Node(Protocol):
    """The node's side of the relay: what the agent does when it is told.

    The other direction are the methods of `ctl.cluster.relay.Relay`: hold, release, local_user, stops, describe.
    All calls come from the event loop's thread, and none may block.
    """

    def apply(self, decision: Decision) -> None:
        """Slow a job down, freeze it, or let it run; called when a decision differs from the one before."""

    def sizes(self, sizes: Sizes) -> None:
        """The fastest node's speed or the smallest node's memory is another now."""

    def tell(self, kind: str, text: str, **details: object) -> None:
        """Something happened that people should know."""


def jid_order(jid: str) -> tuple[bool, int, str]:
    """Sort key of "the lowest JID" (CCS §4.3): numbers by value, before names.

    >>> sorted(["b", "10", "9", "a"], key=jid_order)
    ['9', '10', 'a', 'b']
    """
    number = jid.isascii() and jid.isdigit()
    return (not number, int(jid) if number else 0, jid)
