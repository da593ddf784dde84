# SPDX-License-Identifier: GPL-2.0-or-later
"""What people are told of a job once, however often it is seen: that it outgrew its node, is held, lingers,
or was stopped by its owner."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Set

from ctl.contract import SUSPENDED
from ctl.errors import CoschedError
from ctl.kernel.cgroups import JobCgroups
from ctl.node.jobs import Job

__all__ = ["Notices"]


class Notices:
    """The notices of one node's jobs."""

    def __init__(self, cgroups: JobCgroups, tell: Callable[..., None]) -> None:
        self._cgroups, self._tell = cgroups, tell
        self._held: set[str] = set()
        self._lingering: set[str] = set()
        self._suspended: set[str] = set()

    def outgrown(self, jobs: Iterable[tuple[str, str]]) -> None:
        """Jobs that run in too little memory while another node has more, each with the way there."""
        for jid, why in jobs:
            self._tell("queue", f"job {jid} runs in too little memory: {why}", jid=jid, action="outgrown", why=why)

    def held(self, jobs: Mapping[str, str]) -> None:
        """Jobs that run and wait for memory, each with the reason."""
        for jid in jobs.keys() - self._held:
            self._tell("queue", f"job {jid} runs and {jobs[jid]}", jid=jid, action="held", why=jobs[jid])
        self._held |= jobs.keys()

    def lingering(self, jobs: Iterable[Job]) -> None:
        """Jobs whose command has ended, of all these; what was declared for such a job is forgotten."""
        for job in jobs:
            if job.lingers and job.jid not in self._lingering:
                self._lingering.add(job.jid)
                with contextlib.suppress(CoschedError, OSError):  # it has just ended
                    self._cgroups.declare(job.jid, 0)
                text = f"job {job.jid} goes on: {job.why()}; `ctl cancel {job.jid}` ends them"
                self._tell("job", text, jid=job.jid, action="lingers")

    def suspended(self, jids: Set[str]) -> None:
        """The jobs that their owner has stopped, of all these; those that he continued are told, too."""
        for jid in sorted(jids - self._suspended):
            self._tell("job", f"job {jid} gives way to others: {SUSPENDED}", jid=jid, action="suspended")
        for jid in sorted(self._suspended - jids):
            self._tell("job", f"job {jid} has its place in the queue again: its owner continued it", jid=jid,
                       action="continued")
        self._suspended = set(jids)

    def forget(self, jid: str) -> None:
        """The job has ended."""
        self._held.discard(jid)
        self._lingering.discard(jid)
        self._suspended.discard(jid)
