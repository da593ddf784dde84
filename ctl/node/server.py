# SPDX-License-Identifier: GPL-2.0-or-later
"""The agent's end of the socket: requests in, answers and streams out (ctl/protocol.py).

Each connection is a task of its own, so a client that sends half a line or does not read its answer delays no other
client. A stream holds at most BACKLOG bytes for a client; later records are dropped and counted while this buffer is
full.
"""

from __future__ import annotations

import asyncio
import contextlib
import grp
import logging
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from ctl import protocol
from ctl.errors import FAILED, USAGE, CoschedError
from ctl.node.authority import Peer

__all__ = ["BACKLOG", "CONNECTIONS", "STREAMS", "Operation", "Server", "Stream", "open_socket"]

BACKLOG = 4 << 20  # bytes kept for one client: 100 queues of 128 tasks, or 40,000 events
CONNECTIONS = 256  # of one user at a time, each with up to MAX_REQUEST bytes of a request
STREAMS = 16  # of one user at a time, each with up to BACKLOG bytes
_HEARD_OUT = 4 * CONNECTIONS  # of all users: beyond, one too many is closed before its client has asked
_log = logging.getLogger("ctl.server")

Operation = Callable[[Peer, dict[str, Any]], Awaitable[Any]]


def open_socket(path: Path) -> socket.socket:
    """The listening socket: mode 0660, owner root, group cosched if the group exists."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o117)
    try:
        listener.bind(os.fspath(path))
    finally:
        os.umask(before)
    with contextlib.suppress(KeyError):
        os.chown(path, -1, grp.getgrnam(protocol.GROUP).gr_gid)
    listener.listen(64)
    listener.setblocking(False)
    return listener


class Stream:
    """One client's end of a stream."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.lost = 0  # not sent, because the client did not read

    @property
    def full(self) -> bool:
        """Whether the client is BACKLOG bytes behind."""
        return self._writer.transport.get_write_buffer_size() > BACKLOG

    def send(self, data: bytes) -> bool:
        """Queue bytes for the client; False, and counted, if it is too far behind or gone."""
        if self.full or self._writer.is_closing():
            self.lost += 1
            return False
        self._writer.write(data)
        return True

    def send_event(self, event: dict[str, Any]) -> None:
        """Queue an event, after {"lost": n} if some are missing before it."""
        if self.lost and not self.full:
            self._writer.write(protocol.encode_line({"lost": self.lost}))
            self.lost = 0
        self.send(protocol.encode_line(event))


class Server:
    """Serves operations and streams on a socket."""

    def __init__(
        self,
        operations: dict[str, Operation],
        streams: dict[str, Callable[[Stream], contextlib.AbstractContextManager[object]]],
    ) -> None:
        """`operations` are coroutines of (peer, arguments); a stream is fed while its context is entered."""
        self._operations = operations
        self._streams = streams
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._connected: Counter[int] = Counter()  # connections by user id
        self._streaming: Counter[int] = Counter()  # and streams

    async def start(self, listener: socket.socket) -> None:
        """Serve from now on."""
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=protocol.MAX_REQUEST)

    async def close(self) -> None:
        """Send queued bytes, as far as clients read them within a second, and end all connections."""
        if self._server is None:
            return
        self._server.close()
        connections = list(self._connections)
        for writer in connections:
            writer.close()  # queued bytes are still sent
        with contextlib.suppress(TimeoutError):
            closed = asyncio.gather(*(writer.wait_closed() for writer in connections), return_exceptions=True)
            await asyncio.wait_for(closed, 1)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        peer = Peer(writer.get_extra_info("socket"))
        try:
            with _one_more(self._connected, peer, CONNECTIONS, "connections"):
                while await self._one(peer, reader, writer):
                    pass
        except CoschedError as error:
            writer.write(protocol.encode_refusal(error))
            if len(self._connections) <= _HEARD_OUT:
                await _hear_out(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(writer)
            writer.close()
            peer.close()

    async def _one(self, peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read and answer one request; False when the connection is to be closed."""
        go_on = True
        try:
            line = await _read_line(reader)
            if not line:
                return False
            op, arguments = protocol.decode_request(line)
            await peer.check(op)
            if op in self._streams:
                with _one_more(self._streaming, peer, STREAMS, "streams (ctl top, trace and follow)"):
                    await self._stream(op, reader, writer)
                return False
            operation = self._operations.get(op)
            if operation is None:
                known = ", ".join(sorted([*self._operations, *self._streams]))
                raise CoschedError(f"the agent knows no operation {op[:40]!r}: it knows {known}", USAGE)
            answer = protocol.encode_answer(await operation(peer, arguments))
        except CoschedError as error:
            answer = protocol.encode_refusal(error)
            go_on = not isinstance(error, _TooLong)
        except Exception as error:  # a bug in the agent: agent and scheduler go on
            _log.exception("request failed")
            what = f"the agent failed to answer ({type(error).__name__}: {error}): its log tells where"
            answer = protocol.encode_refusal(CoschedError(what, FAILED))
        writer.write(answer)
        if not go_on:
            await _hear_out(reader, writer)
        await writer.drain()
        return go_on

    async def _stream(self, op: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Feed a stream until the client closes or sends anything."""
        with self._streams[op](Stream(writer)):
            writer.write(protocol.encode_answer({}))
            with contextlib.suppress(ConnectionError):  # the client left without reading all
                await reader.read(1)


@contextlib.contextmanager
def _one_more(count: Counter[int], peer: Peer, most: int, what: str) -> Iterator[None]:
    """One more of a user's. Raises CoschedError (status 1) if the user has `most` already."""
    if count[peer.uid] >= most:
        raise CoschedError(f"user {peer.user} has {most} {what} to the agent, the most of a user: end one", FAILED)
    count[peer.uid] += 1
    try:
        yield
    finally:
        count[peer.uid] -= 1
        if not count[peer.uid]:
            del count[peer.uid]


class _TooLong(CoschedError):
    """Refuse: the rest of the line cannot be told from the next request."""


async def _hear_out(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say no more, and read for a second what the client still sends: closed before, it would not see its answer."""
    with contextlib.suppress(TimeoutError, ConnectionError):
        writer.write_eof()
        async with asyncio.timeout(1):
            while await reader.read(protocol.MAX_REQUEST):
                pass


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError:
        raise _TooLong(f"request is too long: at most {protocol.MAX_REQUEST} bytes to a line", USAGE) from None
