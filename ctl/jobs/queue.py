# SPDX-License-Identifier: GPL-2.0-or-later
"""The queue of this node's jobs under policy `fit`: their order, their turns, and what each needs.

    ctl run ──► ask() ──► waits outside, before its ranks touch memory
    job here ──► look() ──► fit() ──► jobs to be stopped, with reasons

The order is that of arrival. While jobs wait there are turns: at the end of a turn, jobs that waited go first in the
next, and jobs that ran go behind them. A job's need is what its owner declared, or else the estimate by its history
(history.py), or what it has had in memory and in swap if that is more (B-PP-7). A need that grows while the job runs
stops jobs that came later, never earlier ones.

A job that asks and must wait has no process here yet. It stays in the queue while it asks again within LEASE seconds,
so a command that was interrupted leaves nothing behind.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ctl.contract import Wish
from ctl.errors import FAILED, USAGE, CoschedError
from ctl.jobs.fit import Demand, Wait, fit
from ctl.jobs.history import History

__all__ = ["LEASE", "Queue"]

LEASE: Final = 5.0  # seconds


@dataclass
class _Entry:
    """A job in the queue."""

    jid: str
    user: str
    program: str = ""
    declared: int = 0  # bytes, by its owner
    estimated: int = 0  # bytes, by its history
    peak: int = 0  # bytes, as seen
    now: bool = False
    passed: int = 0
    runs: bool = False
    lease: float | None = None  # it asks, until then; None: it has processes here

    @property
    def need(self) -> int:
        return max(self.declared or self.estimated, self.peak)


class Queue:
    """The queue of one node. Sizes are bytes; times are seconds of any one clock."""

    def __init__(self, node: str = "here", history: History | None = None) -> None:
        """`history`: what jobs needed before; None: none is kept."""
        self._node, self._history = node, history
        self._jobs: dict[str, _Entry] = {}  # in their order
        self._waits: dict[str, Wait] = {}
        self._cancelled: set[str] = set()  # their commands have not asked since
        self._room = 0
        self._turn_ends: float | None = None  # None: nobody waits
        self.turns = 0

    def ask(self, wish: Wish, at: float) -> str:
        """May this job begin here? The empty string, or in words why it has to wait; then ask again.

        Raises CoschedError (status 2) if a job of this name waits for another user, and (status 1) if the job was
        cancelled while it waited.
        """
        jid = wish.jid
        if jid in self._cancelled:
            self._cancelled.discard(jid)
            if wish.again:
                raise CoschedError(f"job {jid} was cancelled while it waited", FAILED)
        entry = self._jobs.get(jid)
        if entry is None:
            entry = self._jobs[jid] = _Entry(jid, wish.user, wish.program, lease=at)
            entry.estimated = self._estimate(entry)
        elif entry.lease is None:  # a process more of a job that is here
            return ""
        elif entry.user != wish.user:
            raise CoschedError(f"job {jid} waits for user {entry.user}, not for {wish.user}: choose another JID", USAGE)
        entry.lease, entry.declared, entry.now = at + LEASE, max(entry.declared, wish.need), entry.now or wish.now
        self._decide(at)
        return self.why(jid)

    def look(self, at: float, sizes: Mapping[str, int], room: int, turn_s: float = 0.0) -> list[tuple[str, str]]:
        """The jobs to be stopped, with reasons, in the order of the queue.

        `sizes`: for each job with processes here, what it has in memory and in swap; `room`: for all jobs together;
        `turn_s`: length of a turn, 0: a job that runs runs to its end.
        """
        for jid in [jid for jid, one in self._jobs.items() if jid not in sizes and _is_over(one, at)]:
            self._ended(self._jobs.pop(jid))
        for jid, size in sizes.items():
            entry = self._jobs.setdefault(jid, _Entry(jid, ""))
            entry.peak, entry.lease = max(entry.peak, size), None
        self._room = room
        if turn_s <= 0 or not self._waits:
            self._turn_ends = None
        elif self._turn_ends is None:
            self._turn_ends = at + turn_s
        elif at >= self._turn_ends:
            self._turn_ends = at + turn_s
            self.turns += 1
            self._jobs = dict(sorted(self._jobs.items(), key=lambda item: item[1].runs))  # stable: who waited, first
        self._decide(at)
        return [(jid, self.why(jid)) for jid in self._waits if jid in sizes]

    def why(self, jid: str) -> str:
        """Why this job waits, in words; the empty string if it does not."""
        if jid not in self._waits:
            return ""
        ahead = [one.jid for one in self._jobs.values() if one.runs]
        return self._waits[jid].why() + (f"; after {', '.join(ahead)}" if ahead else "")

    def cancel(self, jid: str) -> bool:
        """Forget a job that asks and has no process here; False if there is none."""
        entry = self._jobs.get(jid)
        if entry is None or entry.lease is None:
            return False
        del self._jobs[jid]
        self._waits.pop(jid, None)
        self._cancelled.add(jid)
        return True

    def user(self, jid: str) -> str | None:
        """The user for whom a job waits outside; None if no such job does."""
        entry = self._jobs.get(jid)
        return entry.user if entry is not None and entry.lease is not None else None

    def clear(self) -> None:
        """Forget all: the policy has no queue any more."""
        self._jobs.clear()
        self._waits.clear()
        self._turn_ends = None

    def rows(self, at: float) -> dict[str, Any]:
        """The queue for people: the room, the turn's rest, and the jobs in their order."""
        left = max(0.0, self._turn_ends - at) if self._waits and self._turn_ends is not None else None
        jobs = [
            {
                "jid": one.jid,
                "state": "runs" if one.runs else "waits" if one.lease is not None else "stopped",
                "need": one.need,
                "declared": one.declared,
                "estimated": one.estimated,
                "passed": one.passed,
                "why": self.why(one.jid),
            }
            for one in self._jobs.values()
        ]
        return {"room": self._room, "turn_left_s": left, "turns": self.turns, "jobs": jobs}

    def history(self) -> list[dict[str, Any]]:
        """What jobs needed so far, for people."""
        return self._history.rows(time.time()) if self._history is not None else []

    def _estimate(self, entry: _Entry) -> int:
        if self._history is None or not entry.program:
            return 0
        return self._history.estimate(entry.program, entry.user, time.time())

    def _ended(self, entry: _Entry) -> None:
        if self._history is not None and entry.program and entry.peak:
            self._history.observe(entry.program, entry.user, entry.peak, time.time())

    def _decide(self, at: float) -> None:
        """Apply the rule, and count who was passed."""
        for jid in [jid for jid, one in self._jobs.items() if one.lease is not None and _is_over(one, at)]:
            del self._jobs[jid]
        demands = [
            Demand(one.jid, {self._node: one.need}, one.runs, one.passed, one.now) for one in self._jobs.values()
        ]
        running, waits = fit(demands, {self._node: self._room})
        self._waits = {wait.jid: wait for wait in waits}
        started = 0  # behind the job that is looked at
        for one in reversed(self._jobs.values()):
            if one.jid in running:
                started += not one.runs
                one.passed, one.runs = 0, True
            else:
                one.passed += started
                one.runs = False


def _is_over(entry: _Entry, at: float) -> bool:
    """Whether a job is gone: it had processes here, or it asked too long ago."""
    return entry.lease is None or at > entry.lease
