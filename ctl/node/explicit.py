# SPDX-License-Identifier: GPL-2.0-or-later
"""Explicit coscheduling (Monito §2.1): all jobs of this node run and are stopped by the clock, in step with others.

    |<------ slot_run_ms ------>|<- slot_stop_ms ->|<------ slot_run_ms ------>| ...
    jobs run, ahead of local     jobs are stopped,
    tasks (rule prio)            local tasks run

The paper's master broadcasts one `init`, and each node's daemon counts from its arrival. Here all nodes count from the
time of day (ctl/node/clock_timer.py): a period begins when its length divides the nanoseconds since 1970.

Stopping is one write, to the freezer of the jobs' common parent. The kernel keeps this stop apart from the stop of a
single job (ctl/node/pools.py): a job runs when neither stop is set, and neither can undo the other. Signals would show
in the users' shells, and the sender of a STOP would be unknown later. If the agent dies or is stopped, its supervisor
thaws the jobs (ctl/process/daemon.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ctl.kernel.cgroups import JobCgroups
from ctl.node.clock_timer import NS_PER_MS, ClockTimer
from ctl.node.urgency import Urgency

__all__ = ["Period", "Slots"]


@dataclass(frozen=True, slots=True)
class Period:
    """A period: a slot in which jobs run and a slot in which jobs are stopped; ms."""

    run_ms: int
    stop_ms: int

    def slot(self, now_ns: int) -> tuple[int, int, int]:
        """The slot of this moment: its number (odd: jobs are stopped), ns since it began, ns until it ends.

        >>> Period(90, 10).slot(1_095_000_000)
        (21, 5000000, 5000000)
        """
        run, whole = self.run_ms * NS_PER_MS, (self.run_ms + self.stop_ms) * NS_PER_MS
        number, phase = divmod(now_ns, whole)
        return (2 * number, phase, run - phase) if phase < run else (2 * number + 1, phase - run, whole - phase)


class Slots:
    """The slots of this node. Methods are for the event loop's thread."""

    def __init__(self, cgroups: JobCgroups, urgency: Urgency, tell: Callable[..., None]) -> None:
        """`tell(kind, text, **details)` is called when slots begin and end."""
        self.period: Period | None = None
        self.stopped = False  # all jobs, now
        self._cgroups, self._urgency, self._tell = cgroups, urgency, tell
        self._timer: ClockTimer | None = None

    def keep(self, period: Period | None) -> None:
        """Use these slots from now on. None: no slots, and no job is stopped by the clock."""
        if period == self.period:
            return
        if self._timer is not None:
            self._timer.end()
            self._timer = None
        self.period = period
        self._urgency.want("slots", period is not None)
        if period is None:
            self._stop(False)
            self._tell("slots", "jobs are no longer stopped by the clock", action="end")
        else:
            text = f"jobs run for {period.run_ms} ms and are stopped for {period.stop_ms} ms"
            self._tell("slots", text, action="begin")
            self._timer = ClockTimer(period.slot, lambda number: self._stop(number % 2 == 1))
            self._timer.begin()

    def report(self) -> dict[str, Any] | None:
        """The value of "slots" in `ctl status --json`; None without slots."""
        if self.period is None or self._timer is None:
            return None
        return {"run_ms": self.period.run_ms, "stop_ms": self.period.stop_ms, **self._timer.report()}

    def _stop(self, stopped: bool) -> None:
        if stopped != self.stopped:
            self.stopped = stopped
            self._cgroups.set_all_frozen(stopped)
