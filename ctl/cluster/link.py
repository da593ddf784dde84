# SPDX-License-Identifier: GPL-2.0-or-later
"""One connection to a broker, from its beginning to its end. A broken connection is replaced, never repaired.

Clients and brokers have their known bugs in the repair of broken connections: subscriptions that the broker may have
lost, and old messages in a buffer. A new connection has nothing to repair.

The buckets of the key-value store are read and written by their subjects. A node watches a key by subscribing to its
subject, because a put is a message like any other. No consumer is made on the broker: ten thousand jobs on a thousand
nodes would need ten thousand consumers, and a node may not make consumers (`ctl.cluster.identity`).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error

from ctl.cluster.certificates import BROKER_NAME
from ctl.cluster.identity import Key
from ctl.cluster.wire import stream_subjects
from ctl.errors import CoschedError, brief
from ctl.protocol import parse

__all__ = ["Handler", "Link", "LinkError", "Member", "answer_fields", "end"]

_CONNECT = 2.0  # seconds to connect to one broker
_ANSWER = 2.0  # seconds for an answer of the store
_CLOSE = 0.5  # seconds for a last word; a broker that is gone will not take it
_PING = 1.5  # seconds from an answer to the next question: with _ANSWER, a lost broker is noticed within 3.5 s
_STEPS = 4
_FOREVER = 3600  # seconds
_AT_ONCE = 64  # keys asked for at the same time
_PENDING = 10_000  # messages of a subscription that wait for us; more are dropped, and counted as overrun

_log = logging.getLogger("ctl.cluster")

Handler = Callable[[str, bytes], None]  # subject, data; no data: the key was deleted


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks, and wait until they have ended. Cancelling once is not enough: the client waits by
    asyncio.wait_for, which in Python 3.11 loses a cancellation if the awaited result comes at the same moment."""
    waiting = {task for task in tasks if not task.done()}
    while waiting:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=0.1)


class LinkError(CoschedError):
    """The broker cannot be reached, or does not answer."""


@dataclass(frozen=True)
class Member:
    """The data that a node needs as a member of the cluster."""

    name: str
    servers: tuple[str, ...]  # host:port
    ca: str  # certificate that signs the brokers' certificates, PEM
    token: str  # JWT
    seed: bytes  # of the key that the token is for


class Link:
    """A connection. `lost` is set when it ends."""

    def __init__(self, member: Member, overrun: Callable[[], None]) -> None:
        """`overrun` is called when messages were dropped because this program did not read them in time."""
        self.lost = asyncio.Event()
        self._member = member
        self._overrun = overrun
        self._client = Client()
        self._watching: asyncio.Task[None] | None = None

    async def connect(self, servers: Iterable[str]) -> None:
        """Connect to the first broker that answers. Raises LinkError."""
        key = Key("user", self._member.seed)

        def sign(nonce: str) -> bytes:
            return base64.b64encode(key.sign(nonce.encode()))

        async def failed(error: Exception) -> None:
            if "slow consumer" in str(error):
                self._overrun()
            elif not isinstance(error, Error | OSError | TimeoutError):
                _log.error("a message could not be handled", exc_info=error)

        async def closed() -> None:
            self.lost.set()

        with _as_link_error("the cluster's certificate is damaged, have this node invited again"):
            context = ssl.create_default_context(cadata=self._member.ca)
        try:
            async with asyncio.timeout(_CONNECT * 2):
                await self._client.connect(
                    [f"tls://{server}" for server in servers],
                    name=self._member.name,
                    tls=context,
                    tls_hostname=BROKER_NAME,
                    user_jwt_cb=self._member.token.encode,
                    signature_cb=sign,
                    inbox_prefix=f"_INBOX.{self._member.name}",
                    no_echo=True,
                    allow_reconnect=False,
                    reconnect_time_wait=0,
                    max_reconnect_attempts=1,
                    connect_timeout=int(_CONNECT),
                    error_cb=failed,
                    closed_cb=closed,
                )
        except (Error, OSError, ValueError, TimeoutError) as error:
            await self.close()
            reason = str(error) or type(error).__name__
            raise LinkError(f"no broker of {', '.join(self._member.servers)} takes this node: {reason}") from None
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """Notice that the broker is gone. The client's own pings do so only once the dead connection is closed in
        good order, which takes half a minute."""
        with contextlib.suppress(LinkError):
            while not self.lost.is_set():
                await asyncio.sleep(_PING)
                await self.flush()
        self.lost.set()

    async def _pong(self) -> None:
        with contextlib.suppress(Error, OSError, TimeoutError):
            await self._client.flush(_FOREVER)
            return
        self.lost.set()

    @property
    def server(self) -> str:
        """The broker at the other end."""
        url = self._client.connected_url
        return url.netloc if url is not None else ""

    def discovered(self) -> tuple[str, ...]:
        """Brokers that this one told of, host:port."""
        return tuple(url.netloc for url in self._client.discovered_servers)

    async def close(self) -> None:
        """End the connection."""
        if self._watching is not None:
            self._watching.cancel()
        if self.lost.is_set():
            self._abort()
        with contextlib.suppress(Error, OSError, TimeoutError):
            async with asyncio.timeout(_CLOSE):
                await self._client.close()
        self.lost.set()

    def _abort(self) -> None:
        """Drop a connection whose other end is gone. A close in good order would wait for an answer, and the client
        would not end the tasks of its subscriptions."""
        writer = getattr(getattr(self._client, "_transport", None), "_io_writer", None)
        if writer is not None:
            writer.transport.abort()

    # messages

    async def subscribe(self, subject: str, handler: Handler) -> Subscription:
        """Call `handler` with each message on a subject. The handler must not block. Raises LinkError."""

        async def call(message: Msg) -> None:
            deleted = (message.headers or {}).get("KV-Operation") in ("DEL", "PURGE")
            handler(message.subject, b"" if deleted else message.data)

        with _as_link_error(f"subscribing to {subject}"):
            return await self._client.subscribe(subject, cb=call, pending_msgs_limit=_PENDING)

    async def answer(self, subject: str, answer: Callable[[bytes], bytes]) -> None:
        """Answer each question on a subject; `answer` must not block. Raises LinkError."""

        async def call(message: Msg) -> None:
            await message.respond(answer(message.data))

        with _as_link_error(f"answering on {subject}"):
            await self._client.subscribe(subject, cb=call, pending_msgs_limit=_PENDING)

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription. Raises LinkError."""
        with _as_link_error("ending a subscription"):
            await subscription.unsubscribe()

    async def publish(self, subject: str, data: bytes) -> None:
        """Send, without knowing whether it arrives. Raises LinkError."""
        with _as_link_error(f"sending to {subject}"):
            await self._client.publish(subject, data)

    async def flush(self) -> None:
        """Wait until the broker has seen all sent messages. Raises LinkError.

        The wait has steps, and each step reads an answer that is already there. So the broker does not count as lost if
        this program was held up. The client's own limit is not used, because a late answer would end the client's
        reading.
        """
        answer = asyncio.create_task(self._pong())
        for _ in range(_STEPS):
            done, _pending = await asyncio.wait({answer}, timeout=_ANSWER / _STEPS)
            if done or self.lost.is_set():
                break
        if not answer.done():
            self.lost.set()
        if self.lost.is_set():
            answer.cancel()
            raise LinkError("the broker does not answer")

    # the store

    async def request(self, subject: str, data: bytes = b"", headers: dict[str, str] | None = None) -> Msg:
        """Ask the broker. Raises LinkError."""
        with _as_link_error(f"asking {subject}"):
            return await self._client.request(subject, data, _ANSWER, headers=headers)

    async def ask(self, what: str, **fields: Any) -> dict[str, Any]:
        """A question to the store's interface. Raises LinkError, with the broker's own words if it refused."""
        data = (await self.request(f"$JS.API.{what}", json.dumps(fields).encode())).data
        return answer_fields(data, f"the broker refused {what}")

    async def put(self, subject: str, data: bytes) -> int:
        """Write a key, or with no data delete it; returns its revision when it is stored. Raises LinkError."""
        answer = await self.request(subject, data, None if data else {"KV-Operation": "DEL"})
        revision = answer_fields(answer.data, f"the broker did not store {subject}").get("seq", 0)
        return revision if isinstance(revision, int) else 0

    async def get(self, bucket: str, subject: str) -> bytes:
        """A key's value, empty if there is none. Raises LinkError."""
        message = await self.request(f"$JS.API.DIRECT.GET.KV_{bucket}.{subject}")
        headers = message.headers or {}
        if headers.get("Status") or headers.get("KV-Operation"):
            return b""
        return message.data

    async def keys(self, bucket: str, pattern: str = "") -> list[str]:
        """The keys of a bucket, as subjects. Raises LinkError."""
        subjects = pattern or stream_subjects(bucket)
        found: list[str] = []
        while True:
            answer = await self.ask(f"STREAM.INFO.KV_{bucket}", subjects_filter=subjects, offset=len(found))
            state, total = answer.get("state"), answer.get("total", 0)
            names = state.get("subjects") if isinstance(state, dict) else None
            if not isinstance(names, dict) or not isinstance(total, int):
                return found
            found += names
            if not names or len(found) >= total:
                return found

    async def values(self, bucket: str, pattern: str = "") -> dict[str, bytes]:
        """The keys of a bucket and their values. Raises LinkError."""
        places = asyncio.Semaphore(_AT_ONCE)

        async def read(subject: str) -> tuple[str, bytes]:
            async with places:
                return subject, await self.get(bucket, subject)

        found: list[Awaitable[tuple[str, bytes]]] = [read(key) for key in await self.keys(bucket, pattern)]
        return {subject: value for subject, value in await asyncio.gather(*found) if value}


def answer_fields(data: bytes, refused: str) -> dict[str, Any]:
    """The fields of an answer of the store. Raises LinkError, with the words `refused` if it tells of an error."""
    try:
        answer = parse(data)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise LinkError(f"{refused}: its answer is {brief(data[:40])}, and no JSON object")
    if "error" in answer:
        error = answer["error"]
        raise LinkError(f"{refused}: {brief(error.get('description') if isinstance(error, dict) else error)}")
    return answer


@contextlib.contextmanager
def _as_link_error(what: str) -> Any:
    try:
        yield
    except (Error, OSError, TimeoutError) as error:
        raise LinkError(f"{what}: {str(error) or type(error).__name__}") from None
