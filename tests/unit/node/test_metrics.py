# SPDX-License-Identifier: GPL-2.0-or-later
"""Scrapes on real sockets: who waits for whom, how often figures are taken, and the port of the knob."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ctl.errors import CoschedError
from ctl.node import metrics
from ctl.node.metrics import Metrics
from ctl.node.server import open_socket

Answer = tuple[str, bytes]
GET = b"GET /metrics HTTP/1.1\r\n\r\n"


class Node:
    """Metrics on a socket, and how often they were asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.taken = 0
        self.threads: set[int] = set()
        self.refuses: Exception | None = None
        self.metrics = Metrics(self.take, self.render)

    def take(self) -> Any:
        self.taken += 1
        if self.refuses:
            raise self.refuses
        return self.taken

    def render(self, measured: Any) -> bytes:
        self.threads.add(threading.get_ident())
        return f"figure {measured}\n".encode() * 1000

    async def get(self, request: bytes = GET, port: int = 0, host: str = "127.0.0.1") -> Answer:
        """The status line and the body of an answer."""
        opened = asyncio.open_connection(host, port) if port else asyncio.open_unix_connection(self.path)
        reader, writer = await opened
        writer.write(request)
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return head.decode().partition("\r\n")[0].removeprefix("HTTP/1.1 "), body


def with_node(tmp_path: Path, work: Callable[[Node], Awaitable[None]]) -> Node:
    """Run `work` beside metrics."""

    async def both() -> Node:
        node = Node(tmp_path / "metrics.sock")
        await node.metrics.start(open_socket(node.path))
        try:
            await asyncio.wait_for(work(node), 20)
        finally:
            await node.metrics.close()
        return node

    return asyncio.run(both())


@contextlib.asynccontextmanager
async def connected(node: Node, data: bytes) -> AsyncIterator[asyncio.StreamReader]:
    """A client that has sent this, and reads nothing."""
    reader, writer = await asyncio.open_unix_connection(node.path, limit=1)
    writer.write(data)
    await asyncio.sleep(0.05)
    try:
        yield reader
    finally:
        writer.close()


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    ("request_", "status", "body"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK", b"figure 1\n" * 1000),
        (b"GET /metrics?name=x HTTP/1.0\r\n\r\n", "200 OK", b"figure 1\n" * 1000),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", "200 OK", b""),
        (b"GET / HTTP/1.1\r\n\r\n", "404 Not Found", b"the only path is /metrics\n"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed", b"only GET is answered\n"),
        (b"hello\r\n\r\n", "404 Not Found", b"the only path is /metrics\n"),
        (b"GET /metrics", "", b""),
        (b"x" * 100_000, "", b""),
    ],
)
def test_requests(tmp_path: Path, request_: bytes, status: str, body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_PATIENCE", 0.5)

    async def work(node: Node) -> None:
        try:
            assert await node.get(request_) == (status, body)
        except ConnectionError:
            assert status == ""

    with_node(tmp_path, work)


def test_nobody_asks_nobody_pays(tmp_path: Path) -> None:
    async def work(node: Node) -> None:
        await asyncio.sleep(0.2)

    assert with_node(tmp_path, work).taken == 0


def test_clients_share_what_is_fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent's work is bounded, however often it is asked; the text is made in another thread."""
    monkeypatch.setattr(metrics, "_FRESH", 0.3)

    async def work(node: Node) -> None:
        await asyncio.gather(*(node.get() for _ in range(10)))
        assert node.taken == 1
        await asyncio.sleep(0.35)
        assert (await node.get())[1].startswith(b"figure 2\n")

    assert threading.get_ident() not in with_node(tmp_path, work).threads


def test_slow_clients_delay_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that sends no request to its end and one that reads no answer; each is left after a while."""
    monkeypatch.setattr(metrics, "_PATIENCE", 1.0)

    async def work(node: Node) -> None:
        node.metrics = Metrics(node.take, lambda _measured: b"x" * (8 << 20))
        node.path = node.path.with_name("other.sock")
        await node.metrics.start(open_socket(node.path))
        async with connected(node, b"GET /met") as half, connected(node, b"GET /metrics HTTP/1.1\r\n\r\n") as silent:
            status, body = await asyncio.wait_for(node.get(), 0.9)
            assert (status, len(body)) == ("200 OK", 8 << 20)
            await asyncio.sleep(1.2)
            with contextlib.suppress(ConnectionError):
                assert await half.read() == b""
            with contextlib.suppress(ConnectionError):
                assert len(await silent.read()) < 8 << 20

    with_node(tmp_path, work)


def test_too_many_clients_are_refused(tmp_path: Path) -> None:
    async def work(node: Node) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(metrics._CLIENTS):
                await stack.enter_async_context(connected(node, b"GET"))
            with contextlib.suppress(ConnectionError):
                assert await node.get() == ("", b"")
        await asyncio.sleep(0.1)
        assert (await node.get())[0] == "200 OK"

    with_node(tmp_path, work)


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (CoschedError("the agent is ending: unloaded"), "503 Service Unavailable", b"the agent is ending"),
        (ModuleNotFoundError("x", name="prometheus_client"), "501 Not Implemented", b"prometheus_client"),
        (KeyError("x"), "500 Internal Server Error", b"see the agent's log"),
    ],
)
def test_failures_are_told(tmp_path: Path, error: Exception, status: str, words: bytes) -> None:
    async def work(node: Node) -> None:
        node.refuses = error
        got, body = await node.get()
        assert got == status and words in body
        node.refuses = None
        assert (await node.get())[0] == "200 OK"

    with_node(tmp_path, work)


def test_the_port_comes_goes_and_moves(tmp_path: Path) -> None:
    async def work(node: Node) -> None:
        one, other = free_port(), free_port()
        await node.metrics.listen(one)
        await node.metrics.listen(one)
        assert (await node.get(port=one))[0] == "200 OK"
        with pytest.raises(ConnectionRefusedError):
            await node.get(port=one, host="127.0.0.2")  # of the addresses of this machine one is served
        words = rf"port {other} of 127\.0\.0\.1 is taken: give metrics_port another"
        with socket.create_server(("127.0.0.1", other)), pytest.raises(CoschedError, match=words):
            await node.metrics.listen(other)
        assert (await node.get(port=one))[0] == "200 OK", "a refused port changes nothing"
        await node.metrics.listen(0)
        with pytest.raises(ConnectionRefusedError):
            await node.get(port=one)
        assert (await node.get())[0] == "200 OK"

    with_node(tmp_path, work)
