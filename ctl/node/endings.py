# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs that were told to end (`ctl cancel`): a signal, so that they can write a checkpoint, and SIGKILL after a grace.

A job that is stopped goes on for it, and its memory is not brought back: it takes what its end needs. So the grace is
bounded, and a second request can only shorten it: nobody keeps a job from being stopped for long. MPI's launchers
and daemons get no signal while other processes are there, because Open MPI's then kills the ranks within a second or
two. They end with the ranks.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import time
from collections.abc import Callable

from ctl.errors import CoschedError
from ctl.kernel.cgroups import JobCgroups
from ctl.kernel.launchers import is_launcher

__all__ = ["Endings"]


def _launches(pid: int) -> bool:
    try:
        return is_launcher(os.readlink(f"/proc/{pid}/exe"))
    except OSError:  # it has ended
        return False


class Endings:
    """The jobs of a node that have been told to end, and when they are killed. For the event loop's thread."""

    def __init__(self, cgroups: JobCgroups, tell: Callable[..., None]) -> None:
        """`tell`: (kind, text, **details), an event."""
        self._cgroups, self._tell = cgroups, tell
        self._ends: dict[str, float] = {}  # monotonic seconds
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def begin(self, jid: str, number: int, grace_s: int) -> int:
        """Send the signal to the job's processes; after `grace_s` seconds, or what an earlier call has left, those that
        are there are killed. Returns these seconds, at least 1."""
        left = self._left_s(jid)
        if left is None or grace_s < left:
            self.forget(jid)
            self._ends[jid] = time.monotonic() + grace_s
            self._timers[jid] = asyncio.get_running_loop().call_later(grace_s, self._kill, jid)
        pids = self._cgroups.pids(jid)
        told = [pid for pid in pids if not _launches(pid)] or pids
        for pid in told:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        name, left_s = signal.Signals(number).name, max(1, math.ceil(self._left_s(jid) or 0))
        self._tell("cancel", f"job {jid} got {name}; killed in {left_s} s", jid=jid, action="signal", signal=name)
        return left_s

    def __contains__(self, jid: object) -> bool:
        """Whether the job was told to end."""
        return jid in self._ends

    def why(self, jid: str) -> str:
        """What people are told of such a job."""
        return f"was told to end, killed in {self._left_s(jid) or 0:.0f} s"

    def forget(self, jid: str) -> None:
        """The job has ended."""
        if (timer := self._timers.pop(jid, None)) is not None:
            timer.cancel()
        self._ends.pop(jid, None)

    def clear(self) -> None:
        """The agent ends: nobody is killed any more."""
        for jid in list(self._ends):
            self.forget(jid)

    def _left_s(self, jid: str) -> float | None:
        """Seconds of its grace, 0 when it is over; None: the job was not told to end."""
        ends = self._ends.get(jid)
        return None if ends is None else max(0.0, ends - time.monotonic())

    def _kill(self, jid: str) -> None:
        self._timers.pop(jid, None)
        with contextlib.suppress(CoschedError, OSError):  # the job has ended, which the agent hears of next
            self._cgroups.kill(jid)
            self._tell("cancel", f"job {jid} is killed: its grace is over", jid=jid, action="kill")
