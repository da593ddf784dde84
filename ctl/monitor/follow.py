# SPDX-License-Identifier: GPL-2.0-or-later
"""What happens on the node, one event after the other: `ctl status --follow`.

Schedulers that come and go are heard from the kernel itself (uevents), so this works with no agent, and across agents
that come and go. Everything else is the agent's to tell, as long as there is one.
"""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Iterator
from typing import Any

from ctl.kernel.netlink import SchedulerEvents
from ctl.protocol import AgentGone, Client, NotRunning

__all__ = ["follow"]

_CONNECT_FOR = 10.0  # seconds after our scheduler came in which its agent must begin to listen
_RETRY = 0.1


def follow() -> Iterator[dict[str, Any]]:
    """Events, for ever: {"time", "kind", "text", ...}. Raises CoschedError where the user may not ask the agent.

    The first, of kind "follow", says that nothing is missed from here on.
    """
    agent = _Agent()
    with SchedulerEvents() as schedulers:
        agent.try_for(0)
        text = "following this node" if agent.sources() else "following this node; no agent runs on it"
        yield {"time": time.time(), "kind": "follow", "text": text, "agent": bool(agent.sources())}
        yield from agent.read()
        while True:
            ready, _, _ = select.select([schedulers.fileno(), *agent.sources()], [], [], agent.patience())
            if schedulers.fileno() in ready:
                for event in schedulers.read():
                    word = {"add": "came", "remove": "went"}.get(event.action, event.action)
                    text = f"sched_ext scheduler {event.ops} {word}"
                    details = {"action": event.action, "ops": event.ops}
                    yield {"time": time.time(), "kind": "sched_ext", "text": text, **details}
                    if event.action == "add":
                        agent.try_for(_CONNECT_FOR)
            yield from agent.read()


class _Agent:
    """The agent's part of the events: connected, or waiting for one, or neither."""

    def __init__(self) -> None:
        self._client: Client | None = None
        self._until: float | None = None

    def try_for(self, seconds: float) -> None:
        """Connect now, or try again for some seconds."""
        self._until = time.monotonic() + seconds
        self._connect()

    def sources(self) -> list[int]:
        """What to wait for."""
        return [self._client.fileno()] if self._client else []

    def patience(self) -> float | None:
        """How long to wait, seconds; None: for ever."""
        return _RETRY if self._until is not None else None

    def read(self) -> Iterator[dict[str, Any]]:
        """The events there are; the schedulers' coming and going is told already."""
        if self._client is None and self._until is not None:
            self._connect()
        if self._client is None:
            return
        events = self._client.available()
        if events is None:
            self._client.close()
            self._client = None
            yield {"time": time.time(), "kind": "agent", "text": "the agent ended"}
            return
        for event in events:
            if "lost" in event:
                text = f"{event['lost']} events were lost"
                yield {"time": time.time(), "kind": "lost", "text": text, **event}
            elif event["kind"] != "sched_ext":
                yield event

    def _connect(self) -> None:
        assert self._until is not None
        if self._client is None:
            with contextlib.suppress(NotRunning, AgentGone):
                client = Client()
                client.call("follow")
                self._client = client
        if self._client is not None or time.monotonic() >= self._until:
            self._until = None
