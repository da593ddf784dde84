# SPDX-License-Identifier: GPL-2.0-or-later
"""contract=class: the servers' periods begin by the clock, on all CPUs of all nodes at once.

    |<------ contract_period_ms ------>|<------ contract_period_ms ------>|
    local tasks first   jobs have L     local tasks first   jobs have L

The kernel begins a CPU's period when a task of a job first wakes there, and lets jobs wait until what is left of the
period is just what they are due. So ranks of a job on several CPUs beside busy local tasks run at different times, and
each message waits for the other's turn. Here the agent begins the periods anew whenever their length divides the
nanoseconds since 1970. Then all ranks have their part at the same time, at the end of each period, and answer at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ctl.kernel import ext_server
from ctl.node.clock_timer import NS_PER_MS, ClockTimer
from ctl.node.urgency import Urgency

__all__ = ["Steps"]


class Steps:
    """The periods of this node's servers. Methods are for the event loop's thread."""

    def __init__(self, urgency: Urgency, tell: Callable[..., None]) -> None:
        """`tell(kind, text, **details)` is called when the kernel refuses."""
        self._urgency, self._tell = urgency, tell
        self._period_ms = 0
        self._timer: ClockTimer | None = None

    def keep(self, period_ms: int) -> None:
        """Begin periods of this length by the clock from now on; 0: leave it to the kernel."""
        if period_ms == self._period_ms:
            return
        self._period_ms = period_ms
        if self._timer is not None:
            self._timer.end()
            self._timer = None
        self._urgency.want("periods in step", period_ms > 0)
        if period_ms:
            self._timer = ClockTimer(self._slot, self._begin)
            self._timer.begin()

    def report(self) -> dict[str, Any] | None:
        """The value of "periods" in `ctl status --json`; None if the kernel begins them."""
        return None if self._timer is None else {"ms": self._period_ms, **self._timer.report()}

    def _slot(self, now_ns: int) -> tuple[int, int, int]:
        number, since = divmod(now_ns, self._period_ms * NS_PER_MS)
        return number, since, self._period_ms * NS_PER_MS - since

    def _begin(self, number: int) -> None:
        try:
            ext_server.begin_period()
        except OSError as error:
            self._tell("slots", f"periods of jobs are not in step any more: {error.strerror}", action="late")
            self.keep(0)
