# SPDX-License-Identifier: GPL-2.0-or-later
"""The agent's server on a real socket: bad requests, slow readers, streams that outrun their client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ctl import protocol
from ctl.errors import CoschedError
from ctl.node import server
from ctl.node.authority import Peer
from ctl.node.server import BACKLOG, CONNECTIONS, STREAMS, Server, Stream, open_socket


class Node:
    """A server with a few operations, and one stream."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.streams: set[Stream] = set()
        self.server = Server(
            {"echo": self.echo, "fail": self.fail, "crash": self.crash, "large": self.large, "who": self.who},
            {"follow": self.follow},
        )

    async def echo(self, _peer: Peer, arguments: dict[str, Any]) -> object:
        return arguments

    async def fail(self, _peer: Peer, _arguments: dict[str, Any]) -> object:
        raise CoschedError("no such thing: choose another", 2)

    async def crash(self, _peer: Peer, _arguments: dict[str, Any]) -> object:
        raise KeyError("oops")

    async def large(self, _peer: Peer, _arguments: dict[str, Any]) -> object:
        return "x" * (20 << 20)

    async def who(self, peer: Peer, _arguments: dict[str, Any]) -> object:
        return [peer.pid, peer.uid]

    @contextlib.contextmanager
    def follow(self, stream: Stream) -> Iterator[None]:
        self.streams.add(stream)
        try:
            yield
        finally:
            self.streams.discard(stream)


def with_node(path: Path, work: Callable[[Node], Awaitable[None]]) -> None:
    """Run `work` beside a server."""

    async def both() -> None:
        node = Node(path)
        await node.server.start(open_socket(path))
        try:
            await asyncio.wait_for(work(node), 20)
        finally:
            await node.server.close()

    asyncio.run(both())


async def exchange(path: Path, line: bytes) -> tuple[dict[str, Any], bytes]:
    """The answer to one line, and what follows it until the end if the server closes."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(line)
    answer = json.loads(await reader.readline())
    writer.write_eof()
    rest = await reader.read()
    writer.close()
    return answer, rest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.sock"


def test_only_owner_and_group_may_connect(path: Path) -> None:
    with open_socket(path):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o660


def test_requests_one_after_the_other(path: Path) -> None:
    async def work(node: Node) -> None:
        reader, writer = await asyncio.open_unix_connection(str(node.path))
        for number in range(3):
            writer.write(protocol.encode_request("echo", number=number))
            assert protocol.decode_answer(await reader.readline()) == {"number": number}
        writer.write(protocol.encode_request("who"))
        assert protocol.decode_answer(await reader.readline()) == [os.getpid(), os.getuid()]
        writer.close()

    with_node(path, work)


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        (b"hello\n", 2, "not JSON"),
        (protocol.encode_request("nope"), 2, "no operation 'nope': it knows crash, echo"),
        (protocol.encode_request("fail"), 2, "no such thing"),
        (protocol.encode_request("crash"), 1, "KeyError"),
        (b'{"v":1,"op":"echo"', 2, "not JSON"),
    ],
)
def test_refusals(path: Path, line: bytes, status: int, words: str) -> None:
    async def work(node: Node) -> None:
        reader, writer = await asyncio.open_unix_connection(str(node.path))
        writer.write(line)
        if not line.endswith(b"\n"):
            writer.write_eof()
        answer = json.loads(await reader.readline())
        assert answer["ok"] is False
        assert answer["status"] == status
        assert words in answer["error"]
        if line.endswith(b"\n"):  # the connection is still good
            writer.write(protocol.encode_request("echo", again=1))
            assert protocol.decode_answer(await reader.readline()) == {"again": 1}
        writer.close()

    with_node(path, work)


def test_a_line_without_end_is_refused_and_the_connection_closed(path: Path) -> None:
    async def work(node: Node) -> None:
        answer, rest = await exchange(node.path, b"[" * (protocol.MAX_REQUEST + 10))
        assert "too long" in answer["error"]
        assert answer["status"] == 2
        assert rest == b""

    with_node(path, work)


def test_who_does_not_read_holds_up_nobody(path: Path) -> None:
    async def work(node: Node) -> None:
        lazy = socket.socket(socket.AF_UNIX)
        lazy.connect(str(node.path))
        lazy.sendall(protocol.encode_request("large"))
        half = socket.socket(socket.AF_UNIX)
        half.connect(str(node.path))
        half.sendall(b'{"v":1,')
        await asyncio.sleep(0.1)
        answer, _ = await exchange(node.path, protocol.encode_request("echo", here=1))
        assert answer["result"] == {"here": 1}
        lazy.close()
        half.close()

    with_node(path, work)


def test_a_stream_drops_what_its_client_does_not_read_and_says_so(path: Path) -> None:
    async def work(node: Node) -> None:
        reader, writer = await asyncio.open_unix_connection(str(node.path), limit=1 << 20)
        writer.write(protocol.encode_request("follow"))
        assert protocol.decode_answer(await reader.readline()) == {}
        (stream,) = node.streams
        event = {"text": "x" * 1000}
        sent = 0
        while not stream.lost:  # nobody reads: the reader's own buffer and the socket's fill up, then ours
            stream.send_event({**event, "n": sent})
            sent += 1
            assert sent * 1000 < BACKLOG + (16 << 20)
        for _ in range(9):
            stream.send_event(event)
        numbers: list[int] = []
        while len(numbers) < sent - 1:
            numbers.append(json.loads(await reader.readline())["n"])
        assert numbers == list(range(sent - 1))
        stream.send_event({"text": "after"})
        assert json.loads(await reader.readline()) == {"lost": 10}
        assert json.loads(await reader.readline()) == {"text": "after"}
        writer.close()
        while node.streams:  # noticed without an event to send
            await asyncio.sleep(0.01)

    with_node(path, work)


async def read_last(reader: asyncio.StreamReader, text: str) -> None:
    assert json.loads(await reader.readline()) == {"text": text}


def test_streams_end_with_the_server(path: Path) -> None:
    async def work(node: Node) -> None:
        reader, writer = await asyncio.open_unix_connection(str(node.path), limit=1 << 20)
        writer.write(protocol.encode_request("follow"))
        await reader.readline()
        text = "last " * 100_000  # more than a socket takes at once
        for stream in node.streams:
            stream.send_event({"text": text})
        await asyncio.gather(node.server.close(), read_last(reader, text))
        assert await reader.read() == b""
        writer.close()

    with_node(path, work)


NOBODY = 65534


@contextlib.contextmanager
def asked_by_nobody(path: Path, op: str) -> Iterator[socket.socket]:
    """A connection that a process of user nobody made, which has sent a request and waits for the answer's end."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        os.setresuid(NOBODY, NOBODY, NOBODY)
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(os.fspath(path))
        connection.sendall(protocol.encode_request(op))
        socket.send_fds(theirs, [b"x"], [connection.fileno()])
        theirs.recv(1)
        os._exit(0)
    try:
        yield socket.socket(fileno=socket.recv_fds(ours, 1, 1)[1][0])
    finally:
        ours.send(b"x")
        os.waitpid(child, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user for a moment")
def test_what_binds_users_is_roots_to_change(tmp_path: Path) -> None:
    """A member of the group could otherwise switch to prio, which starves everybody at the machine."""

    async def work(node: Node) -> None:
        node.path.chmod(0o666)
        for parent in node.path.parents:
            if parent != Path("/") and not parent.stat().st_mode & 0o1:
                parent.chmod(0o755)
        loop = asyncio.get_running_loop()
        for op, words in (("echo", ""), ("set", "set is root's, not user nobody's"), ("trace", "trace is root's")):
            with asked_by_nobody(node.path, op) as connection:
                answer = json.loads(await loop.run_in_executor(None, connection.recv, 4096))
                assert answer["ok"] == (not words) and words in answer.get("error", ""), answer

    with_node(tmp_path / "agent.sock", work)


def test_who_has_ended_changes_nothing(tmp_path: Path) -> None:
    """Its number may be another's; the connection lives on in whoever has its descriptor."""

    async def work(node: Node) -> None:
        ours, theirs = socket.socketpair()
        child = os.fork()
        if child == 0:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(os.fspath(node.path))
            socket.send_fds(theirs, [b"x"], [connection.fileno()])
            os._exit(0)
        os.waitpid(child, 0)
        connection = socket.socket(fileno=socket.recv_fds(ours, 1, 1)[1][0])
        for op in ("set", "echo"):
            connection.sendall(protocol.encode_request(op))
            answer = json.loads(await asyncio.get_running_loop().run_in_executor(None, connection.recv, 4096))
            assert answer["ok"] == (op == "echo") and "has ended" in answer.get("error", "has ended"), answer

    with_node(tmp_path / "agent.sock", work)


@pytest.mark.parametrize(
    ("most", "op", "words"),
    [(CONNECTIONS, "echo", f"{CONNECTIONS} connections"), (STREAMS, "follow", f"{STREAMS} streams")],
)
def test_a_user_has_so_many_at_a_time(path: Path, most: int, op: str, words: str) -> None:
    async def ask(node: Node) -> tuple[dict[str, Any], asyncio.StreamWriter]:
        reader, writer = await asyncio.open_unix_connection(str(node.path))
        writer.write(protocol.encode_request(op))
        return json.loads(await reader.readline()), writer

    async def work(node: Node) -> None:
        writers = []
        for _ in range(most):
            answer, writer = await ask(node)
            assert answer["ok"]
            writers.append(writer)
        answer, _ = await ask(node)
        assert not answer["ok"]
        assert words in answer["error"]
        writers.pop().close()
        for _ in range(100):
            answer, _ = await ask(node)
            if answer["ok"]:
                break
            await asyncio.sleep(0.01)
        assert answer["ok"], "the place of one that has ended is free"

    with_node(path, work)


def test_who_connects_faster_than_refusals_end_is_not_heard_out(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CONNECTIONS", 2)
    monkeypatch.setattr(server, "_HEARD_OUT", 8)

    async def work(node: Node) -> None:
        held = [await asyncio.open_unix_connection(str(node.path)) for _ in range(50)]
        await asyncio.sleep(0.1)
        assert len(node.server._connections) <= 8
        for _, writer in held:
            writer.close()

    with_node(path, work)


def test_who_sends_far_too_much_hears_why_and_the_end(path: Path) -> None:
    async def work(node: Node) -> None:
        reader, writer = await asyncio.open_unix_connection(str(node.path))
        writer.write(b"x" * (1 << 20))
        answer = json.loads(await reader.readline())
        assert "too long" in answer["error"]
        assert await reader.read() == b"", "an end, no reset"
        writer.close()

    with_node(path, work)
