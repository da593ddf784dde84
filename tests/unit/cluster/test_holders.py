# SPDX-License-Identifier: GPL-2.0-or-later
"""The right to speak of a job: a message before its sender's record is read waits, and later messages do not overtake
it."""

from __future__ import annotations

import asyncio
import time

from ctl.cluster.directory import Hold
from ctl.cluster.events import Event, Kind
from ctl.cluster.holders import Holders
from ctl.cluster.link import Link
from ctl.cluster.machine import Machine
from ctl.cluster.wire import Drops


class _Store(Link):
    """Has the record of node2, and nothing else of a broker."""

    def __init__(self) -> None:
        pass

    async def get(self, bucket: str, key: str) -> bytes:
        return Hold("node2", 1, "alice").encode(time.time())


def _event(seq: int, kind: Kind) -> Event:
    return Event("node2", 1, seq, "7", kind, kind is Kind.LOCAL_U, False, 9.0, "")


def _holders() -> Holders:
    """Node1's, which holds job 7 of alice's."""
    holders = Holders(Machine("node1", 1), Drops(lambda _text: None), lambda: None, time.time)
    holders.own["7"] = "alice"
    return holders


def test_words_of_a_node_are_heard_in_their_order() -> None:
    """A user who goes before the node's record is read: both events are handled."""
    holders = _holders()
    came, went, again = _event(1, Kind.LOCAL_U), _event(2, Kind.NO_LOCAL), _event(3, Kind.LOCAL_U)
    assert not holders.may_speak(came)
    assert holders.wait(came), "the record is to be read"
    assert not holders.may_speak(went)
    assert not holders.wait(went), "it is being read"
    assert asyncio.run(holders.verify(_Store(), "7", "node2")) == [came, went]
    assert holders.may_speak(again)


def test_a_node_takes_back_its_words_without_a_record() -> None:
    """A leaving node takes back its messages after its record is gone."""
    assert _holders().may_speak(_event(1, Kind.NO_LOCAL))
