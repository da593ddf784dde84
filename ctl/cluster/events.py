# SPDX-License-Identifier: GPL-2.0-or-later
"""The vocabulary of cooperating nodes: the events, their lease, the order of jobs.

The papers' four events report *changes* (CCS §4.3). Each event here also has the *state* of the sending node: whether a
local user is present, and whether the job is stopped. So a lost, doubled or overtaken event does no harm: the next
event of the same node has the full state (B-CCS-12, B-CCS-13).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["LEASE", "MAX_LEASE", "Event", "Kind", "jid_order"]

LEASE = 9.0  # seconds that an event holds, unless its sender repeats it: this happens three times in the lease
MAX_LEASE = 60.0  # seconds; a longer lease is cut, so that a single event cannot stop a job for longer


class Kind(StrEnum):
    """The change on the sending node (CCS §4.3)."""

    LOCAL_U = "LOCAL_U"
    NO_LOCAL = "NO_LOCAL"
    STOP = "STOP"
    RESUME = "RESUME"


@dataclass(frozen=True, slots=True)
class Event:
    """A node's message about a job."""

    node: str
    incarnation: int  # grows with each start of the node's agent
    seq: int  # grows with each event of an incarnation
    jid: str
    kind: Kind  # what changed last
    local: bool  # a local user is present on the node
    stop: bool  # the node has stopped the job
    lease: float  # seconds
    why: str = ""


def jid_order(jid: str) -> tuple[bool, int, str]:
    """Sort key of "the lowest JID" (CCS §4.3): numbers by value, before names.

    >>> sorted(["b", "10", "9", "a"], key=jid_order)
    ['9', '10', 'a', 'b']
    """
    number = jid.isascii() and jid.isdigit()
    return (not number, int(jid) if number else 0, jid)
