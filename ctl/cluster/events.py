# SPDX-License-Identifier: GPL-2.0-or-later
"""The words cooperating nodes use: the events, the lease of a word, the order of jobs.

The papers' four events say what *changed* (CCS §4.3). Each event here also says how things *are* on the node that sends
it: a local user is present, the job is stopped. So an event that was lost, doubled or overtaken does no harm, the next
one from that node says all there is to know (B-CCS-12, B-CCS-13).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["LEASE", "MAX_LEASE", "Event", "Kind", "jid_order"]

LEASE = 9.0  # seconds that what a node says holds, unless it says it again: it does so three times in this time
MAX_LEASE = 60.0  # seconds; a longer one is cut: no other node may keep a job stopped for longer by one word


class Kind(StrEnum):
    """What changed on the sending node (CCS §4.3)."""

    LOCAL_U = "LOCAL_U"
    NO_LOCAL = "NO_LOCAL"
    STOP = "STOP"
    RESUME = "RESUME"


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


def jid_order(jid: str) -> tuple[bool, int, str]:
    """Sort key of "the lowest JID" (CCS §4.3): numbers by value, before names.

    >>> sorted(["b", "10", "9", "a"], key=jid_order)
    ['9', '10', 'a', 'b']
    """
    number = jid.isascii() and jid.isdigit()
    return (not number, int(jid) if number else 0, jid)
