# SPDX-License-Identifier: GPL-2.0-or-later
"""Explicit coscheduling (Monito §2.1): all jobs of this node run and are stopped by the clock, in step with others.

    |<------ slot_run_ms ------>|<- slot_stop_ms ->|<------ slot_run_ms ------>| ...
    jobs run, ahead of local     jobs are stopped,
    tasks (rule prio)            local tasks run

The paper's master broadcasts one `init`, and each node's daemon counts from its arrival. Here all nodes count from the
time of day: a period begins when its length divides the nanoseconds since 1970. So nodes need no message. A late node,
a restarted agent or a lost message puts no node out of step. Nodes are as close as their clocks, which a time service
keeps within a millisecond on one network. A broadcast through the broker would arrive 11 ms later in the median and 100
ms at the worst (docs/cluster.md), and the clocks would drift apart afterwards.

Stopping is one write, to the freezer of the jobs' common parent. The kernel keeps this stop apart from the stop of a
single job (ctl/node/pools.py): a job runs when neither stop is set, and neither can undo the other. Signals would show
in the users' shells, and the sender of a STOP would be unknown later. If the agent dies or is stopped, its supervisor
thaws the jobs (ctl/process/daemon.py).

While there are slots the agent has the lowest real-time priority. Otherwise, under prio, the agent would wait behind
the jobs that it must stop. Threads and programs that the agent starts do not inherit the priority.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ctl.kernel.cgroups import JobCgroups
from ctl.kernel.sysinfo import clock_error

__all__ = ["Period", "Slots"]

_NS_PER_MS: Final = 1_000_000


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
        run, whole = self.run_ms * _NS_PER_MS, (self.run_ms + self.stop_ms) * _NS_PER_MS
        number, phase = divmod(now_ns, whole)
        return (2 * number, phase, run - phase) if phase < run else (2 * number + 1, phase - run, whole - phase)


class Slots:
    """The slots of this node. Methods are for the event loop's thread."""

    def __init__(self, cgroups: JobCgroups, tell: Callable[..., None]) -> None:
        """`tell(kind, text, **details)` is called when slots begin and end."""
        self.period: Period | None = None
        self.stopped = False  # all jobs, now
        self._cgroups, self._tell = cgroups, tell
        self._timer: asyncio.TimerHandle | None = None
        self._number = 0  # the slot we are in
        self._turns = self._missed = 0
        self._late_ns = self._latest_ns = 0

    def keep(self, period: Period | None) -> None:
        """Use these slots from now on. None: no slots, and no job is stopped by the clock."""
        if period == self.period:
            return
        if period is None:
            self._end()
        elif self.period is None:
            self._urgent(True)
        self.period = period
        self._turns = self._missed = self._late_ns = self._latest_ns = 0
        if period is not None:
            self._number = period.slot(time.time_ns())[0]
            text = f"jobs run for {period.run_ms} ms and are stopped for {period.stop_ms} ms"
            self._tell("slots", text, action="begin")
            self._turn()

    def report(self) -> dict[str, Any] | None:
        """The value of "slots" in `ctl status --json`; None without slots."""
        if self.period is None:
            return None
        return {
            "run_ms": self.period.run_ms,
            "stop_ms": self.period.stop_ms,
            "turns": self._turns,
            "missed": self._missed,
            "late_ms": self._late_ns / self._turns / _NS_PER_MS if self._turns else None,
            "latest_ms": self._latest_ns / _NS_PER_MS if self._turns else None,
            "clock_error_ms": clock_error(),
        }

    def _turn(self) -> None:
        """Stop or start the jobs for the current slot, and come back at its end."""
        assert self.period is not None
        number, since, left = self.period.slot(time.time_ns())
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(left / 1e9, self._turn)
        if number > self._number:
            self._turns += 1
            self._missed += number - self._number - 1
            self._late_ns += since
            self._latest_ns = max(self._latest_ns, since)
        self._number = number
        self._stop(number % 2 == 1)

    def _stop(self, stopped: bool) -> None:
        if stopped != self.stopped:
            self.stopped = stopped
            self._cgroups.set_all_frozen(stopped)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._stop(False)
        self._urgent(False)
        self._tell("slots", "jobs are no longer stopped by the clock", action="end")

    def _urgent(self, urgent: bool) -> None:
        """Run the agent ahead of all tasks of sched_ext, or among them again."""
        policy, level = (os.SCHED_RR | os.SCHED_RESET_ON_FORK, 1) if urgent else (os.SCHED_OTHER, 0)
        try:
            os.sched_setscheduler(0, policy, os.sched_param(level))
        except OSError as error:  # real-time bandwidth by cgroup, and ours has none
            text = f"the agent has no real-time priority, slots will be late: {error.strerror}"
            self._tell("slots", text, action="late")
