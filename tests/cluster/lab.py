# SPDX-License-Identifier: GPL-2.0-or-later
"""A cluster on localhost: brokers as child processes, nodes as relays in this one, wires that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

from ctl.cluster.broker import Broker
from ctl.cluster.certificates import LIFE
from ctl.cluster.link import Link, Member
from ctl.cluster.membership import Files, found, invite, join, read_member
from ctl.cluster.relay import Relay
from ctl.contract import Decision, NodeFacts, Sizes, State

__all__ = ["Host", "Lab", "Wire", "free_ports", "lab", "run", "until"]

MIB = 1 << 20


async def until(what: Callable[[], object], within: float, hint: Callable[[], object] = lambda: "") -> float:
    """Wait until it is so; returns how long it took, in seconds. Fails after `within`."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < within, f"not so after {within:g} s {hint()}"
        await asyncio.sleep(0.002)
    return time.monotonic() - began


def run(work: Awaitable[None], within: float = 60.0) -> None:
    """Run a test's coroutine."""

    async def limited() -> None:
        await asyncio.wait_for(work, within)

    asyncio.run(limited())


class Host:
    """A node: its relay, and what an agent would have been told."""

    def __init__(self, member: Member, incarnation: int, lease: float, wall: Callable[[], float]) -> None:
        self.decided: dict[str, Decision] = {}
        self.changes: list[tuple[float, Decision]] = []
        self.told: list[tuple[str, str]] = []
        self.totals: list[Sizes] = []
        self.others: dict[str, NodeFacts] = {}
        self.numbers: dict[str, int] = {}
        self.relay = Relay(self, member, incarnation, lease, wall)
        self.task: asyncio.Task[None] | None = None

    def apply(self, decision: Decision) -> None:
        self.decided[decision.jid] = decision
        self.changes.append((time.monotonic(), decision))

    def sizes(self, sizes: Sizes) -> None:
        self.totals.append(sizes)

    def facts(self, others: Mapping[str, NodeFacts]) -> None:
        self.others = dict(others)

    def arrived(self, arrivals: Mapping[str, int]) -> None:
        self.numbers |= arrivals

    def tell(self, kind: str, text: str, **_details: object) -> None:
        self.told.append((kind, text))

    def state(self, jid: str) -> State | None:
        return self.decided[jid].state if jid in self.decided else None

    def heard(self, word: str) -> list[str]:
        """The reported events that contain a word."""
        return [text for _, text in self.told if word in text]

    def start(self) -> Host:
        self.task = asyncio.create_task(self.relay.run())
        return self

    async def stop(self) -> None:
        """As if killed: no farewell."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


class Wire:
    """A TCP connection's way to a broker; when cut, it loses all bytes silently."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._open = asyncio.Event()
        self._open.set()
        self.address = ""

    async def start(self) -> Wire:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return self

    def cut(self) -> None:
        self._open.clear()

    def mend(self) -> None:
        self._open.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._target.rpartition(":")
        await self._open.wait()
        with contextlib.suppress(OSError):
            there, back = await asyncio.open_connection(host, int(port))
            await asyncio.gather(self._pass(reader, back), self._pass(there, writer), return_exceptions=True)

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                await self._open.wait()
                sink.write(data)
                await sink.drain()
        finally:
            sink.close()


class Lab:
    """The cluster."""

    def __init__(self, directory: Path, brokers: int, lease: float, life: float) -> None:
        self.directory = directory
        self.lease = lease
        self.addresses = [f"127.0.0.1:{port}" for port in free_ports(brokers)]
        self.names = [f"node{i + 1}" for i in range(brokers)]
        self.authority = Files(directory / "node1")
        others = dict(zip(self.names[1:], self.addresses[1:], strict=True))
        found(self.authority, "node1", self.addresses[0], others, life)
        self.members = {"node1": self._member(self.authority)}
        self.brokers: dict[str, tuple[Broker, asyncio.Task[None]]] = {}
        self.ready: dict[str, asyncio.Event] = {}
        self.hosts: list[Host] = []

    @staticmethod
    def _member(files: Files) -> Member:
        member = files.member()
        assert member is not None
        return member

    def member(self, name: str) -> Member:
        """A node's membership, invited when it is first asked for."""
        if name not in self.members:
            self.members[name] = join(Files(self.directory / name), invite(self.authority, name))
        return self.members[name]

    def keeper(self, name: str) -> Member:
        """What the keeper of this node's broker is to the broker."""
        content = Files(self.directory / name).read("broker")
        assert content is not None
        return read_member(content["keeper"])

    async def start_broker(self, name: str) -> None:
        """Start a broker, or start it again; its buckets may need the others."""
        self.member(name)
        content = Files(self.directory / name).read("broker")
        assert content is not None
        kept = self.directory / f"kept-{name}"
        broker, ready = Broker(content, self.directory / f"broker-{name}", kept), asyncio.Event()
        self.brokers[name] = broker, asyncio.create_task(broker.run(ready.set))
        self.ready[name] = ready
        if len(self.addresses) == 1:
            await self.wait_for(ready, name)

    async def restart_broker(self, name: str) -> None:
        """Stop and start a broker; what it keeps beyond a restart of the machine is kept."""
        await self.stop_broker(name)
        await self.start_broker(name)

    async def start_brokers(self) -> None:
        for name in self.names:
            await self.start_broker(name)
        for name, ready in self.ready.items():
            await self.wait_for(ready, name)

    async def wait_for(self, ready: asyncio.Event, name: str) -> None:
        waiting = asyncio.create_task(ready.wait())
        done, _ = await asyncio.wait({waiting, self.brokers[name][1]}, timeout=120, return_when="FIRST_COMPLETED")
        assert waiting in done, self.log(name)

    def log(self, name: str) -> str:
        """The end of a broker's log."""
        path = self.directory / f"broker-{name}" / "server" / "log"
        return path.read_text()[-3000:] if path.exists() else "no log"

    def signal_broker(self, name: str, number: signal.Signals) -> None:
        os.kill(self.brokers[name][0].pid, number)

    async def stop_broker(self, name: str) -> None:
        """Kill a broker and its keeper; the broker does not come back by itself, and its store is lost."""
        broker, task = self.brokers.pop(name)
        with contextlib.suppress(ProcessLookupError):
            if broker.pid:  # it has begun
                os.kill(broker.pid, signal.SIGKILL)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        shutil.rmtree(self.directory / f"broker-{name}", ignore_errors=True)

    def host(
        self, name: str, *, wire: Wire | None = None, incarnation: int = 1, wall: Callable[[], float] = time.time
    ) -> Host:
        """A node that is started."""
        member = self.member(name)
        if wire is not None:
            member = replace(member, servers=(wire.address,))
        host = Host(member, incarnation, self.lease, wall)
        self.hosts.append(host)
        return host.start()

    async def connected(self, *hosts: Host) -> None:
        for host in hosts:
            await until(lambda host=host: host.relay.connected_to, 10, lambda host=host: host.told)  # type: ignore[misc]

    @contextlib.asynccontextmanager
    async def link(self, member: Member) -> AsyncIterator[Link]:
        """A connection with a node's credentials, for messages that no relay would send."""
        link = Link(member, lambda: None)
        await link.connect(member.servers)
        try:
            yield link
        finally:
            await link.close()

    async def close(self) -> None:
        for host in self.hosts:
            await host.stop()
        for name in list(self.brokers):
            await self.stop_broker(name)


@contextlib.asynccontextmanager
async def lab(brokers: int = 1, lease: float = 2.0, life: float = LIFE) -> AsyncIterator[Lab]:
    """A cluster with so many brokers, running; leases are short, so that tests need not wait. `life`: seconds that
    certificates are good for."""
    with tempfile.TemporaryDirectory(prefix="cosched-cluster-") as directory:
        Path(directory).chmod(0o711)  # a broker that root starts is another user
        cluster = Lab(Path(directory), brokers, lease, life)
        try:
            await cluster.start_brokers()
            yield cluster
        finally:
            await cluster.close()


def free_ports(count: int) -> list[int]:
    """Unused ports; the ports 2000 above them, for links between brokers, are unused, too."""
    found: list[int] = []
    for port in range(20000 + os.getpid() % 20000, 63000):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for number in (port, port + 2000):
                probe = stack.enter_context(socket.socket())
                probe.bind(("127.0.0.1", number))
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("no free ports")
