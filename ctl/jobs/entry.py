# SPDX-License-Identifier: GPL-2.0-or-later
"""What a node's queue (queue.py) knows of one of its own jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ctl.contract import JobFacts

__all__ = ["Entry"]

_LITTLE: Final = 0.125  # of what a job has: so much more is no reason for a stop that frees nothing


@dataclass
class Entry:
    """A job of this node; times are Unix seconds."""

    jid: str
    user: str
    behind: float  # see JobFacts
    program: str = ""
    declared: int = 0  # bytes, by its owner
    estimated: int = 0  # bytes, by its history, Slurm or its program
    peak: int = 0  # bytes, as seen
    size: int = 0  # bytes, as seen last
    lingers: bool = False  # its command has ended: what was declared or estimated for it is over
    suspended: bool = False  # its owner has stopped its processes
    stays: int = 0  # bytes, as seen, that are in memory also when it is stopped
    working: int = 0  # bytes, as seen, of its working set
    ranks: int = 0  # on this node, as seen
    arrival: int = 0
    since: float = 0.0
    now: bool = False
    passed: int = 0
    runs: bool = False
    lease: float | None = None  # it asks, until then; None: it has processes here

    @property
    def need(self) -> int:
        """What the job needs beside what stays of it, bytes.

        That is B-PP-7, but for a job that stays whole: its stop frees nothing, so what it had once is no reason for
        one. Much that it was declared or estimated to have, and has not got yet, is one.
        """
        if 0 < self.size <= self.stays and not self.lingers:
            rest = (self.declared or self.estimated) - self.stays
            return rest if rest > self.size * _LITTLE else 0
        total = self.size if self.lingers else max(self.declared or self.estimated, self.peak)
        return max(0, total - self.stays)

    def fact(self) -> JobFacts:
        """What the other nodes should know of it."""
        here = self.lease is None
        times = (self.behind, self.since, self.passed)
        return JobFacts(self.jid, self.need, self.arrival, *times, here, self.runs, self.now, self.suspended)

    def is_over(self, at: float) -> bool:
        """Whether the job is gone at this time: it had processes here, or it asked too long ago."""
        return self.lease is None or at > self.lease
