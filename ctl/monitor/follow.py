# SPDX-License-Identifier: GPL-2.0-or-later
"""The events of the node, one after the other: `ctl events --follow`.

The kernel itself announces schedulers that start and end (uevents), so following works without an agent, and across
agents. All other events come from the agent, while an agent runs.
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

_CONNECT_FOR = 10.0  # seconds in which the agent must begin to listen after its scheduler started
_RETRY = 0.1


def follow() -> Iterator[dict[str, Any]]:
    """Events, for ever: {"time", "kind", "text", ...}. Raises CoschedError if the user may not ask the agent.

    The first event, of kind "follow", says that no event is missed from here on.
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
    """The agent's part of the events: connected, waiting for an agent, or neither."""

    def __init__(self) -> None:
        self._client: Client | None = None
        self._until: float | None = None

    def try_for(self, seconds: float) -> None:
        """Connect now, or try again for some seconds."""
        self._until = time.monotonic() + seconds
        self._connect()

    def sources(self) -> list[int]:
        """The descriptors to wait for."""
        return [self._client.fileno()] if self._client else []

    def patience(self) -> float | None:
        """How long to wait, seconds; None: for ever."""
        return _RETRY if self._until is not None else None

    def read(self) -> Iterator[dict[str, Any]]:
        """The events present now, without starts and ends of schedulers, which are reported already."""
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
