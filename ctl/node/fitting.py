# SPDX-License-Identifier: GPL-2.0-or-later
"""Policy `fit` on this node: what jobs have, the room for them, and which of them are stopped.

    jobs' memory, the node's memory ──► room, sizes ──► the queue (ctl/jobs) ──► stops ──► freezer, limit

The queue decides; this file measures, and holds the jobs together to the room (ctl/node/pools.py), so that the kernel
takes their pages and not a local task's.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

from ctl.contract import JobQueue, Wish
from ctl.errors import CoschedError
from ctl.kernel.cgroups import JobCgroups
from ctl.node.pools import Pools
from ctl.node.room import Room, reserve, take_sample
from ctl.node.set_memory import Job

__all__ = ["Fitting"]

_TURN_IN_EXCHANGES: Final = 20  # a turn is at least this many times the exchange of memory at its begin
_SQUEEZED: Final = 1 << 20  # bytes in swap


class Fitting:
    """The jobs that fit here. All calls are for the event loop's thread."""

    def __init__(self, queue: JobQueue, cgroups: JobCgroups, pools: Pools) -> None:
        self.stops: tuple[tuple[str, str], ...] = ()  # (JID, why)
        self._queue, self._cgroups, self._pools, self._room = queue, cgroups, pools, Room()

    def look(self, jobs: Iterable[Job], turn_s: float) -> bool:
        """Decide anew, by the memory of the jobs here (all of them) and of the node; whether the stops have changed."""
        seen, now, before, sample = list(jobs), time.monotonic(), self.stops, take_sample()
        held, files = self._cgroups.pool_held()
        held += sum(job.resident for job in seen if self._cgroups.is_slurm(job.jid))
        room = self._room.look(now, sample, held, files)
        locked = {job.jid: self._locked(job) for job in seen}  # it stays whether its job runs or not
        sizes = {job.jid: max(0, job.need - locked[job.jid]) for job in seen}
        turn_s = turn_s and max(turn_s, _TURN_IN_EXCHANGES * self._pools.exchange_s)
        self.stops = tuple(self._queue.look(now, sizes, max(0, room - sum(locked.values())), turn_s))
        stopped = dict(self.stops)
        for job in seen:  # what fits may have been squeezed before another was stopped
            if job.jid not in stopped and job.swapped >= _SQUEEZED:
                self._pools.come_back(job.jid)
        if seen:
            # the reserve is above the limit's edge: a job that fits by what is counted here must not be throttled by
            # what the kernel counts besides
            self._pools.hold(room + reserve(sample.total))
        return self.stops != before

    def _locked(self, job: Job) -> int:
        try:
            return self._cgroups.locked(job.jid)
        except (CoschedError, OSError):  # it has just ended
            return 0

    def ask(self, wish: Wish) -> str:
        """May this job begin here? The empty string, or why it has to wait; then ask again."""
        return self._queue.ask(wish, time.monotonic())

    def waits_for(self, jid: str) -> str | None:
        """The user for whom a job waits outside; None if none does."""
        return self._queue.user(jid)

    def cancel(self, jid: str) -> None:
        """Forget a job that waits outside."""
        self._queue.cancel(jid)

    def clear(self) -> None:
        """Stop nothing any more."""
        self.stops = ()
        self._queue.clear()

    def report(self) -> dict[str, Any]:
        """The queue: the result of the operation `queue`."""
        return self._queue.rows(time.monotonic())

    def history(self) -> list[dict[str, Any]]:
        """What jobs needed: the result of the operation `history`."""
        return self._queue.history()
