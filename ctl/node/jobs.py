# SPDX-License-Identifier: GPL-2.0-or-later
"""The node's jobs: a cgroup each, from the first process that enters to the last that leaves.

A job exists from `enter` until its cgroup is empty. The kernel announces this end (cgroup.events, polled for EPOLLPRI),
and each process that enters or leaves before (process connector); this file polls nothing by itself. If the process
connector drops events under load, the members are read from the cgroups once more.

A job of Slurm exists from the first process that the kernel side announces (`joined`) until Slurm's cgroup of the job
is empty. Between two steps of the job this cgroup is empty on a node, too. The JID is the Slurm job's id. `ctl run`
refuses the id of a Slurm job on this node. If a job of `ctl run` has the id of a new Slurm job, the Slurm job is taken
up when the other job has ended.
"""

from __future__ import annotations

import os
import pwd
import select
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctl.errors import USAGE, CoschedError
from ctl.kernel import slurm
from ctl.kernel.cgroups import ROOT, JobCgroups, Usage, cgroup_id
from ctl.kernel.limits import check_limits, hold_tasks, limits_of
from ctl.kernel.member import cgroup_of, jid_below
from ctl.kernel.shared_files import left_by
from ctl.node.authority import user_name

if TYPE_CHECKING:
    from ctl.kernel.joins import Refusal
    from ctl.kernel.netlink import ProcessEvent

__all__ = ["CTL", "SLURM", "Job", "Jobs", "ending"]

_WORTH = 1 << 20  # bytes that a job left
_NAMED = 3  # files
_LINGERS = 2.0  # seconds
CTL, SLURM = "ctl", "slurm"  # where a job comes from

Tell = Callable[..., None]  # (kind, text, **details): an event for people and for `follow`


@dataclass
class Job:
    """One job, with the agent's knowledge about the job."""

    jid: str
    path: Path
    cgid: int
    user: str  # whose it is: no other user may join it
    origin: str = CTL
    started: float = field(default_factory=time.time)  # Unix time
    processes: set[int] = field(default_factory=set)
    entered: set[int] = field(default_factory=set)  # of these, put there by `ctl run`
    command_ended: float | None = None  # when the last of those ended, by the steady clock; None: not so
    refused: str = ""  # the last scheduling class that it was refused, in a sentence

    @property
    def lingers(self) -> bool:
        """Whether the job's commands have ended and other processes of it live on: not those on their way out, too."""
        return self.command_ended is not None and time.monotonic() > self.command_ended + _LINGERS

    def why(self) -> str:
        """What a lingering job is, in words; else the empty string."""
        return f"its command has ended, and {len(self.processes)} of its processes live on" if self.lingers else ""


class Jobs:
    """The jobs of this node.

    `notifier` is an epoll object on which the jobs' cgroup.events are registered; its owner calls `changed` with the
    descriptors that fire.
    """

    def __init__(
        self,
        cgroups: JobCgroups,
        notifier: select.epoll,
        tell: Tell,
        began: Callable[[Job], None],
        ended: Callable[[Job], None],
        put: Callable[[int, bool], None] | None = None,
    ) -> None:
        """`tell` gets all events, `began` each new job, `ended` each ended job; `put` gets each process that enters or
        leaves a job, and whether it is a member."""
        self._cgroups = cgroups
        self._notifier = notifier
        self._tell = tell
        self._began, self._ended = began, ended
        self._put = put or (lambda _pid, _member: None)
        self._jobs: dict[str, Job] = {}
        self._events: dict[int, Job] = {}  # descriptor of cgroup.events -> job
        self._member: dict[int, Job] = {}  # process -> job
        self._unborn: set[int] = set()  # processes of Slurm's jobs that have yet to turn into their program
        self._refused: dict[Path, str] = {}  # jobs of Slurm that are not taken up, and the JIDs whose end they wait for

    def __iter__(self) -> Iterator[Job]:
        return iter(sorted(self._jobs.values(), key=lambda job: job.jid))

    def __len__(self) -> int:
        return len(self._jobs)

    def get(self, jid: str) -> Job | None:
        """The job of this name, None if there is none."""
        return self._jobs.get(jid)

    def jid_of(self, tid: int) -> str | None:
        """The job of a thread; None for a local task or an ended task."""
        job = self._member.get(tid)
        return job.jid if job is not None else self._jid_by_cgroup(tid)

    def _jid_by_cgroup(self, tid: int) -> str | None:
        """The job whose cgroup a thread is in now."""
        path = cgroup_of(tid)
        if (jid := jid_below(path, self._cgroups.parent)) is not None:
            return jid
        found = slurm.place(path)
        return next((job.jid for job in self._jobs.values() if job.path == found), None)

    def adopt(self) -> None:
        """Take over the running jobs of an earlier agent or of Slurm."""
        self._cgroups.remove_empty()
        for jid in self._cgroups.jids():
            for pid in self._begin(jid, self._cgroups.path(jid)).processes:
                self._put(pid, True)
        self.look_for_slurm()

    def check_user(self, jid: str, user: str) -> None:
        """Raise CoschedError (status 2) if the job exists and belongs to another user, or to Slurm."""
        job = self._jobs.get(jid)
        if job is not None and job.origin == SLURM:
            raise CoschedError(f"job {jid} is a job of Slurm: choose another JID", USAGE)
        if job is not None and job.user != user:
            raise CoschedError(f"job {jid} belongs to user {job.user}, not to {user}: choose another JID", USAGE)

    def enter(self, jid: str, pid: int, user: str, need: int = 0) -> Job:
        """Move a user's process into a job, which begins if need be. Raises CoschedError, also for a bad JID, and if
        the process would leave a limit behind. `need`: bytes, as declared for a job that begins; 0: not declared."""
        self.check_user(jid, user)
        parent = self._cgroups.parent
        tasks = check_limits(limits_of(pid, ROOT, parent), jid, f"/{parent.relative_to(ROOT)}")
        path = self._cgroups.create(jid)
        try:
            hold_tasks(path, tasks)
            if need and jid not in self._jobs:
                self._cgroups.declare(jid, need)
            self._cgroups.enter(jid, pid)
        except CoschedError:
            if jid not in self._jobs:
                self._cgroups.remove(jid)
            raise
        self._put(pid, True)
        job = self._jobs.get(jid) or self._begin(jid, path, user)
        job.entered.add(pid)
        job.command_ended = None
        self._join(job, pid)
        return job

    def kill(self, jid: str) -> None:
        """End all processes of a job of `ctl run`, also of a stopped one."""
        self._cgroups.kill(jid)

    def look_for_slurm(self) -> None:
        """Take up jobs that Slurm already runs here, whose announcement came before this agent or was lost."""
        for path in slurm.find_jobs():
            if missing := slurm.missing_controllers(path):
                self._refuse(path, f"it has no {' and no '.join(missing)} controller, see cgroup.conf")
                continue
            for pid in slurm.processes(path):
                self.joined(pid)

    def joined(self, pid: int) -> bool:
        """Take up a process that was moved into a job of Slurm; the job begins with its first process. Returns whether
        the process is a member now. Of a job of ours, only its class is taken: the kernel has done the rest."""
        self._unborn.discard(pid)
        found = slurm.job_of(pid)
        if found is None:
            self._put(pid, self._jid_by_cgroup(pid) is not None)
            return False
        if slurm.is_stepd(pid):  # not yet the job's program, nor its user's: `process` hears when it is
            self._unborn.add(pid)
            return False
        job, cgid, user = self._jobs.get(found.jid), _cgroup_id(found.path), _user_of(pid)
        if cgid is None or user is None:
            return False
        if job is not None and job.origin != SLURM:
            self._refuse(found.path, f"`ctl run` has a job {job.jid} here", job.jid)
            return False
        if job is not None and job.cgid != cgid:  # the step before has ended, its notice is on the way
            self._end(job, next(descriptor for descriptor, one in self._events.items() if one is job))
            job = None
        if job is None:
            self._cgroups.take_up(found)
            try:
                job = self._begin(found.jid, found.path, user, SLURM)
            except OSError:  # Slurm has just removed it
                self._cgroups.drop(found.jid)
                return False
        for member in (pid, *slurm.processes(found.path)):  # and what it started before it was announced
            self._put(member, True)
        self._join(job, pid)
        return True

    def _refuse(self, path: Path, why: str, until: str = "") -> None:
        """Report once why a job of Slurm is not taken up; `until` is the job whose end removes the reason."""
        if path not in self._refused:
            self._refused[path] = until
            self._tell("job", f"Slurm's job in {path} is not taken up: {why}", action="refused")

    def refused(self, refusal: Refusal) -> None:
        """Report that the kernel side has refused a job's task another scheduling class."""
        job = next((job for job in self._jobs.values() if job.cgid == refusal.cgid), None)
        if job is not None:
            job.refused = (
                f"{refusal.program} (process {refusal.pid}) asked for {refusal.asked} and was refused: under "
                "contract=class a job's tasks stay SCHED_EXT, contract=queue leaves them their class"
            )
            details = {"jid": job.jid, "action": "class_refused", "pid": refusal.pid, "class": refusal.asked}
            self._tell("job", f"job {job.jid}: {job.refused}", **details, program=refusal.program)

    def changed(self, descriptor: int) -> bool:
        """A cgroup.events fired: remove the job if it is empty. False if the descriptor is not one of ours."""
        job = self._events.get(descriptor)
        if job is None:
            return False
        try:
            text = os.pread(descriptor, 4096, 0).decode()
        except OSError:  # ENODEV: the cgroup was removed by others
            text = "populated 0"
        if "populated 0" in text:
            self._end(job, descriptor)
        return True

    def process(self, event: ProcessEvent) -> None:
        """Handle an event of the process connector, if the process belongs to a job."""
        if event.kind == "fork" and event.pid == event.tgid:
            parent = self._member.get(event.parent)
            if parent is not None:
                self._join(parent, event.pid)
        elif event.kind == "exec" and event.pid in self._unborn:
            self.joined(event.pid)
        elif event.kind == "exit" and event.pid == event.tgid:
            self._unborn.discard(event.pid)
            if event.pid in self._member:
                self._leave(event.pid, event.status)

    def recount(self) -> None:
        """Read the members from the cgroups, after process events were lost."""
        self._member.clear()
        for job in self._jobs.values():
            job.processes = set(self._cgroups.pids(job.jid))
            job.entered &= job.processes
            self._member.update(dict.fromkeys(job.processes, job))
        for pid in list(self._unborn):
            self.joined(pid)

    def usage(self) -> dict[str, Usage]:
        """The use of each job so far, and its memory now, by JID."""
        found = {}
        for jid in self._jobs:
            try:
                found[jid] = self._cgroups.usage(jid)
            except (CoschedError, OSError):  # it has just ended, and its notice is on the way
                continue
        return found

    def tids(self) -> dict[int, str]:
        """Every thread of every job, and its JID."""
        found: dict[int, str] = {}
        for jid in self._jobs:
            try:
                found.update(dict.fromkeys(self._cgroups.tids(jid), jid))
            except (CoschedError, OSError):
                continue
        return found

    def close(self) -> None:
        """Stop watching; the jobs run on, and empty jobs are removed."""
        for descriptor in list(self._events):
            os.close(descriptor)
        self._events.clear()

    def _begin(self, jid: str, path: Path, user: str = "", origin: str = CTL) -> Job:
        processes = set(self._cgroups.pids(jid))
        job = Job(jid, path, cgroup_id(path), user or _owner(processes), origin, processes=processes)
        self._member.update(dict.fromkeys(job.processes, job))
        descriptor = os.open(path / "cgroup.events", os.O_RDONLY | os.O_CLOEXEC)
        self._notifier.register(descriptor, select.EPOLLPRI)
        self._events[descriptor] = self._jobs[jid] = job
        whose = "Slurm's job" if origin == SLURM else "job"
        details = {"jid": jid, "action": "begin", "user": job.user, "from": origin}
        self._tell("job", f"{whose} {jid} began", **details)
        self._began(job)
        self.changed(descriptor)  # the kernel reports changes only after a first read; and the job may be empty again
        return job

    def _end(self, job: Job, descriptor: int) -> None:
        left = self._left_behind(job)
        try:
            gone = job.origin == SLURM or self._cgroups.remove(job.jid)  # Slurm removes its own cgroups
        except (CoschedError, OSError) as error:
            self._tell("job", f"job {job.jid} ended, but its cgroup stays: {error}", jid=job.jid, action="stuck")
            gone = True
        if not gone:  # a process entered since
            return
        self._notifier.unregister(descriptor)
        os.close(descriptor)
        del self._events[descriptor], self._jobs[job.jid]
        for pid in job.processes:
            self._member.pop(pid, None)
        self._ended(job)
        self._cgroups.drop(job.jid)
        lasted = time.time() - job.started
        self._tell("job", f"job {job.jid} ended after {lasted:.1f} s", jid=job.jid, action="end", seconds=lasted)
        if left:
            self._tell("job", left, jid=job.jid, action="left")
        waiting = [path for path, until in self._refused.items() if until == job.jid]
        for path in waiting:
            del self._refused[path]
        if waiting:
            self.look_for_slurm()

    def _left_behind(self, job: Job) -> str:
        """What an ended job leaves in shared memory, in words, with the files' names; empty: nothing to speak of."""
        try:
            memory = self._cgroups.memory(job.jid)
            size = 0 if job.origin == SLURM else memory.movable + memory.swapped
            if size < _WORTH:
                return ""
            files = left_by(pwd.getpwnam(job.user).pw_uid, job.started)[:_NAMED]
        except (CoschedError, OSError, KeyError):
            return ""
        names = ", ".join(f"{file.name} ({file.size >> 20} MiB)" for file in files) or "ls /dev/shm, ipcs -m"
        what = f"job {job.jid} left {size >> 20} MiB of files in shared memory"
        return f"{what}, which other jobs lack until they are removed: {names}"

    def _join(self, job: Job, pid: int) -> None:
        if pid in job.processes:
            return
        job.processes.add(pid)
        self._member[pid] = job
        self._tell("process", f"job {job.jid}: process {pid} started", jid=job.jid, action="start", pid=pid)

    def _leave(self, pid: int, status: int) -> None:
        job = self._member.pop(pid)
        job.processes.discard(pid)
        kind = "task" if pid in job.entered else "process"
        job.entered.discard(pid)
        if kind == "task" and not job.entered:
            job.command_ended = time.monotonic()
        details: dict[str, Any] = {"jid": job.jid, "action": "exit", "pid": pid, "status": status}
        self._tell(kind, f"job {job.jid}: process {pid} {ending(status)}", **details)


def _cgroup_id(path: Path) -> int | None:
    """The kernel's id of a cgroup; None if it is gone."""
    try:
        return cgroup_id(path)
    except OSError:
        return None


def _user_of(pid: int) -> str | None:
    """The user of a process; None if the process is gone."""
    try:
        return user_name(Path(f"/proc/{pid}").stat().st_uid)
    except OSError:
        return None


def _owner(processes: set[int]) -> str:
    """The user of the oldest of these processes; root if no process is left."""
    users = filter(None, map(_user_of, sorted(processes)))
    return next(users, user_name(0))


def ending(status: int) -> str:
    """A wait status in words.

    >>> ending(0), ending(256), ending(9)
    ('exited with status 0', 'exited with status 1', 'was killed by signal 9')
    """
    if os.WIFSIGNALED(status):
        return f"was killed by signal {os.WTERMSIG(status)}"
    return f"exited with status {os.waitstatus_to_exitcode(status)}"
