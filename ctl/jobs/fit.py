# SPDX-License-Identifier: GPL-2.0-or-later
"""Which jobs run: those whose memory fits together, on all their nodes (policy `fit`).

This is ParPar's admission (ParPar §3.2): in the order of the queue, a job runs if its need fits beside the needs of the
running jobs before it. A job that does not fit waits, and later jobs may pass it, PASSES times; from then on no job
that waits behind it may start (B-PP-8, PP-20).

A job that needs more than the whole room would page without end. So others pass it, too. It begins, and runs alone,
whatever it needs, if no other job can use its nodes (B-PP-9). Of several such jobs that one begins which lacks least,
because it pages least; the reading of the paper has the first. And a job must not wait for ever, which is ours, too: it
begins if it was passed PASSES times.

A job whose owner has stopped its processes, by SIGSTOP or with a debugger, gives way to all others: it is in memory
only where it fits beside them. It keeps its place in the order for the time when it is continued.

The rule is a function of facts, so nodes that know the same facts come to the same verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ctl.contract import SUSPENDED
from ctl.jobs.mib import needed, there

__all__ = ["PASSES", "Demand", "Wait", "fit"]

PASSES: Final = 15  # ParPar §3.2


@dataclass(frozen=True, slots=True)
class Demand:
    """What the rule knows of one job."""

    jid: str
    needs: Mapping[str, int]  # bytes, on each node that holds its ranks
    runs: bool = False  # it runs now
    passed: int = 0  # jobs that started while it waited before them
    now: bool = False  # its owner wants it to run whether or not it fits
    suspended: bool = False  # its owner has stopped its processes


@dataclass(frozen=True, slots=True)
class Wait:
    """A job that waits, and the reason."""

    jid: str
    node: str
    need: int  # bytes on this node, of which `free` are there
    free: int
    behind: str = ""  # the job that no other may pass any more; empty: it does not fit
    suspended: bool = False  # it waits for its owner, and not for a turn

    def why(self, several: bool = False) -> str:
        """The reason in words, with the node if there are `several`.

        >>> Wait("sim2", "node2", 48 << 20, 31 << 20).why(several=True)
        'needs 48 MiB on node2, 31 are free'
        >>> Wait("sim2", "node2", 4096, 0).why()
        'no memory is free'
        """
        return f"{SUSPENDED}: {self._lack(several)}" if self.suspended else self._lack(several)

    def _lack(self, several: bool) -> str:
        if self.behind:
            return f"job {self.behind} was passed {PASSES} times and is next"
        where = f" on {self.node}" if several else ""
        if not there(self.need):
            return f"no memory is free{where}"
        return f"needs {needed(self.need)} MiB{where}, {there(self.free)} are free"


def fit(jobs: Sequence[Demand], rooms: Mapping[str, int]) -> tuple[list[str], list[Wait]]:
    """The jobs that run, and those that wait, both in the order of `jobs`. `rooms`: bytes for jobs on each node.

    >>> two = [Demand("a", {"n": 40}), Demand("b", {"n": 30})]
    >>> running, waits = fit(two, {"n": 60})
    >>> running, waits[0].jid, waits[0].need, waits[0].free
    (['a'], 'b', 30, 20)
    >>> fit(two, {"n": 35})[0], fit(two, {"n": 10})[0]  # a is too large; where both are, b lacks less
    (['b'], ['b'])
    """
    seats = _Seats(rooms)
    for suspended in (False, True):
        seats.fill([job for job in jobs if job.suspended == suspended])
    return [job.jid for job in jobs if job.jid in seats.running], [
        seats.waits[job.jid] for job in jobs if job.jid in seats.waits
    ]


class _Seats:
    """The memory of all nodes, and who has it."""

    def __init__(self, rooms: Mapping[str, int]) -> None:
        self.running: set[str] = set()
        self.waits: dict[str, Wait] = {}
        self._rooms, self._free, self._taken = rooms, dict(rooms), set[str]()
        self._first = ""  # the job that no other may pass

    def fill(self, jobs: Sequence[Demand]) -> None:
        """Jobs in their order, beside those that run already."""
        for job in jobs:
            now = job.now and not job.suspended
            short = next((node for node, need in job.needs.items() if need > self._free[node]), None)
            alone = self._taken.isdisjoint(job.needs)
            if short is not None and not now and not (alone and (job.runs or job.passed >= PASSES)):
                self._wait(job, short)
                self._first = self._first or (job.jid if job.passed >= PASSES else "")
            elif self._first and not job.runs and not now:
                self._wait(job, next(iter(job.needs), ""), self._first)
            else:
                self._run(job)
        for job in sorted(jobs, key=lambda job: _lacks(job, self._rooms)):  # of jobs alike the first
            wait = self.waits.get(job.jid)
            if wait is not None and not wait.behind and self._taken.isdisjoint(job.needs):
                del self.waits[job.jid]
                self._run(job)

    def _run(self, job: Demand) -> None:
        self.running.add(job.jid)
        self._taken.update(job.needs)
        for node, need in job.needs.items():
            self._free[node] -= need

    def _wait(self, job: Demand, node: str, behind: str = "") -> None:
        need, free = job.needs.get(node, 0), max(0, self._free.get(node, 0))
        self.waits[job.jid] = Wait(job.jid, node, need, free, behind, job.suspended)


def _lacks(job: Demand, rooms: Mapping[str, int]) -> int:
    """What a job lacks if it runs alone, bytes on the node where it is most."""
    return max((need - rooms[node] for node, need in job.needs.items()), default=0)
