# SPDX-License-Identifier: GPL-2.0-or-later
"""What happened on a node, told from its log of events: jobs, waits, stops, figures, losses. Times are Unix times.

An agent may be killed, and its jobs run on without a witness. The next agent takes jobs up again that are still there,
and tells them as begun; a job that it does not tell has ended in between, nobody knows when.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ctl.monitor.event_log import FIGURES, Found

__all__ = ["Job", "Report", "Row", "Stop", "tell_of"]

_TOLD: Final = ("agent", "policy", "knobs", "overload", "local_user", "sched_ext", "cluster", "event", "slots", "cpu",
                "sensors", "lost", "weight")  # fmt: skip
_DAMAGED: Final = (KeyError, TypeError, ValueError, AttributeError, OverflowError)  # by fields of a line
_GAP_S: Final = 150.0  # two rows further apart are not joined: no agent ran between them


@dataclass
class Stop:
    """A job was stopped from then to then; `until` None: it still is."""

    since: float
    until: float | None
    why: str


@dataclass
class Job:
    """A job's story on this node."""

    jid: str
    user: str = ""
    asked: float | None = None  # it waited before it began
    why: str = ""  # it waited
    began: float | None = None  # None: it waits, or gave up
    ended: float | None = None  # None: it goes on, or `end` says why that is unknown
    end: str = ""  # in words
    stops: list[Stop] = field(default_factory=list)
    cpu_s: float | None = None
    most: int | None = None  # bytes in memory and swap, the most that was seen

    @property
    def first(self) -> float:
        """When it was first heard of."""
        known = [at for at in (self.asked, self.began) if at is not None]
        return min(known) if known else 0.0

    def waited(self, now: float) -> float:
        """Seconds from its wish to its beginning, to its giving up, or to now."""
        if self.asked is None:
            return 0.0
        return (self.began or self.ended or now) - self.asked

    def stopped(self, now: float) -> float:
        """Seconds in which it was stopped."""
        return sum((stop.until or self.ended or now) - stop.since for stop in self.stops)


@dataclass(frozen=True)
class Row:
    """Figures of a moment; `joined`: the agent saw all the time since the row before. Shares are 0 to 1."""

    at: float
    joined: bool
    user: bool
    overloaded: bool
    set_share: float
    achieved: float | None
    stalled: Mapping[str, float]  # resource to the part of the time since the last row in which a task waited for it


@dataclass
class Report:
    """A node's report."""

    node: str
    since: float
    until: float
    jobs: list[Job]
    rows: list[Row]
    events: list[Mapping[str, Any]]  # those that are not about single jobs
    lost: dict[str, int]  # what was lost in this span, by name
    damaged: int  # lines of the log

    def part(self, name: str) -> float | None:
        """The part of the observed time in which `user` or `overloaded` held; None: nothing was observed."""
        pairs = zip(self.rows, self.rows[1:], strict=False)
        spans = [(after.at - before.at, bool(getattr(after, name))) for before, after in pairs if after.joined]
        total = sum(length for length, _ in spans)
        return sum(length for length, held in spans if held) / total if total else None


def tell_of(found: Found, since: float, until: float) -> Report:
    """The report of a log from `since`, or from its first event where that is later.

    A line with fields that are missing or of other types is counted as damaged.
    """
    jobs, damaged = _Jobs(), found.damaged
    rows: list[Mapping[str, Any]] = []
    others: list[Mapping[str, Any]] = []
    for event in found.events:
        try:
            if event["kind"] == FIGURES:
                jobs.figures(event)
                rows.append(event)
            else:
                jobs.event(event)
                if event["kind"] in _TOLD:
                    others.append({"time": float(event["time"]), "kind": event["kind"], "text": str(event["text"])})
        except _DAMAGED:
            damaged += 1
    shown, bad = _rows(rows)
    since = max(since, min((float(event["time"]) for event in found.events), default=since))
    return Report(found.node, since, until, jobs.told(), shown, others, _losses(found.events), damaged + bad)


class _Jobs:
    """The stories, as events come."""

    def __init__(self) -> None:
        self._all: list[Job] = []
        self._open: dict[str, Job] = {}
        self._unseen: dict[str, Job] = {}  # they were there under an agent that was killed
        self._last = 0.0

    def event(self, event: Mapping[str, Any]) -> None:
        """An event that is no row of figures."""
        kind, at, action = event["kind"], float(event["time"]), event.get("action")
        if kind == "agent":
            self._agent(at, action == "begin")
        elif isinstance(jid := event.get("jid"), str):
            if kind == "queue" and action == "wait":
                self._asked(jid, at, str(event.get("user", "")), str(event["why"]))
            elif (kind, action) == ("queue", "cancel"):
                self._end(jid, at, "cancelled while it waited")
            elif (kind, action) == ("job", "begin"):
                self._begin(jid, at, str(event.get("user", "")))
            elif (kind, action) == ("job", "end"):
                self._end(jid, at, "")
            elif kind == "stop":
                self._stop(jid, at, str(event["why"]) if action == "stop" else None)
            elif kind == "task" and action == "exit" and event.get("status") and jid in self._open:
                self._open[jid].end = str(event["text"]).partition(": process ")[2].partition(" ")[2]
        self._last = at

    def figures(self, row: Mapping[str, Any]) -> None:
        """A row: what jobs used so far, and which wait."""
        at = float(row["time"])
        for jid, used in row["jobs"].items():
            if job := self._open.get(jid):
                job.cpu_s = float(used["cpu_s"])
                job.most = max(job.most or 0, int(used["memory"]) + int(used["swap"]))
        for jid, job in list(self._open.items()):
            if job.began is None and jid not in row["waits"] and job.first < at:
                self._end(jid, at, "gave up")
        self._last = at

    def told(self) -> list[Job]:
        """All stories, in the order of their beginnings."""
        for job in self._unseen.values():
            job.end = "ended while no agent ran"
        return sorted(self._all, key=lambda job: job.first)

    def _agent(self, at: float, begins: bool) -> None:
        """An agent began or ended: whatever was stopped went on at its end, or when it was last heard of."""
        for job in self._open.values():
            self._go_on(job, self._last if begins else at)
        if begins:
            self._unseen.update(self._open)
            self._open.clear()

    def _asked(self, jid: str, at: float, user: str, why: str) -> None:
        if jid not in self._open:
            self._new(Job(jid, user, asked=at, why=why))

    def _begin(self, jid: str, at: float, user: str) -> None:
        if jid in self._unseen:
            self._open[jid] = self._unseen.pop(jid)
        job = self._open.get(jid) or self._new(Job(jid))
        job.user = user or job.user
        job.began = at if job.began is None else job.began

    def _end(self, jid: str, at: float, how: str) -> None:
        job = self._open.pop(jid, None)
        if job is not None:
            job.ended, job.end = at, how or job.end or "ended"
            self._go_on(job, at)

    def _stop(self, jid: str, at: float, why: str | None) -> None:
        """Stopped for this reason, or None: it goes on."""
        job = self._open.get(jid)
        if job is None:
            return
        self._go_on(job, at)
        if why is not None:
            job.stops.append(Stop(at, None, why))

    def _new(self, job: Job) -> Job:
        self._all.append(job)
        self._open[job.jid] = job
        return job

    @staticmethod
    def _go_on(job: Job, at: float) -> None:
        if job.stops and job.stops[-1].until is None:
            job.stops[-1].until = max(at, job.stops[-1].since)


def _rows(events: Iterable[Mapping[str, Any]]) -> tuple[list[Row], int]:
    """Rows of figures; and how many were damaged."""
    found: list[Row] = []
    damaged, before = 0, None
    for event in events:
        try:
            at = float(event["time"])
            span = at - float(before["time"]) if before is not None else 0.0
            joined = 0.0 < span <= _GAP_S
            stalled: dict[str, float] = {}
            if joined and before is not None:
                for name, total in event["stalled"].items():
                    grown = total - before["stalled"].get(name, total)
                    stalled[name] = min(1.0, max(0.0, grown / 1e6 / span))
            present, overloaded, achieved = bool(event["user"]), bool(event["overloaded"]), event["achieved"]
            achieved = None if achieved is None else float(achieved)
            row = Row(at, joined, present, overloaded, float(event["set"]), achieved, stalled)
        except _DAMAGED:
            damaged += 1
            continue
        found.append(row)
        before = event
    return found, damaged


def _losses(events: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """What was lost in this span, by name: from the first row on, and an agent that begins counts from 0."""
    total: Counter[str] = Counter()
    before: dict[str, int] | None = None
    for event in events:
        if event["kind"] == "agent" and event.get("action") == "begin":
            before = {}
        elif event["kind"] == "lost" and _is_count(event.get("lost")):
            total["events not recorded"] += event["lost"]
        elif event["kind"] == FIGURES and isinstance(event.get("lost"), dict):
            now = {name: count for name, count in event["lost"].items() if _is_count(count)}
            for name, count in now.items():
                total[name] += max(0, count - (now if before is None else before).get(name, 0))
            before = now
    return {name: count for name, count in total.items() if count}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
