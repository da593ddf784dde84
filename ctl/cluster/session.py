# SPDX-License-Identifier: GPL-2.0-or-later
"""A session of this node on one connection: it listens for its jobs, writes its records, asks for the others' states.

A session begins and ends with its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from ctl.cluster import wire
from ctl.cluster.directory import KEEP, Size
from ctl.cluster.events import LEASE, Event
from ctl.cluster.facts import arrivals, encode_facts
from ctl.cluster.holders import Holders
from ctl.cluster.link import Handler, Link, LinkError, end
from ctl.cluster.machine import Machine
from ctl.cluster.unwritten import Unwritten
from ctl.cluster.wire import JOBS, NODES
from ctl.contract import NodeFacts

__all__ = ["Ours", "Session"]

_LOOK_AGAIN = 60.0  # seconds between two looks at everything, in case a message was lost on a good connection
_AT_ONCE = 32  # records written at the same time
_RETRY = 0.5  # seconds until a record is written again that the store did not take
_log = logging.getLogger("ctl.cluster")


@dataclass(frozen=True)
class Ours:
    """The interface of the relay, which outlives a session."""

    machine: Machine
    holders: Holders
    size: Callable[[], Size | None]
    heard: Handler  # a message about a job
    heard_size: Handler  # a node's record
    heard_facts: Handler  # a node's record of its jobs
    facts: Callable[[], NodeFacts | None]
    arrived: Callable[[dict[str, int]], None]
    unwritten: Unwritten
    wake: Callable[[], None]  # the machine has something to say
    wall: Callable[[], float]


class Session:
    """A connection in use."""

    def __init__(self, link: Link, ours: Ours) -> None:
        """`link` is connected, or about to be."""
        self.link = link
        self._ours = ours
        self._node = ours.machine.node
        self._subscribed: dict[str, list[Any]] = {}
        self._syncing: set[str] = set()
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()  # our facts have changed

    async def begin(self) -> None:
        """Listen, announce this node, ask for the other nodes. Raises LinkError."""
        await self.link.subscribe(wire.node_subject("*"), self._ours.heard_size)
        await self.link.subscribe(wire.facts_subject("*"), self._ours.heard_facts)
        for jid in self._ours.machine.held():
            await self._subscribe(jid)
        await self._ask()
        self.spawn(self._write_all())
        self.spawn(self._look())
        self.spawn(self._tell_facts())

    async def close(self) -> None:
        """Leave nothing of the connection."""
        await end(*self._tasks)
        await self.link.close()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Work that ends with the connection; a LinkError is the connection's end, or is put right by the next look."""

        async def guarded() -> None:
            with contextlib.suppress(LinkError):
                await work

        task = asyncio.create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _task: work.close())  # it may have been cancelled before it began

    async def send(self, event: Event) -> bool:
        """Send an event; False if the connection has ended."""
        try:
            await self.link.publish(
                wire.event_subject(event.jid, event.node), wire.encode_event(event, self._ours.wall())
            )
        except LinkError:
            return False
        return True

    async def withdraw(self, jids: list[str]) -> None:
        """Delete our records of these jobs, and of ourselves. Raises LinkError."""
        for subject in (
            *(wire.hold_subject(jid, self._node) for jid in jids),
            wire.node_subject(self._node),
            *([wire.facts_subject(self._node)] if self._ours.facts() is not None else []),
        ):
            await self.link.put(subject, b"")

    def sync(self, jid: str) -> None:
        """Make the broker know whether we hold a job."""
        if jid not in self._syncing:
            self._syncing.add(jid)
            self.spawn(self._sync(jid))

    async def write_size(self) -> None:
        """Write our own record, if we know our size."""

        def record() -> bytes:
            size = self._ours.size()
            assert size is not None
            return replace(size, incarnation=self._ours.machine.incarnation).encode(self._ours.wall())

        if self._ours.size() is not None:
            await self._write(wire.node_subject(self._node), record)

    def tell_facts(self) -> None:
        """Our facts have changed."""
        self._news.set()

    # records

    async def _tell_facts(self) -> None:
        """Write our facts when they change, and before their lease ends; one record at a time, so the newest last."""
        written = False
        await self._hear_facts()
        while not self.link.lost.is_set():
            self._news.clear()
            facts, machine = self._ours.facts(), self._ours.machine
            subject = wire.facts_subject(self._node)
            try:
                if facts is not None:
                    record = encode_facts(facts, self._node, machine.incarnation, self._ours.wall())
                    numbers = arrivals(facts, await self._put(subject, record))
                    if numbers:
                        self._ours.arrived(numbers)
                elif written:
                    await self._put(subject, b"")
                written = facts is not None
            except LinkError as error:
                _log.debug("the facts of this node are not written yet: %s", error)
                await asyncio.sleep(_RETRY * random.uniform(0.5, 1.0))
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEASE / 3):
                    await self._news.wait()

    async def _hear_facts(self) -> None:
        """Read every node's facts; the buckets of a broker that came back empty are there a moment later."""
        while not self.link.lost.is_set():
            try:
                for subject, data in (await self.link.values(JOBS)).items():
                    self._ours.heard_facts(subject, data)
                return
            except LinkError:
                await asyncio.sleep(_RETRY * random.uniform(0.5, 1.0))

    async def _write_all(self) -> None:
        """Our records, now and whenever a third of their life is over."""
        await self._remember()
        while True:
            await self._write_once()
            await asyncio.sleep(KEEP / 3 * random.uniform(0.8, 1.0))

    async def _write_once(self) -> None:
        await self.write_size()
        await asyncio.gather(*(self._write_hold(jid) for jid in self._ours.machine.held()))

    async def _put(self, subject: str, data: bytes) -> int:
        """Put a record, and keep in mind whether its bucket takes any. One that takes them again may be a new one,
        without what was written before. Raises LinkError."""
        bucket = wire.bucket_of(subject)
        try:
            revision = await self.link.put(subject, data)
        except LinkError as error:
            if not self.link.lost.is_set():
                self._ours.unwritten.failed(bucket, str(error), time.monotonic())
            raise
        if self._ours.unwritten.written(bucket, time.monotonic()):
            self.spawn(self._write_once())
        return revision

    async def _remember(self) -> None:
        """Read our own record before it is overwritten: if we forgot which incarnation we were, it tells."""
        while not self.link.lost.is_set():
            try:
                data = await self.link.get(NODES, wire.node_subject(self._node))
            except LinkError:
                await asyncio.sleep(_RETRY * random.uniform(0.5, 1.0))
                continue
            self._ours.heard_size(wire.node_subject(self._node), data)
            return

    async def _write(self, subject: str, data: Callable[[], bytes]) -> None:
        """Until it is written; the buckets of a broker that came back empty are there a moment later."""
        while not self.link.lost.is_set():
            try:
                async with self._places:
                    await self._put(subject, data())
                return
            except LinkError as error:
                _log.debug("%s is not written yet: %s", subject, error)
            await asyncio.sleep(_RETRY * random.uniform(0.5, 1.0))

    async def _write_hold(self, jid: str) -> None:
        subject, holders = wire.hold_subject(jid, self._node), self._ours.holders
        await self._write(subject, lambda: holders.record(jid).encode(self._ours.wall()))
        self._ours.machine.asked(jid, time.monotonic())  # now the others can see that this node may speak of the job
        self._ours.wake()

    async def _sync(self, jid: str) -> None:
        """Write the records of a job one at a time, until the broker's record is right: a job may end during its
        announcement."""
        own = self._ours.holders.own
        try:
            while True:
                held = jid in own
                if held:
                    await self._subscribe(jid)
                    await self.link.publish(wire.ask_subject(jid, self._node), b"")
                    await self._write_hold(jid)
                else:
                    for subscription in self._subscribed.pop(jid, []):
                        await self.link.unsubscribe(subscription)
                    await self._write(wire.hold_subject(jid, self._node), lambda: b"")
                if (jid in own) == held:
                    return
        finally:
            self._syncing.discard(jid)

    # listening

    async def _subscribe(self, jid: str) -> None:
        if jid not in self._subscribed:
            subscriptions = self._subscribed[jid] = []
            messages, holders = wire.job_subjects(jid)
            subscriptions.append(await self.link.subscribe(messages, self._ours.heard))
            subscriptions.append(await self.link.subscribe(holders, self._ours.holders.heard))

    async def _ask(self) -> None:
        """Have the others say again how things are with our jobs."""
        await self.link.flush()  # so that we hear them
        for jid in self._ours.machine.held():
            await self.link.publish(wire.ask_subject(jid, self._node), b"")

    async def _look(self) -> None:
        """Read every node's record, now and then; and ask again how things are."""
        while not self.link.lost.is_set():
            try:
                for subject, data in (await self.link.values(NODES)).items():
                    self._ours.heard_size(subject, data)
            except LinkError:
                await asyncio.sleep(_RETRY * random.uniform(0.5, 1.0))
                continue
            await asyncio.sleep(_LOOK_AGAIN * random.uniform(0.8, 1.0))
            await self._ask()
