# SPDX-License-Identifier: GPL-2.0-or-later
"""Which jobs run: those whose memory fits together, on all their nodes (policy `fit`).

This is ParPar's admission (ParPar §3.2): in the order of the queue, a job runs if its need fits beside the needs of the
running jobs before it. A job that does not fit waits, and later jobs may pass it, PASSES times; from then on no job
that waits behind it may start (B-PP-8, PP-20).

A job that needs more than the whole room would page without end. So others pass it, too. It begins, and runs alone,
whatever it needs, if no other job can use its nodes (B-PP-9). Of several such jobs that one begins which lacks least,
because it pages least; the reading of the paper has the first. And a job must not wait for ever, which is ours, too: it
begins if it was passed PASSES times.

The rule is a function of facts, so nodes that know the same facts come to the same verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

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


@dataclass(frozen=True, slots=True)
class Wait:
    """A job that waits, and the reason."""

    jid: str
    node: str
    need: int  # bytes on this node, of which `free` are there
    free: int
    behind: str = ""  # the job that no other may pass any more; empty: it does not fit

    def why(self, several: bool = False) -> str:
        """The reason in words, with the node if there are `several`.

        >>> Wait("sim2", "node2", 48 << 20, 31 << 20).why(several=True)
        'needs 48 MiB on node2, 31 are free'
        >>> Wait("sim2", "node2", 4096, 0).why()
        'no memory is free'
        """
        if self.behind:
            return f"job {self.behind} was passed {PASSES} times and is next"
        where = f" on {self.node}" if several else ""
        if not there(self.need):
            return f"no memory is free{where}"
        return f"needs {needed(self.need)} MiB{where}, {there(self.free)} are free"


def fit(jobs: Sequence[Demand], rooms: Mapping[str, int]) -> tuple[list[str], list[Wait]]:
    """The jobs that run, and those that wait, both in the order of `jobs`. `rooms`: bytes for jobs on each node.

    >>> two = [Demand("a", {"n": 40}), Demand("b", {"n": 30})]
    >>> fit(two, {"n": 60})
    (['a'], [Wait(jid='b', node='n', need=30, free=20, behind='')])
    >>> fit(two, {"n": 35})[0], fit(two, {"n": 10})[0]  # a is too large; where both are, b lacks less
    (['b'], ['b'])
    """
    free, taken = dict(rooms), set[str]()
    running = set[str]()
    waits: dict[str, Wait] = {}
    first = ""  # the job that no other may pass

    def run(job: Demand) -> None:
        running.add(job.jid)
        taken.update(job.needs)
        for node, need in job.needs.items():
            free[node] -= need

    for job in jobs:
        short = next((node for node, need in job.needs.items() if need > free[node]), None)
        alone = taken.isdisjoint(job.needs)
        if short is not None and not job.now and not (alone and (job.runs or job.passed >= PASSES)):
            waits[job.jid] = Wait(job.jid, short, job.needs[short], max(0, free[short]))
            first = first or (job.jid if job.passed >= PASSES else "")
        elif first and not job.runs and not job.now:
            node = next(iter(job.needs), "")
            waits[job.jid] = Wait(job.jid, node, job.needs.get(node, 0), max(0, free.get(node, 0)), first)
        else:
            run(job)
    for job in sorted(jobs, key=lambda job: _lacks(job, rooms)):  # of jobs alike the first
        if job.jid in waits and not waits[job.jid].behind and taken.isdisjoint(job.needs):
            del waits[job.jid]
            run(job)
    return [job.jid for job in jobs if job.jid in running], list(waits.values())


def _lacks(job: Demand, rooms: Mapping[str, int]) -> int:
    """What a job lacks if it runs alone, bytes on the node where it is most."""
    return max((need - rooms[node] for node, need in job.needs.items()), default=0)
