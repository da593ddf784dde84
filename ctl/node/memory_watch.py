# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the node is overloaded: samples of its memory when needed, and the verdict for the kernel."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ctl.kernel.scheduler import Scheduler
from ctl.node import overload

__all__ = ["MemoryWatch"]


class MemoryWatch:
    """Decides Mem > M by ctl/node/overload.py, and tells the scheduler."""

    def __init__(self, scheduler: Scheduler, tell: Callable[..., None]) -> None:
        """`tell(kind, text, **details)` is called at every change of the verdict."""
        self.state = overload.State()
        self._scheduler, self._tell = scheduler, tell
        self._recheck: asyncio.TimerHandle | None = None

    def check(self) -> None:
        """Take a sample and decide. Come back later: sooner while memory is short or a first rate is wanted."""
        soon = True
        try:
            soon = self._decide()
        finally:  # an error is logged, and does not end the checks
            if self._recheck is None:
                pause = overload.CHECK_EVERY if soon else overload.IDLE_CHECK_EVERY
                self._recheck = asyncio.get_running_loop().call_later(pause, self._check_again)

    def _decide(self) -> bool:
        """Take a sample and decide; whether to come back soon."""
        before = self.state
        self.state = overload.decide(before, overload.take_sample())
        if self.state.overloaded != before.overloaded:
            self._scheduler.write_knobs(overloaded=int(self.state.overloaded))
            state = "overloaded" if self.state.overloaded else "no longer overloaded"
            self._tell("overload", f"{state}: {self.state.why}", verdict=self.state.overloaded)
        first = self.state.last is not before.last and self.state.refaults_s is None
        return first or overload.restless(self.state)

    def look(self) -> None:
        """Take a new sample for a reader if the last sample is old."""
        last = self.state.last
        if last is None or time.monotonic() - last.at >= overload.CHECK_EVERY:
            self.check()

    def stop(self) -> None:
        """Take no more samples."""
        if self._recheck is not None:
            self._recheck.cancel()

    def _check_again(self) -> None:
        self._recheck = None
        self.check()
