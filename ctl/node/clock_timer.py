# SPDX-License-Identifier: GPL-2.0-or-later
"""A timer by the time of day.

Nodes that count from the time of day are in step without a message. A late node, a restarted agent or a lost message
puts no node out of step. Nodes are as close as their clocks, which a time service keeps within a millisecond on one
network. A broadcast through the broker would arrive 11 ms later in the median and 100 ms at the worst
(docs/cluster.md), and the clocks would drift apart afterwards.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from ctl.kernel.sysinfo import clock_error

__all__ = ["NS_PER_MS", "ClockTimer", "Slot"]

NS_PER_MS: Final = 1_000_000

Slot = Callable[[int], tuple[int, int, int]]
"""The slot of a moment (ns since 1970): its number, ns since it began, ns until it ends."""


class ClockTimer:
    """Calls `turn` with the number of each slot at its beginning, and counts how late. For the event loop's thread."""

    def __init__(self, slot: Slot, turn: Callable[[int], None]) -> None:
        self._slot, self._call = slot, turn
        self._turns = self._missed = self._late_ns = self._latest_ns = 0
        self._number = slot(time.time_ns())[0]
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Call `turn` at once, in the middle of a slot, and from the next one on. An error in a call ends no timer."""
        self._turn()

    def end(self) -> None:
        """No more calls."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def report(self) -> dict[str, Any]:
        """Turns so far, those that were missed, their mean and greatest lateness, and the error of the clock; ms."""
        return {
            "turns": self._turns,
            "missed": self._missed,
            "late_ms": self._late_ns / self._turns / NS_PER_MS if self._turns else None,
            "latest_ms": self._latest_ns / NS_PER_MS if self._turns else None,
            "clock_error_ms": clock_error(),
        }

    def _turn(self) -> None:
        number, since, left = self._slot(time.time_ns())
        self.end()
        self._timer = asyncio.get_running_loop().call_later(left / 1e9, self._turn)
        if number > self._number:
            self._turns += 1
            self._missed += number - self._number - 1
            self._late_ns += since
            self._latest_ns = max(self._latest_ns, since)
        self._number = number
        self._call(number)
