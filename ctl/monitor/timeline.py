# SPDX-License-Identifier: GPL-2.0-or-later
"""What the CPUs of a node did, from its decisions: who ran and who waited, when, and which messages moved a task.

A record shows a CPU's queue and its running task at one moment. The state between two records is known only as far as
they agree on it:

    a task waits     from the record that inserts it, or first shows it, to the first that no longer does
    a task runs      only if a record says so: it is the running one, or its quantum ended. It began when it left the
                     queue, at the earliest at the record before; it ends with the record that shows another, or none

So a run that no record of its CPU saw is not shown, and a run may have ended earlier than it seems to. A decision and
its time are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ctl.kernel.trace import BETWEEN, PUT_BACK, WINDOW

__all__ = ["Decided", "Span", "Timeline", "label"]

_BETWEEN: Final = ("expire", PUT_BACK)  # causes of records that a CPU makes between two tasks: none runs


class Span(NamedTuple):
    """A task waited in a CPU's queue, or ran on it; times in ns of the records' clock."""

    kind: str  # "queued" or "runs"
    cpu: int
    task: dict[str, Any]  # as in the record that shows it first
    begin: int
    end: int
    decision: int | None = None  # the number of the decision by a message that this run follows


class Decided(NamedTuple):
    """A decision, numbered from 0, and the length of its queue afterwards."""

    number: int
    record: dict[str, Any]
    queued: int


def label(task: dict[str, Any]) -> str:
    """A task's name: its command's and its thread id."""
    return f"{task['comm']}/{task['tid']}"


@dataclass
class _Now:
    """A task in a queue or on a CPU, since when."""

    task: dict[str, Any]
    since: int


@dataclass
class _Cpu:
    """One CPU as the last record of it left it."""

    at: int  # time of this record
    queued: dict[int, _Now] = field(default_factory=dict)  # by thread id, the order is the queue's
    left: dict[int, int] = field(default_factory=dict)  # left the queue at this time and was not seen since
    runs: _Now | None = None
    free: int = 0  # the end of its last run


class Timeline:
    """Follows the records of one node, put-backs included if there are any."""

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._cpus: dict[int, _Cpu] = {}
        self._place: dict[int, int] = {}  # thread id -> the CPU in whose queue it is, or on which it runs
        self._by_message: dict[int, tuple[int, int]] = {}  # thread id -> the decision that raised it last, and its time
        self._ends: dict[int, int] = {}  # thread id -> the end of its last span: spans of a task do not overlap
        self._numbered = 0

    def feed(self, record: dict[str, Any]) -> Iterator[Span | Decided]:
        """A record as ctl/kernel/trace.py decodes it: the spans that end with it, and itself if it is a decision."""
        now, cpu = record["ns"], self._cpus.setdefault(record["cpu"], _Cpu(record["ns"]))
        yield from self._away(record, now)
        yield from self._left(record, cpu, now)
        yield from self._running(record, cpu, now)
        queue = list(record["queue"])
        if record["cause"] in ("message", WINDOW):
            queue = [task for task in queue if task["tid"] != record["task"]["tid"]]
        if record["cause"] != WINDOW:
            queue.insert(record["position"], record["task"])
        known, cpu.queued = cpu.queued, {}
        for task in queue:
            cpu.queued[task["tid"]] = known.get(task["tid"]) or _Now(task, now)
            self._place[task["tid"]] = record["cpu"]
            cpu.left.pop(task["tid"], None)
        cpu.at = max(cpu.at, now)
        if record["cause"] not in BETWEEN:
            self._by_message.pop(record["task"]["tid"], None)
            if record["cause"] == "message":
                self._by_message[record["task"]["tid"]] = self._numbered, now
            yield Decided(self._numbered, record, len(queue))
            self._numbered += 1

    def close(self) -> Iterator[Span]:
        """The spans that the last records leave open, up to the last record of their CPU."""
        for number, cpu in self._cpus.items():
            for entry in cpu.queued.values():
                yield self._span("queued", number, entry, cpu.at)
            yield from self._stop(number, cpu, cpu.at)
            cpu.queued.clear()

    def _away(self, record: dict[str, Any], now: int) -> Iterator[Span]:
        """The tasks of this record are no longer where another CPU had them."""
        for task in filter(None, (record["task"], record["running"], *record["queue"])):
            before = self._place.get(task["tid"], record["cpu"])
            if before == record["cpu"]:
                continue
            cpu = self._cpus[before]
            if (entry := cpu.queued.pop(task["tid"], None)) is not None:
                yield self._span("queued", before, entry, now)
            if cpu.runs is not None and cpu.runs.task["tid"] == task["tid"]:
                yield from self._stop(before, cpu, now)

    def _left(self, record: dict[str, Any], cpu: _Cpu, now: int) -> Iterator[Span]:
        """Tasks that the queue no longer has; of a queue that is longer than its record it is not known."""
        if record["truncated"]:
            return
        there = {task["tid"] for task in record["queue"]}
        for tid in [tid for tid in cpu.queued if tid not in there]:
            at = cpu.at if record["cause"] in _BETWEEN and tid == record["task"]["tid"] else now
            cpu.left[tid] = at
            yield self._span("queued", record["cpu"], cpu.queued.pop(tid), at)

    def _running(self, record: dict[str, Any], cpu: _Cpu, now: int) -> Iterator[Span]:
        """Who runs, by this record; it may end the run of the task before."""
        ended = record["cause"] in _BETWEEN
        task = record["task"] if ended else record["running"]
        before = None if cpu.runs is None else cpu.runs.task["tid"]
        if record["cause"] == PUT_BACK and before != task["tid"]:
            return  # its run ended with the decision that displaced it
        if task is None:
            yield from self._stop(record["cpu"], cpu, now)
        elif before != task["tid"]:
            began = cpu.left.pop(task["tid"], cpu.at if ended else now)
            began = began if before is None else max(began, cpu.at)
            yield from self._stop(record["cpu"], cpu, began)
            cpu.runs = _Now(task, began)
            self._place[task["tid"]] = record["cpu"]
        if ended or record["preempt"]:
            yield from self._stop(record["cpu"], cpu, now)

    def _stop(self, number: int, cpu: _Cpu, end: int) -> Iterator[Span]:
        if cpu.runs is not None:
            entry, cpu.runs = cpu.runs, None
            entry.since = max(entry.since, cpu.free)
            span = self._span("runs", number, entry, end)
            cpu.free = span.end
            decision, at = self._by_message.pop(entry.task["tid"], (None, 0))
            yield span._replace(decision=decision) if span.begin >= at else span

    def _span(self, kind: str, cpu: int, entry: _Now, end: int) -> Span:
        """A span that begins no earlier than the task's last one ended: records of two CPUs may be out of order."""
        tid = entry.task["tid"]
        begin = max(entry.since, self._ends.get(tid, entry.since))
        self._ends[tid] = end = max(begin, end)
        return Span(kind, cpu, entry.task, begin, end)
