# SPDX-License-Identifier: GPL-2.0-or-later
"""The agent's figures for Prometheus over HTTP: on a Unix socket, and with the knob metrics_port on loopback.

GET /metrics is all there is. Nothing is read or computed but for a scrape, and at most once in _FRESH seconds: the
agent runs before all other tasks, so no client may make it work all the time. The figures are taken in the loop's
thread; their text is made in another one, by `render`, which is not this room's. A connection has _PATIENCE seconds for
all it does, and there are at most _CLIENTS: a slow client delays no other, and holds one answer in memory.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections.abc import Callable

from ctl.contract import Measured, Render
from ctl.errors import USAGE, CoschedError

__all__ = ["Metrics"]

_FRESH = 1.0  # seconds
_PATIENCE = 10.0  # seconds; Prometheus' own time-out is 10 s
_CLIENTS = 16
_LONGEST = 16 << 10  # bytes of a request's head
_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_PLAIN = "text/plain; charset=utf-8"
_log = logging.getLogger("ctl.metrics")


class Metrics:
    """Answers scrapes."""

    def __init__(self, take: Callable[[], Measured], render: Render) -> None:
        """`take` tells the figures now, in the loop's thread; it may raise CoschedError: there are none."""
        self._take, self._render = take, render
        self._unix: asyncio.Server | None = None
        self._loopback: asyncio.Server | None = None
        self._port = 0
        self._clients: set[asyncio.Task[None]] = set()
        self._made: tuple[float, asyncio.Future[bytes]] | None = None

    async def start(self, listener: socket.socket) -> None:
        """Serve on this Unix socket from now on."""
        self._unix = await asyncio.start_unix_server(self._serve, sock=listener, limit=_LONGEST)

    async def listen(self, port: int) -> None:
        """Serve on this port of 127.0.0.1, too; 0: on none. Raises CoschedError (status 2) and changes nothing if the
        port is taken."""
        if port == self._port:
            return
        server = None
        if port:
            try:
                server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=_LONGEST)
            except OSError as error:
                why = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be had ({error.strerror})"
                raise CoschedError(f"port {port} of 127.0.0.1 {why}: give metrics_port another, or 0", USAGE) from None
        if self._loopback is not None:
            self._loopback.close()
        self._loopback, self._port = server, port

    async def close(self) -> None:
        """End the connections."""
        for server in (self._unix, self._loopback):
            if server is not None:
                server.close()
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._clients) >= _CLIENTS:
            writer.transport.abort()
            return
        client = asyncio.current_task()
        assert client is not None
        self._clients.add(client)
        try:
            async with asyncio.timeout(_PATIENCE):
                writer.write(await self._answer(reader))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, asyncio.LimitOverrunError, asyncio.CancelledError):  # TimeoutError is an OSError
            writer.transport.abort()
        finally:
            self._clients.discard(client)

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        """The answer to the request that comes."""
        head = await reader.readuntil(b"\r\n\r\n")
        method, _, rest = head.partition(b" ")
        path = rest.split(b" ", 1)[0].split(b"?", 1)[0]
        if path != b"/metrics":
            return _response("404 Not Found", b"the only path is /metrics\n", _PLAIN)
        if method not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed", b"only GET is answered\n", _PLAIN, "Allow: GET, HEAD\r\n")
        try:
            body = await self._text()
        except CoschedError as error:
            return _response("503 Service Unavailable", f"{error}\n".encode(), _PLAIN)
        except ModuleNotFoundError as error:
            return _response("501 Not Implemented", f"this needs Python's {error.name}\n".encode(), _PLAIN)
        except Exception:
            _log.exception("a scrape failed")
            return _response("500 Internal Server Error", b"see the agent's log\n", _PLAIN)
        return _response("200 OK", body, _TEXT, with_body=method == b"GET")

    async def _text(self) -> bytes:
        """The text of the figures, which clients share that come within _FRESH seconds."""
        now = time.monotonic()
        if self._made is None or now - self._made[0] > _FRESH:
            measured = self._take()
            text = asyncio.get_running_loop().run_in_executor(None, self._render, measured)
            self._made = now, text
        return await asyncio.shield(self._made[1])


def _response(status: str, body: bytes, kind: str, more: str = "", *, with_body: bool = True) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}Connection: close"
    return f"{head}\r\n\r\n".encode() + (body if with_body else b"")
