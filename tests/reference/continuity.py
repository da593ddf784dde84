# SPDX-License-Identifier: GPL-2.0-or-later
"""Is what one decision found the ready queue that the one before it left?

Between two records of a CPU tasks may leave its queue from the head only (they were dispatched, or stolen
by an idle CPU). Nothing else may change: neither the order of the other tasks nor their de. A displaced task that goes
back to its place has its own record, and so has one that leaves past others in a window of gangs. Lost and truncated
records start the chain anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .insert_rq import Task
from .records import WINDOW, Record

__all__ = ["Chain"]

_SEQ = 1 << 32


@dataclass
class Chain:
    """One CPU's queue, followed from record to record."""

    lost: int = 0
    checked: int = 0  # pairs of records compared
    left_middle: int = 0  # tasks that left from behind others: requeued, or unable to run on the CPU that stole
    ran_early: list[str] = field(default_factory=list)  # wrong on one CPU: with several it may have been a steal
    _seq: int | None = None
    _queue: tuple[Task, ...] | None = None
    _taken: dict[int, int] = field(default_factory=dict)  # left the middle -> CPU time it had
    mno: list[int] = field(default_factory=lambda: [0, 0])
    """The highest MNOL and MNOD so far, on all CPUs: de may date from them, and go with a task to another CPU. Behind
    lost records it is the highest de that is found, if that is more."""

    def follow(self, record: Record) -> list[str]:
        """Compare a record with the preceding record; returns the faults, one sentence each."""
        problems = self._check_sequence(record)
        problems += self._check_de(record)
        if self._queue is not None and not record.truncated:
            self.checked += 1
            problems += self._check_order(self._queue, record)
            self._check_taken(record)
        self._remember(record)
        return problems

    def _check_sequence(self, record: Record) -> list[str]:
        expected = record.seq if self._seq is None else (self._seq + 1) % _SEQ
        missing = (record.seq - expected) % _SEQ
        self._seq = record.seq
        if not missing:
            return []
        self._queue, self._taken = None, {}
        if missing > _SEQ // 2:
            return [f"seq {record.seq} comes after {expected - 1}: records out of order"]
        self.lost += missing
        for q in record.seen:  # a lost record may have had a higher MNO
            self.mno[q.parallel] = max(self.mno[q.parallel], q.de)
        return []

    def _check_de(self, record: Record) -> list[str]:
        mnol, mnod = self.mno[:] = [*map(max, self.mno, (record.env.mnol, record.env.mnod))]
        return [
            f"de of {q.tid} is {q.de}, above MNO {mnod if q.parallel else mnol}"
            for q in record.seen
            if q.de > (mnod if q.parallel else mnol)
        ]

    def _check_order(self, expected: tuple[Task, ...], record: Record) -> list[str]:
        problems = []
        was = {q.tid: j for j, q in enumerate(expected)}
        now = {q.tid: j for j, q in enumerate(record.seen)}
        stay = [q for q in expected if q.tid in now]
        places = [now[q.tid] for q in stay]
        if places != sorted(places):
            problems.append(f"order changed: left {_tids(expected)}, found {_tids(record.seen)}")
        for q in stay:
            found = record.seen[now[q.tid]].de
            # de of an earlier time is void when the first job comes: nobody could overtake before
            if found != q.de and (found or any(other.parallel for other in expected)):
                problems.append(f"de of {q.tid} was left at {q.de} and found at {found}")
        for q in record.seen:
            if q.tid not in was:
                problems.append(f"{q.tid} came without a record: left {_tids(expected)}, found {_tids(record.seen)}")
        first_left = was[stay[0].tid] if stay else len(expected)
        for q in expected[first_left:]:
            if q.tid not in now:
                self.left_middle += 1
                self._taken[q.tid] = q.cpu_ns
        return problems

    def _check_taken(self, record: Record) -> None:
        """A task that left from behind others must have been requeued (affinity, cgroup), because it could not run."""
        for q in record.seen:
            if q.tid != record.task.tid:
                self._taken.pop(q.tid, None)
        ran = set()
        if record.running and self._taken.pop(record.running.tid, None) is not None:
            ran.add(record.running.tid)
        had = self._taken.pop(record.task.tid, None)
        if had is not None and record.task.cpu_ns != had:
            ran.add(record.task.tid)
        self.ran_early += [
            f"seq {record.seq}: {tid} left from behind others and ran: dispatch out of order" for tid in sorted(ran)
        ]

    def _remember(self, record: Record) -> None:
        if record.truncated:
            self._queue = None
            return
        charged = set(record.overtaken)
        queue = [q._replace(de=q.de + (q.tid in charged)) for q in record.queue]
        if record.env.cause != WINDOW:
            queue.insert(record.position, record.task)
        self._queue = tuple(queue)


def _tids(queue: tuple[Task, ...]) -> str:
    return "[" + " ".join(str(q.tid) for q in queue) + "]"
