# SPDX-License-Identifier: GPL-2.0-or-later
"""Stands for the broker, its key-value store and the connections to it, in virtual time (virtual_time.py).

As the real ones do, a connection keeps the order of its messages, and messages of different connections overtake each
other. What is on its way when a connection ends is lost. A node hears at once of a broker that dies, and within 3.5 s
of one that is silent. The store takes a record and its answer may be lost; it may refuse while it has no leader,
although its subscribers have heard the record; what is read may be a moment old. A receiver that is too slow loses
single messages. The broker keeps its store when it comes back, or is empty.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from ctl.cluster.link import Handler, LinkError, Member
from ctl.cluster.wire import stream_subjects
from tests.unit.together.virtual_time import Loop, Process, current

__all__ = ["Broker", "Connection"]

_ANSWER: Final = 2.0  # seconds that a node waits for an answer
_SILENT: Final = 3.5  # seconds after which a node notices that the broker is silent
_STALE: Final = 0.3  # seconds that copies of the store are behind each other


@dataclass
class Broker:
    """The broker. `cut` are the nodes that it cannot reach."""

    loop: Loop
    draw: random.Random
    up: bool = True
    stores: bool = True  # the store has a leader
    loss: float = 0.0  # the part of the messages that receivers lose
    slow: float = 0.02  # seconds: the longest way of a message
    revision: int = 0
    cut: set[str] = field(default_factory=set)
    store: dict[str, list[tuple[float, bytes]]] = field(default_factory=dict)  # key -> (when, value), the newest last
    connections: list[Connection] = field(default_factory=list)

    def reaches(self, node: str) -> bool:
        """Whether a node can connect."""
        return self.up and node not in self.cut

    def die(self, keep: bool) -> None:
        """It is killed; `keep`: its store is on disk when it comes back."""
        self.up = False
        for connection in list(self.connections):
            connection.end(0.01)
        if not keep:
            self.store.clear()
            self.revision = 0

    def cut_off(self, node: str) -> None:
        """The network between a node and the broker carries nothing any more."""
        self.cut.add(node)
        for connection in self.of(node):
            connection.end(self.draw.uniform(0.1, _SILENT))

    def of(self, node: str) -> list[Connection]:
        """A node's connections."""
        return [one for one in self.connections if one.node == node]

    def delay(self) -> float:
        """The way of a message from here, or to here."""
        return self.draw.uniform(0.0005, self.slow / 2)

    def publish(self, sender: Connection, subject: str, data: bytes) -> None:
        """Pass a message on to all others that listen."""
        words = subject.split(".")
        for one in self.connections:
            if one is not sender and self.draw.random() >= self.loss:
                for handler in [handler for pattern, handler in one.listening.values() if _matches(pattern, words)]:
                    one.deliver(handler, subject, data)

    def put(self, sender: Connection, subject: str, data: bytes) -> int:
        """Store a record; its revision."""
        self.publish(sender, subject, data)
        if not self.stores:
            raise LinkError(f"the broker did not store {subject}")
        self.revision += 1
        self.store.setdefault(subject, []).append((self.loop.now, data))
        del self.store[subject][:-2]
        return self.revision

    def get(self, subject: str) -> bytes:
        """A record, as some copy of the store has it."""
        if not self.stores:
            raise LinkError(f"the broker does not read {subject}")
        seen = self.loop.now - self.draw.uniform(0, _STALE)
        return next((data for when, data in reversed(self.store.get(subject, ())) if when <= seen), b"")


class Connection:
    """Stands for ctl.cluster.link.Link, whose methods it has."""

    server = "broker:4222"

    def __init__(self, member: Member, overrun: Callable[[], None]) -> None:
        process = current.get()
        assert process is not None
        self.process: Process = process
        self.node = member.name
        self.lost = asyncio.Event()
        self.listening: dict[int, tuple[list[str], Handler]] = {}
        self._broker: Broker = process.owner.broker  # type: ignore[attr-defined]
        self._loop, self._numbers = process.loop, itertools.count()
        self._there = self._here = 0.0  # when the last message in each direction arrives

    async def connect(self, servers: Iterable[str]) -> None:
        await asyncio.sleep(self._broker.delay())
        if not self._broker.reaches(self.node):
            await asyncio.sleep(_ANSWER if self._broker.up else 0.0)
            raise LinkError("no broker takes this node")
        self._broker.connections.append(self)

    def end(self, after: float) -> None:
        """The connection carries nothing any more, and the node notices after so many seconds."""
        if self in self._broker.connections:
            self._broker.connections.remove(self)
        self._loop.call_later(after, self.lost.set, context=self.process.context.copy())

    async def close(self) -> None:
        self.end(0.0)
        self.lost.set()

    def discovered(self) -> tuple[str, ...]:
        return ()

    async def subscribe(self, subject: str, handler: Handler) -> int:
        key = next(self._numbers)
        await self._ask(lambda: self.listening.__setitem__(key, (subject.split("."), handler)))
        return key

    async def unsubscribe(self, subscription: int) -> None:
        self._send(lambda: self.listening.__setitem__(subscription, ([], lambda _subject, _data: None)))

    async def publish(self, subject: str, data: bytes) -> None:
        if self.lost.is_set():
            raise LinkError("the connection has ended")
        self._send(lambda: self._broker.publish(self, subject, data))

    async def flush(self) -> None:
        await self._ask(lambda: None)

    async def put(self, subject: str, data: bytes) -> int:
        return int(await self._ask(lambda: self._broker.put(self, subject, data)))

    async def get(self, bucket: str, subject: str) -> bytes:
        return bytes(await self._ask(lambda: self._broker.get(subject)))

    async def values(self, bucket: str, pattern: str = "") -> dict[str, bytes]:
        words = (pattern or stream_subjects(bucket)).split(".")
        keys = await self._ask(lambda: [key for key in self._broker.store if _matches(words, key.split("."))])
        found = {key: await self.get(bucket, key) for key in keys}
        return {key: data for key, data in found.items() if data}

    def deliver(self, handler: Callable[..., object], *args: object) -> None:
        """From the broker to the node, in order."""
        self._here = max(self._here, self._loop.now + self._broker.delay())
        self._loop.call_at(self._here, self._arrive, handler, args, context=self.process.context.copy())

    def _arrive(self, handler: Callable[..., object], args: tuple[object, ...]) -> None:
        if self in self._broker.connections:
            handler(*args)

    def _send(self, what: Callable[[], object]) -> None:
        """From the node to the broker, in order. It is done there, if the connection still is."""

        def arrive() -> None:
            if self in self._broker.connections:
                what()

        self._there = max(self._there, self._loop.now + self._broker.delay())
        self._loop.call_at(self._there, arrive, context=contextvars.Context())  # of no process

    async def _ask(self, what: Callable[[], Any]) -> Any:
        """Have it done at the broker, and wait for the answer. Raises LinkError."""
        if self.lost.is_set():
            raise LinkError("the connection has ended")
        answer = self._loop.create_future()

        def done() -> None:
            try:
                result = what()
            except LinkError as error:
                self.deliver(_fail, answer, error)
            else:
                self.deliver(_answer, answer, result)

        self._send(done)
        try:
            async with asyncio.timeout(_ANSWER):
                return await answer
        except TimeoutError:
            raise LinkError("the broker does not answer") from None


def _answer(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: LinkError) -> None:
    if not future.done():
        future.set_exception(error)


def _matches(pattern: list[str], words: list[str]) -> bool:
    """Whether a subject is one of a pattern's."""
    if pattern[-1:] == [">"]:
        return pattern[:-1] == words[: len(pattern) - 1]
    return len(pattern) == len(words) and all(one in ("*", word) for one, word in zip(pattern, words, strict=True))
