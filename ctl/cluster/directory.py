# SPDX-License-Identifier: GPL-2.0-or-later
"""The records in the key-value store: the nodes' sizes, and the holders of jobs.

Each node writes its own records and renews them; a record that is not renewed expires. Records from the store are
checked like all input from outside: a wrong record is dropped, and changes nothing.
"""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import dataclass
from typing import Any

from ctl.cluster.wire import (
    MAX_MESSAGE,
    Drop,
    check_integer,
    check_name,
    check_number,
    check_time,
    decode_object,
    encode,
)
from ctl.contract import Sizes
from ctl.errors import brief

__all__ = ["FACTOR", "KEEP", "Directory", "Hold", "Size", "check_user", "envelope"]

FACTOR = 8  # of speed and of memory that a node is believed, beside the middle one; nodes of CCS T. 1 differ by 2
KEEP = 300.0  # seconds that the store keeps a record; nodes renew theirs three times in this time
_USER = re.compile(r"[A-Za-z0-9_.@$-]{1,64}", re.ASCII)


def envelope(
    data: bytes, node: str, now: float, names: set[str], age: float = KEEP, most: int = MAX_MESSAGE
) -> dict[str, Any]:
    """The fields of a node's record, which are these names and the sender's. Raises Drop.

    `now`: Unix time; `age`: seconds since it was written; `most`: bytes.
    """
    if not check_name(node):
        raise Drop("malformed", f"{brief(node)} is no node's name")
    fields = decode_object(data, most)
    if set(fields) != names | {"v", "node", "incarnation", "time"}:
        raise Drop("malformed", f"fields {brief(sorted(fields))} are not those of such a record")
    if fields["node"] != node:
        raise Drop("forged", f"a record of {node} that speaks for {brief(fields['node'])}")
    check_integer(fields, "incarnation")
    check_time(fields, now, age)
    return fields


def check_user(name: object) -> str:
    """A user's name. Raises Drop."""
    if not isinstance(name, str) or not _USER.fullmatch(name):
        raise Drop("malformed", f"user {brief(name)} is no user's name")
    return name


@dataclass(frozen=True, slots=True)
class Hold:
    """A node holds a job, which is a user's."""

    node: str
    incarnation: int
    user: str

    def encode(self, time: float) -> bytes:
        """The record as it is stored at this Unix time."""
        return encode({"node": self.node, "incarnation": self.incarnation, "user": self.user, "time": round(time, 3)})

    @classmethod
    def decode(cls, data: bytes, node: str, now: float) -> Hold:
        """The record under a node's key. Raises Drop."""
        fields = envelope(data, node, now, {"user"})
        return cls(node, fields["incarnation"], check_user(fields["user"]))


@dataclass(frozen=True, slots=True)
class Size:
    """A node's speed, memory and L."""

    node: str
    incarnation: int
    speed: float  # in the unit the cluster's nodes measure in; only ratios count
    memory: int  # bytes
    share_l: float

    def encode(self, time: float) -> bytes:
        """The record as it is stored at this Unix time."""
        return encode({name: getattr(self, name) for name in self.__dataclass_fields__} | {"time": round(time, 3)})

    @classmethod
    def decode(cls, data: bytes, node: str, now: float) -> Size:
        """The record under a node's key. Raises Drop."""
        fields = envelope(data, node, now, {"speed", "memory", "share_l"})
        speed = check_number(fields, "speed", 0, 1e12)
        memory = check_integer(fields, "memory")
        if speed <= 0 or memory < 1 << 20:
            raise Drop("malformed", f"speed {speed:g} or memory of {memory} bytes are none that a node can have")
        return cls(node, fields["incarnation"], speed, memory, check_number(fields, "share_l", 0, 1))


def _bounds(own: Size, others: list[Size]) -> tuple[float, int]:
    """The highest speed and the smallest memory that are believed; a node believes itself."""
    speed = statistics.median_low([own.speed, *(size.speed for size in others)])
    memory = statistics.median_high([own.memory, *(size.memory for size in others)])
    return max(own.speed, FACTOR * speed), min(own.memory, memory // FACTOR)


class Directory:
    """The nodes known now, and until when."""

    def __init__(self) -> None:
        self.sizes: dict[str, Size] = {}
        self._until: dict[str, float] = {}

    def put(self, size: Size, now: float) -> None:
        """A node told its size; an older incarnation's word is worth nothing."""
        known = self.sizes.get(size.node)
        if known is None or size.incarnation >= known.incarnation:
            self.sizes[size.node] = size
            self._until[size.node] = now + KEEP

    def remove(self, node: str) -> None:
        """A node has left."""
        self.sizes.pop(node, None)
        self._until.pop(node, None)

    def expire(self, now: float) -> None:
        """Remove nodes not heard of for KEEP seconds."""
        for node in [node for node, until in self._until.items() if until <= now]:
            self.remove(node)

    def total(self, own: Size) -> Sizes:
        """The sizes of the cluster, this node included.

        All quanta are stretched for the fastest node (CCS eq. 1), and all pools are as small as the smallest node's
        (eq. 5). So that one member cannot do that to all by a word, another node counts as at most FACTOR times as
        fast, and at least as a FACTOR-th as large, as the middle one; of two middle ones, as the slower and the larger.
        The papers trust all nodes (a reading of ours, without an id).
        """
        others = self._others(own)
        fastest, smallest = _bounds(own, others)
        speed = max([own.speed, *(min(fastest, size.speed) for size in others)])
        memory = min([own.memory, *(max(smallest, size.memory) for size in others)])
        return Sizes(1 + len(others), speed, memory)

    def beyond(self, own: Size) -> list[str]:
        """The nodes that say they are faster, or smaller, than total() believes."""
        others = self._others(own)
        fastest, smallest = _bounds(own, others)
        return sorted(size.node for size in others if size.speed > fastest or size.memory < smallest)

    def _others(self, own: Size) -> list[Size]:
        return [size for node, size in self.sizes.items() if node != own.node]

    def differing_share(self, own: Size) -> list[str]:
        """The nodes whose L is another than ours: CCS wants it the same everywhere."""
        return sorted(node for node, size in self.sizes.items() if not math.isclose(size.share_l, own.share_l))
