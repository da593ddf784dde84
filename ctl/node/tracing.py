# SPDX-License-Identifier: GPL-2.0-or-later
"""Decision records, from the kernel to their readers: recorded while there are readers."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

from ctl.kernel.scheduler import Scheduler
from ctl.kernel.trace import Decisions, pack
from ctl.node.server import Stream

__all__ = ["Tracing"]

_CHUNK = 100  # decisions read at a time: 10 ms, on an emulated CPU 100
_PAUSE = 0.05  # seconds until the next look at a slow reader


class Tracing:
    """The readers of a scheduler's decisions."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.readers: set[Stream] = set()
        self._scheduler = scheduler
        self._decisions: Decisions | None = None

    @contextlib.contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        """Decisions go to this reader while the context is entered."""
        if self._decisions is None:
            self._decisions = self._scheduler.decisions()
            self._decisions.read()  # left by the reader before
            self._listen()
            self._scheduler.write_knobs(trace=1)
        self.readers.add(stream)
        try:
            yield
        finally:
            self.readers.discard(stream)
            if not self.readers:
                self.stop()

    def stop(self) -> None:
        """Record no more."""
        if self._decisions is None:
            return
        self._scheduler.write_knobs(trace=0)
        asyncio.get_running_loop().remove_reader(self._decisions.fileno())
        self._decisions.close()
        self._decisions = None

    def _listen(self) -> None:
        if self._decisions is not None:
            asyncio.get_running_loop().add_reader(self._decisions.fileno(), self._heard, self._decisions)

    def _heard(self, decisions: Decisions) -> None:
        """Pass some records on, so that other tasks get their turn. While no reader has room, the kernel counts the
        lost records.

        If more records wait, pause for as long as the reading took: the agent runs before all other tasks, and the
        kernel ends an agent that never waits (ctl/kernel/prompt.py).
        """
        if all(reader.full for reader in self.readers):
            self._rest(decisions, _PAUSE)
            return
        began = time.monotonic()
        records = [pack(record) for record in decisions.read(_CHUNK)]
        for reader in self.readers:
            for record in records:
                reader.send(record)
        if len(records) >= _CHUNK:
            self._rest(decisions, time.monotonic() - began)

    def _rest(self, decisions: Decisions, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(decisions.fileno())
        loop.call_later(seconds, self._listen)
