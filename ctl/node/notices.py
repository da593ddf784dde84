# SPDX-License-Identifier: GPL-2.0-or-later
"""What people are told of a job once, however often it is seen: that it outgrew its node, is held, lingers, was stopped
by its owner, has processes outside of its cgroup, or is bound to the CPUs of another job."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Set

from ctl.contract import SUSPENDED
from ctl.errors import CoschedError
from ctl.kernel import sysinfo
from ctl.kernel.cgroups import ROOT, JobCgroups
from ctl.node.bindings import Mask, bound, clashes, cpu_list
from ctl.node.jobs import Job
from ctl.node.strays import clients, strays

__all__ = ["Notices"]

_LOOKS_EVERY = 5.0  # seconds between two looks at where a job's processes are: a microsecond or two for each thread
_CONTAINERS = "see docs/containers.md"

class Notices:
    """The notices of one node's jobs."""

    def __init__(self, cgroups: JobCgroups, tell: Callable[..., None]) -> None:
        self._cgroups, self._tell = cgroups, tell
        self._held: set[str] = set()
        self._lingering: set[str] = set()
        self._suspended: set[str] = set()
        self._left: set[tuple[str, str]] = set()  # jobs, and by what a process of theirs is elsewhere
        self._clashing: set[tuple[str, str]] = set()
        self._look_due = 0.0

    def look(self, jobs: Iterable[Job]) -> None:
        """Look at the processes of all jobs of this node."""
        found = list(jobs)
        self._lingering_of(found)
        if time.monotonic() >= self._look_due:
            self._look_due = time.monotonic() + _LOOKS_EVERY
            self._elsewhere(found)
            self._bound(found)

    def outgrown(self, jobs: Iterable[tuple[str, str]]) -> None:
        """Jobs that run in too little memory while another node has more, each with the way there."""
        for jid, why in jobs:
            self._tell("queue", f"job {jid} runs in too little memory: {why}", jid=jid, action="outgrown", why=why)

    def held(self, jobs: Mapping[str, str]) -> None:
        """Jobs that run and wait for memory, each with the reason."""
        for jid in jobs.keys() - self._held:
            self._tell("queue", f"job {jid} runs and {jobs[jid]}", jid=jid, action="held", why=jobs[jid])
        self._held |= jobs.keys()

    def _lingering_of(self, jobs: Iterable[Job]) -> None:
        """Jobs whose command has ended, of all these; what was declared for such a job is forgotten."""
        for job in jobs:
            if job.lingers and job.jid not in self._lingering:
                self._lingering.add(job.jid)
                with contextlib.suppress(CoschedError, OSError):  # it has just ended
                    self._cgroups.declare(job.jid, 0)
                text = f"job {job.jid} goes on: {job.why()}; `ctl cancel {job.jid}` ends them"
                self._tell("job", text, jid=job.jid, action="lingers")

    def _elsewhere(self, jobs: Iterable[Job]) -> None:
        """Jobs that started processes which are not in their cgroups."""
        top = f"/{self._cgroups.parent.relative_to(ROOT)}"
        for job in jobs:
            try:
                inside = self._cgroups.pids(job.jid)
            except (CoschedError, OSError):  # it has just ended
                continue
            for stray in strays(job.processes, inside, top)[:1]:
                why = f"{stray.program} (process {stray.pid}) left its cgroup for {stray.cgroup}"
                self._tell_left(job.jid, "process", f"{why} and is no part of the job; a container of podman stays "
                                f"with `--cgroups=disabled`, {_CONTAINERS}")
            for client in clients(job.processes, f"{top}/{job.jid}"):
                self._tell_left(job.jid, client, f"{client} has a service start its containers, which are no part of "
                                f"the job without `--cgroup-parent={top}/{job.jid}`, {_CONTAINERS}")

    def _tell_left(self, jid: str, by: str, why: str) -> None:
        if (jid, by) not in self._left:
            self._left.add((jid, by))
            self._tell("job", f"job {jid}: {why}", jid=jid, action="elsewhere")

    def _bound(self, jobs: Iterable[Job]) -> None:
        """Running jobs that are bound to the same CPUs while others have none."""
        online = Mask(sysinfo.online_cpus())
        masks = {}
        for job in jobs:
            with contextlib.suppress(OSError):  # it has just ended
                if not self._cgroups.is_frozen(job.jid):
                    masks[job.jid] = bound(job.processes, online)
        for pair, (shared, free) in clashes(masks, online).items():
            if pair not in self._clashing:
                self._clashing.add(pair)
                text = (f"jobs {pair[0]} and {pair[1]} are bound to the same CPUs ({cpu_list(shared)}), while no job "
                        f"has {cpu_list(free)}: start them with `mpiexec --bind-to none`")
                self._tell("job", text, jid=pair[1], action="bound", jids=pair)

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
        self._left = {(one, by) for one, by in self._left if one != jid}
        self._clashing = {pair for pair in self._clashing if jid not in pair}
