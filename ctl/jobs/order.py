# SPDX-License-Identifier: GPL-2.0-or-later
"""One order of all jobs of all nodes, from the facts that the nodes tell each other (policy `fit`).

    facts of each node ──► merge() ──► jobs in their order ──► fit() ──► jobs that run, on every node the same

The facts of a job that several nodes hold are put together: its needs are theirs, it has the earliest number, and the
latest time at which it went behind. So the order of messages does not matter, and nodes that know the same facts have
the same order.

The order decides twice: who is in memory, and who of these has the CPU first (rule `order` in the kernel).

Turns are counted by the clock: a turn ends when its length divides the seconds since 1970, on all nodes at once. Then
the jobs that ran go behind: their `behind` is that moment. The order is by `behind`, then by arrival. A job that comes
counts as gone behind at the last end of a turn, so it is behind those that waited longer, and before none that came
earlier. A job that began to run late in a turn stays for the next: it keeps its memory for at least KEPT of a turn.

While nobody waits for memory, turns are of the CPU alone. Where a job has to wait and none had to for a turn, they are
forgotten: the jobs are in the order of their arrival again, and their time counts from this moment.

A clock may be wrong for a while, and what it told stays in the facts. A time more than MAX_SKEW ahead is of such a
clock, and does not count: else a job that began then would keep its memory until that day, and a job that went behind
would stay there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ctl.contract import MAX_SKEW, JobFacts, NodeFacts
from ctl.jobs.fit import Demand

__all__ = ["KEPT", "Known", "had_their_turn", "last_end", "merge"]

KEPT: Final = 0.75  # of a turn
_LAST: Final = 1 << 62  # jobs without a number come last


@dataclass(slots=True)
class Known:
    """A job by the facts of all nodes that hold it."""

    jid: str
    needs: dict[str, int] = field(default_factory=dict)  # bytes, by node
    arrival: int = _LAST
    place: int = _LAST  # in a node's own order, for jobs without a number
    behind: float = 0.0
    since: float = 0.0
    passed: int = 0
    here: bool = False  # it has processes somewhere
    runs: bool = False
    now: bool = False
    suspended: bool = False  # on one of its nodes: the others wait for that one

    def add(self, node: str, place: int, fact: JobFacts) -> None:
        """What one more node knows."""
        self.needs[node] = fact.need
        self.arrival = min(self.arrival, fact.arrival or _LAST)
        self.place = min(self.place, place)
        self.behind = max(self.behind, fact.behind)
        self.since = max(self.since, fact.since)
        self.passed = max(self.passed, fact.passed)
        self.here |= fact.here
        self.runs |= fact.runs
        self.now |= fact.now
        self.suspended |= fact.suspended

    def demand(self) -> Demand:
        """What the rule needs to know."""
        return Demand(self.jid, self.needs, self.runs, self.passed, self.now, self.suspended)


def merge(
    nodes: Mapping[str, NodeFacts], behind: Mapping[str, float], at: float = math.inf, end: float = 0.0
) -> list[Known]:
    """The jobs in their order. `behind`: when jobs went behind, where their nodes' facts do not say it yet; `at`: now;
    `end`: when the last turn ended.

    >>> one = NodeFacts(60, 30.0, (JobFacts("a", 40, arrival=7), JobFacts("b", 5, arrival=9)))
    >>> two = NodeFacts(60, 30.0, (JobFacts("b", 20, arrival=3),))
    >>> [(job.jid, job.needs) for job in merge({"n1": one, "n2": two}, {})]
    [('b', {'n1': 5, 'n2': 20}), ('a', {'n1': 40})]
    """
    jobs: dict[str, Known] = {}
    for node in sorted(nodes):
        for place, fact in enumerate(nodes[node].jobs):
            jobs.setdefault(fact.jid, Known(fact.jid)).add(node, place, fact)
    for job in jobs.values():
        job.behind = max(job.behind, behind.get(job.jid, 0.0))
        job.behind = job.behind if job.behind <= at + MAX_SKEW else end
        job.since = job.since if job.since <= at + MAX_SKEW else 0.0
    return sorted(jobs.values(), key=lambda job: (job.behind, job.arrival, job.place, job.jid))


def last_end(at: float, turn_s: float) -> float:
    """When the last turn ended, Unix seconds; 0 without turns.

    >>> last_end(95.0, 30.0), last_end(95.0, 0.0)
    (90.0, 0.0)
    """
    return at // turn_s * turn_s if turn_s > 0 else 0.0


def had_their_turn(jobs: Sequence[Known], waited: bool, end: float, turn_s: float) -> list[str]:
    """The jobs that go behind at this end of a turn, of jobs in their order.

    If jobs `waited`, all that run, and have for KEPT of a turn. Else memory is not what they want, but the CPU: those
    that were first on each of their nodes (rule `order`). Jobs whose owner has stopped them keep their place.
    """
    taken: set[str] = set()
    found, running = [], [job for job in jobs if job.runs and not job.suspended]
    for job in running:
        if (waited or not taken & job.needs.keys()) and job.since <= end - KEPT * turn_s:
            found.append(job.jid)
        taken |= job.needs.keys()
    return found if waited or len(found) < len(running) else []
