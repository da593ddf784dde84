# SPDX-License-Identifier: GPL-2.0-or-later
"""The holders of this node's jobs and the jobs' users, by the nodes' own records. Only holders may speak of a job.

The store sends a record when a node writes it. If a node speaks before its record has come, its message waits while the
record is read. The copies of the store may be a moment behind each other, so the record is read more than once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ctl.cluster import wire
from ctl.cluster.directory import KEEP, Hold
from ctl.cluster.events import Event
from ctl.cluster.link import Link, LinkError
from ctl.cluster.machine import Machine
from ctl.cluster.wire import HOLDS, Drop, Drops

__all__ = ["Holders"]

_READ_AFTER = (0.0, 0.1, 0.3, 0.6, 1.0, 2.0)  # seconds: together longer than a node waits to write a record again
_WAITING = 16  # events of one node for one job that wait; only the newest matters
_ALL_WAITING = 10_000


class Holders:
    """The records, this node's own jobs included."""

    def __init__(
        self, machine: Machine, drops: Drops, changed: Callable[[], None], wall: Callable[[], float]
    ) -> None:
        """`changed` is called when the machine was told something."""
        self.own: dict[str, str] = {}  # jobs held here, and whose they are
        self._machine = machine
        self._drops = drops
        self._changed = changed
        self._wall = wall
        self._records: dict[str, dict[str, tuple[Hold, float]]] = {}  # JID -> node -> record, until when
        self._waiting: dict[tuple[str, str], list[Event]] = {}

    def record(self, jid: str) -> Hold:
        """The record of a job that this node holds."""
        return Hold(self._machine.node, self._machine.incarnation, self.own.get(jid, "unknown"))

    def of(self, jid: str) -> list[Hold]:
        """The other nodes that hold a job."""
        return [hold for hold, _ in self._records.get(jid, {}).values()]

    def release(self, jid: str) -> None:
        """This node has let a job go."""
        self.own.pop(jid, None)
        self._records.pop(jid, None)

    def expire(self, now: float) -> None:
        """Forget records that were not renewed."""
        self._records = {jid: records for jid, records in self._records.items() if records}
        for records in self._records.values():
            for node in [node for node, (_, until) in records.items() if until <= now]:
                del records[node]

    # records

    def heard(self, subject: str, data: bytes) -> None:
        """Handle a new record of a job, or the record's end."""
        sender = subject.rpartition(".")[2][:63]
        try:
            jid, verb, node = wire.jid_and_node(subject)
            if verb == "hold":
                self._put(jid, node, data)
        except Drop as drop:
            self._drops.count(drop, sender)

    async def read_all(self, link: Link, jid: str) -> None:
        """Read the holders of any job. Raises LinkError."""
        if jid not in self.own:
            self._records.pop(jid, None)  # we have not heard since whether they still do
        for subject, data in (await link.values(HOLDS, wire.job_subjects(jid)[1])).items():
            self.heard(subject, data)

    def _put(self, jid: str, node: str, data: bytes) -> None:
        """Take a record in. Raises Drop, also for a job of another user's."""
        if node == self._machine.node:
            return
        records = self._records.setdefault(jid, {})
        if not data:
            if records.pop(node, None) is not None:
                self._machine.gone(node, jid, time.monotonic())
                self._changed()
            return
        hold = Hold.decode(data, node, self._wall())
        records[node] = (hold, time.monotonic() + KEEP)
        if jid in self.own:
            self._check_user(jid, hold)

    def _check_user(self, jid: str, hold: Hold) -> None:
        """Raise Drop if the job is another user's there."""
        if hold.user != self.own[jid]:
            self._machine.gone(hold.node, jid, time.monotonic())
            self._changed()
            raise Drop(
                "foreign-user",
                f"job {jid} belongs to user {hold.user} there and to {self.own[jid]} here: two jobs, end one of "
                "them and start it under another JID",
            )

    # words

    def may_speak(self, event: Event) -> bool:
        """Is it known that the node holds the job? Raises Drop if it holds it for another user.

        False: no record yet, or earlier messages of the node wait for its record. A node's messages are handled in
        their order.
        """
        if event.node == self._machine.node or event.jid not in self.own:
            return True  # the machine handles these
        return (event.jid, event.node) not in self._waiting and self._known(event)

    def _known(self, event: Event) -> bool:
        """Whether the node may say this, as far as records tell. Raises Drop."""
        if not (event.local or event.stop):
            return True  # a leaving node takes back its own messages after its record is gone
        hold, _ = self._records.get(event.jid, {}).get(event.node, (None, 0.0))
        if hold is None:
            return False
        self._check_user(event.jid, hold)
        return True

    def wait(self, event: Event) -> bool:
        """Keep an event until the record is read. True if reading has to begin. Raises Drop if too many wait."""
        key = (event.jid, event.node)
        first = key not in self._waiting
        if first and len(self._waiting) >= _ALL_WAITING:
            raise Drop("flood", "too many nodes speak that hold nothing")
        waiting = self._waiting.setdefault(key, [])
        waiting.append(event)
        del waiting[:-_WAITING]
        return first

    async def verify(self, link: Link, jid: str, node: str) -> list[Event]:
        """Handle a node's message once its record is there. Raises Drop if no record comes."""
        try:
            for pause in _READ_AFTER:
                await asyncio.sleep(pause)
                if jid not in self.own:
                    return []
                if node not in self._records.get(jid, {}):
                    try:
                        self._put(jid, node, await link.get(HOLDS, wire.hold_subject(jid, node)))
                    except LinkError:
                        continue
                if node in self._records.get(jid, {}):
                    return [event for event in self._waiting[jid, node] if self._known(event)]
            raise Drop("no-holder", f"the node speaks of job {jid} without holding it")
        finally:
            self._waiting.pop((jid, node), None)
