# SPDX-License-Identifier: GPL-2.0-or-later
"""A part of the nodes of load.py, in a process of its own. Orders and reports go through a pipe:

    connected ──►   ◄── drive   (sent, arrived) ──►   ◄── count   (sent, arrived) ──►   ◄── end   Report ──►
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import time
from collections import Counter
from collections.abc import MutableSequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from ctl.cluster.link import Member
from ctl.cluster.relay import Relay
from ctl.contract import Decision, Sizes
from tests.cluster.local import NoQueue

__all__ = ["LEASE", "Events", "Load", "Node", "Part", "Report", "quiet", "serve"]

PRESENT = 2.0  # seconds that a local user stays
LEASE = 9.0

Events = Counter[tuple[str, str, str]]  # node, kind, job


@dataclass(frozen=True)
class Part:
    """Nodes by name, each with its jobs, and the load: events a second, for seconds."""

    nodes: tuple[tuple[Member, tuple[str, ...]], ...]
    rate: float
    seconds: float


@dataclass(frozen=True)
class Report:
    """The events of these nodes, the events heard from others with times, the drops, and the CPU time."""

    sent: Events
    arrived: Events
    delays: list[float]  # seconds
    drops: Counter[str]
    cpu: float  # of one CPU, mean


class Load:
    """Caused and arrived events. `caused`: when, for each node's last going and last coming of a user."""

    def __init__(self, caused: MutableSequence[float] | None = None) -> None:
        self.caused: MutableSequence[float] = [] if caused is None else caused
        self.sent: Events = Counter()
        self.arrived: Events = Counter()
        self.delays: list[float] = []
        self.running = False

    @staticmethod
    def place(node: str, kind: str) -> int:
        """In `caused`, of "load7" the eighth."""
        return 2 * int(node.removeprefix("load")) + (kind == "LOCAL_U")


class Node(NoQueue):
    """A node of the thousand."""

    def __init__(self, load: Load, member: Member, jobs: tuple[str, ...] = ()) -> None:
        self._load = load
        self._name = member.name
        self.jobs = jobs
        self.relay = Relay(self, member, 1, LEASE)
        for jid in jobs:
            self.relay.hold(jid, "alice")
        self.task: asyncio.Task[None] | None = None

    def apply(self, decision: Decision) -> None:
        """Nothing is frozen here."""

    def sizes(self, sizes: Sizes) -> None:
        """Nor any pool set."""

    def tell(self, kind: str, text: str, **details: Any) -> None:
        """An event that came, if it is another node's."""
        load = self._load
        if kind == "event" and details["node"] != self._name and load.running:
            load.arrived[details["node"], details["event"], details["jid"]] += 1
            load.delays.append(time.monotonic() - load.caused[load.place(details["node"], details["event"])])

    def user(self, present: bool) -> None:
        """A local user comes or goes: an event for each job."""
        kind = "LOCAL_U" if present else "NO_LOCAL"
        self._load.caused[self._load.place(self._name, kind)] = time.monotonic()
        self._load.sent.update((self._name, kind, jid) for jid in self.jobs)
        self.relay.local_user("keyboard" if present else "")


async def _connect(nodes: list[Node]) -> None:
    """Some at a time."""
    for number, node in enumerate(nodes):
        node.task = asyncio.create_task(node.relay.run())
        if number % 10 == 9:
            await asyncio.sleep(0.25)
    for node in nodes:
        while not node.relay.connected_to:
            await asyncio.sleep(0.1)


async def _drive(nodes: list[Node], rate: float, seconds: float) -> None:
    """Let users come and go, at an even pace; at the end they only leave."""
    idle = list(nodes)
    random.shuffle(idle)
    began, sent = time.monotonic(), 0.0
    leaving: list[tuple[float, Node]] = []
    while (now := time.monotonic()) - began < seconds + PRESENT / 2:
        while leaving and leaving[0][0] <= now:
            node = leaving.pop(0)[1]
            node.user(False)
            sent += len(node.jobs)
            idle.insert(random.randrange(len(idle) // 2 + 1), node)
        while sent < (now - began) * rate and now - began < seconds - PRESENT / 2:
            node = idle.pop()
            node.user(True)
            sent += len(node.jobs)
            leaving.append((now + PRESENT, node))
        await asyncio.sleep(0.002)
    for _, node in leaving:
        node.user(False)


async def _serve(part: Part, pipe: Connection, caused: MutableSequence[float]) -> None:
    load = Load(caused)
    nodes = [Node(load, member, jobs) for member, jobs in part.nodes]
    await _connect(nodes)
    pipe.send("connected")
    await asyncio.to_thread(pipe.recv)
    gc.collect()
    gc.freeze()
    load.running = True
    began, used = time.monotonic(), time.process_time()
    await _drive(nodes, part.rate, part.seconds)
    while True:
        pipe.send((load.sent.total(), load.arrived.total()))
        if await asyncio.to_thread(pipe.recv) == "end":
            break
    cpu = (time.process_time() - used) / (time.monotonic() - began)
    drops: Counter[str] = Counter()
    for node in nodes:
        drops.update(node.relay.drops.counts)
        drops.update({"overruns": node.relay.counts["overruns"]})
    pipe.send(Report(load.sent, load.arrived, load.delays, drops, cpu))
    for node in nodes:
        assert node.task is not None
        node.task.cancel()
    await asyncio.gather(*(node.task for node in nodes if node.task), return_exceptions=True)


def quiet() -> None:
    """Keep asyncio from warning of each TLS connection that ends."""
    logging.getLogger("asyncio").setLevel(logging.ERROR)


def serve(part: Part, pipe: Connection, caused: MutableSequence[float]) -> None:
    """Be these nodes until told to end."""
    quiet()
    asyncio.run(_serve(part, pipe, caused))
