# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs are cgroups: each job is a cgroup below a common parent, named by the JID, or a cgroup of Slurm.

The kernel keeps the membership: a process and its children belong to the job of their cgroup. Only the agent writes
here. So if a new agent finds a limit or a freeze, a killed agent left it behind; repair() undoes it. In Slurm's cgroups
the agent only freezes processes (ctl/kernel/slurm.py).
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from ctl.errors import FAILED, USAGE, CoschedError
from ctl.kernel import leftovers, paging, slurm, swap
from ctl.kernel.cgroup_memory import Memory, memory_of, number, stalled
from ctl.kernel.jid import check_jid
from ctl.kernel.kernfs import keyed, numbers, put
from ctl.kernel.leftovers import Leftover

__all__ = [
    "PARENT",
    "ROOT",
    "WELCOME",
    "JobCgroups",
    "Usage",
    "cgroup_id",
    "check_controllers",
    "check_hierarchy",
]

ROOT = Path("/sys/fs/cgroup")
PARENT = ROOT / "cosched"

_CONTROLLERS = ("cpu", "memory")
_DECLARED = "user.cosched.memory"  # an extended attribute: it lasts as long as the job, whatever becomes of the agent
WELCOME = ("pids",)  # of these, those that are there


class Usage(TypedDict):
    """The CPU time of a job so far, and its memory now."""

    cpu_ns: int  # CPU time
    memory: int  # bytes, memory.current
    memory_low: int  # bytes that are protected
    anon: int  # bytes
    file: int  # bytes
    swap: int  # bytes
    major_faults: int
    swap_ins: int  # pages
    tasks: int  # threads
    frozen: bool


def cgroup_id(path: Path) -> int:
    """The kernel's id of a cgroup: its inode number."""
    return path.stat().st_ino


def _cpu_ns(path: Path) -> int:
    """CPU time that a cgroup has used so far."""
    return 1000 * numbers(f"{path}/cpu.stat", "usage_usec")[0]


def check_hierarchy(root: Path = ROOT) -> None:
    """Raise CoschedError if cgroup v2 is not there."""
    if not (root / "cgroup.controllers").exists():
        raise CoschedError(f"cgroup v2 is not at {root}: boot with systemd.unified_cgroup_hierarchy=1")


def check_controllers(path: Path) -> set[str]:
    """The controllers of a cgroup. Raises CoschedError if one is missing that jobs need."""
    there = set((path / "cgroup.controllers").read_text().split())
    missing = set(_CONTROLLERS) - there
    if missing:
        raise CoschedError(f"{path} has no {' and no '.join(sorted(missing))} controller: enable it there")
    return there


class JobCgroups:
    """The job cgroups below one parent, and those of Slurm that were taken up."""

    def __init__(self, parent: Path = PARENT) -> None:
        """Jobs are made below this parent, which must be below ROOT."""
        self.parent = parent
        self._slurm: dict[str, Path] = {}
        self._scopes: dict[Path, int] = {}  # of Slurm, and the CPU time used there before it was known

    def prepare(self) -> None:
        """Create the parent with cpu and memory enabled on the way down and for the jobs in it."""
        check_hierarchy()
        self.parent.mkdir(parents=True, exist_ok=True)
        for path in [*reversed(self.parent.relative_to(ROOT).parents), self.parent.relative_to(ROOT)]:
            self._enable(ROOT / path)

    def _enable(self, path: Path) -> None:
        """Let the children of this cgroup have the controllers."""
        there = check_controllers(path)
        try:
            wanted = [*_CONTROLLERS, *(name for name in WELCOME if name in there)]
            (path / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in wanted))
        except OSError as error:
            raise CoschedError(f"cannot give cgroups below {path} their controllers: {error.strerror}") from None

    @property
    def cgid(self) -> int:
        """cgroup id of the parent."""
        return cgroup_id(self.parent)

    @property
    def level(self) -> int:
        """Depth of the parent, root = 0."""
        return len(self.parent.relative_to(ROOT).parts)

    def path(self, jid: str) -> Path:
        """The job's directory, there or not. Raises CoschedError for a bad JID."""
        return self._slurm.get(jid) or self.parent / check_jid(jid)

    def take_up(self, job: slurm.SlurmJob) -> None:
        """Note that this JID is a job of Slurm."""
        self._slurm[job.jid] = job.path
        scope = job.path.parent
        if scope not in self._scopes:
            self._scopes[scope] = _cpu_ns(scope)

    def drop(self, jid: str) -> None:
        """Note that the job of Slurm has ended."""
        self._slurm.pop(jid, None)

    def is_slurm(self, jid: str) -> bool:
        """Whether the JID is a job of Slurm that was taken up."""
        return jid in self._slurm

    def _parts(self, jid: str) -> list[Path]:
        """The cgroups below which the job's processes are."""
        return slurm.parts(self._slurm[jid]) if jid in self._slurm else [self._there(jid)]

    def _frozen_at(self, jid: str) -> list[Path]:
        """The cgroups that are frozen to stop the job."""
        return slurm.tasks(self._slurm[jid]) if jid in self._slurm else [self.path(jid)]

    def jids(self) -> list[str]:
        """The jobs below the parent, sorted."""
        return sorted(path.name for path in self._jobs())

    def ids(self) -> dict[int, str]:
        """cgroup id to JID, for the jobs below the parent."""
        return {cgroup_id(path): path.name for path in self._jobs()}

    def _jobs(self) -> list[Path]:
        """The directories of the jobs below the parent."""
        return [path for path in self.parent.iterdir() if path.is_dir()] if self.parent.is_dir() else []

    def _there(self, jid: str) -> Path:
        """The directory of an existing job."""
        path = self.path(jid)
        if not path.is_dir():
            raise CoschedError(f"there is no job {jid!r}: `ctl jobs` lists the jobs")
        return path

    def create(self, jid: str) -> Path:
        """Make the job's cgroup if it does not exist."""
        path = self.path(jid)
        if path.exists() and not path.is_dir():
            raise CoschedError(f"JID {jid!r} is taken: the kernel has a file of this name; choose another", USAGE)
        path.mkdir(exist_ok=True)
        return path

    def enter(self, jid: str, pid: int) -> None:
        """Move a process into the job, made if need be. Raises CoschedError if there is no such process."""
        path = self.create(jid)
        try:
            (path / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            reason = "there is none" if error.errno == errno.ESRCH else error.strerror
            raise CoschedError(f"process {pid} cannot enter job {jid!r}: {reason}", FAILED) from None

    def declare(self, jid: str, need: int) -> None:
        """Note what the job's owner says it needs, bytes."""
        os.setxattr(self._there(jid), _DECLARED, str(need).encode())

    def declared(self, jid: str) -> int:
        """What declare() noted; 0: nothing, or the job has ended."""
        try:
            return int(os.getxattr(self.path(jid), _DECLARED))
        except OSError:
            return 0

    def _subtree(self, path: Path) -> Iterator[Path]:
        """A cgroup and those below it, a parent before its children."""
        return (Path(directory) for directory, _, _ in os.walk(path))

    def _members(self, jid: str, file: str) -> list[int]:
        """Numbers out of one file of the job and of every cgroup below it."""
        found: list[int] = []
        for path in [path for part in self._parts(jid) for path in self._subtree(part)]:
            with contextlib.suppress(OSError):  # removed since, or ENODEV
                found += map(int, (path / file).read_text().split())
        return found

    def pids(self, jid: str) -> list[int]:
        """Processes of the job, also those in cgroups below it."""
        return self._members(jid, "cgroup.procs")

    def tids(self, jid: str) -> list[int]:
        """Threads of the job, also those in cgroups below it."""
        return self._members(jid, "cgroup.threads")

    def usage(self, jid: str) -> Usage:
        """CPU time, memory, faults of the job. Raises CoschedError if there is no such job."""
        path = self._there(jid)
        try:
            memory = keyed(path / "memory.stat")
            return {
                "cpu_ns": _cpu_ns(path),
                "memory": number(path / "memory.current"),
                "memory_low": number(path / "memory.low"),
                "anon": memory["anon"],
                "file": memory["file"],
                "swap": number(path / "memory.swap.current"),
                "major_faults": memory["pgmajfault"],
                "swap_ins": memory.get("pswpin", memory.get("workingset_refault_anon", 0)),
                "tasks": len(self.tids(jid)),
                "frozen": self.is_frozen(jid),
            }
        except OSError as error:
            raise CoschedError(f"job {jid!r} cannot be read: {error.strerror}; it may just have ended") from None

    def is_frozen(self, jid: str) -> bool:
        """Whether the kernel says that all processes of the job are frozen, for any reason."""
        events = [keyed(path / "cgroup.events") for path in self._frozen_at(jid)]
        return any(one["frozen"] for one in events) and all(one["frozen"] or not one["populated"] for one in events)

    def memory(self, jid: str) -> Memory:
        """The job's memory. Raises OSError if there is no such job."""
        return memory_of(self.path(jid))

    def current(self, jid: str) -> int:
        """All that is charged to a job now, bytes."""
        return number(self.path(jid) / "memory.current")

    def swap_free(self, jid: str) -> int:
        """Bytes of the job that swap can still take, by the limits of its cgroup and those above."""
        return swap.free(self.path(jid), ROOT)

    def stalled(self, jid: str) -> float:
        """The part of the last 10 s in which the whole job waited for memory. Raises OSError."""
        return stalled(self.path(jid))

    def all_movable(self) -> int:
        """What swap could take of all jobs together, and of the files in shared memory that ended jobs have left:
        bytes in memory, without jobs of Slurm."""
        return memory_of(self.parent).movable

    def cpu_ns(self) -> tuple[int, int]:
        """CPU time used so far by all jobs, ended jobs included, and by all tasks of this machine.

        The CPU time of slurmstepd counts as time of Slurm's jobs.
        """
        jobs = _cpu_ns(self.parent)
        for scope, before in self._scopes.items():
            with contextlib.suppress(OSError):  # slurmd has gone, and its scope with it
                jobs += max(0, _cpu_ns(scope) - before)
        return jobs, _cpu_ns(ROOT)

    def set_pool(self, sure: int, low: int, high: int | None) -> None:
        """Set the guarantee of all jobs together (memory.min), the memory spared if possible (low), and the limit
        (high).

        Bytes; None: nothing.
        """
        put(self.parent / "memory.min", str(sure))
        put(self.parent / "memory.low", str(low))
        put(self.parent / "memory.high", "max" if high is None else str(high))

    def pool_used(self) -> int:
        """Memory of all jobs together, bytes, without jobs of Slurm."""
        return number(f"{self.parent}/memory.current")

    def pool_held(self) -> tuple[int, int]:
        """Memory of all jobs together that only swap could free, and pages of files that they keep using: bytes,
        without jobs of Slurm."""
        names = "active_file", "inactive_file", "slab_reclaimable"
        active, *others = numbers(f"{self.parent}/memory.stat", *names)
        return max(0, self.pool_used() - active - sum(others)), active

    def protect(self, jid: str, sure: int, low: int) -> None:
        """Set a job's part of the pool's protection, bytes; nothing is set for a job of Slurm."""
        if jid not in self._slurm:
            put(self.path(jid) / "memory.min", str(sure))
            put(self.path(jid) / "memory.low", str(low))

    def set_frozen(self, jid: str, frozen: bool) -> None:
        """Freeze or thaw a job, without waiting for the end. While it is frozen systemd-oomd spares it."""
        for path in self._frozen_at(jid):
            put(path / "cgroup.freeze", "1" if frozen else "0")
            leftovers.spare(path, frozen)

    def set_all_frozen(self, frozen: bool) -> None:
        """Freeze or thaw all jobs, future jobs included; a job with its own freeze stays frozen."""
        put(self.parent / "cgroup.freeze", "1" if frozen else "0")

    def push_out(self, jid: str, size: int) -> float:
        """Push so many bytes of a job out to swap: see paging.push_out()."""
        return paging.push_out(self.path(jid), size)

    def drop_cold(self, jid: str, size: int) -> None:
        """Drop so many bytes of caches of a job: see paging.drop_cold()."""
        paging.drop_cold(self.path(jid), size)

    def freeze(self, jid: str, timeout_s: float = 5.0) -> bool:
        """Freeze the job, and wait until the kernel says that all of it is frozen; False after a time-out."""
        self._there(jid)
        self.set_frozen(jid, True)
        return self.await_frozen(jid, timeout_s)

    def await_frozen(self, jid: str, timeout_s: float) -> bool:
        """Wait until the kernel says that all of the job is frozen; False after a time-out."""
        self._there(jid)
        until = time.monotonic() + timeout_s
        return all(_await_frozen(path, until) for path in self._frozen_at(jid))

    def thaw(self, jid: str) -> None:
        """Undo freeze()."""
        self._there(jid)
        self.set_frozen(jid, False)

    def kill(self, jid: str) -> None:
        """SIGKILL to every process of the job, also to frozen processes."""
        (self._there(jid) / "cgroup.kill").write_text("1")

    def remove(self, jid: str) -> bool:
        """Remove the job's cgroup and the cgroups below; False if the job has processes, True if it is gone already."""
        for path in reversed(list(self._subtree(self.path(jid)))):
            try:
                path.rmdir()
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno == errno.EBUSY:
                    return False
                raise CoschedError(f"job {jid!r} cannot be removed: {error.strerror}") from None
        return True

    def remove_empty(self) -> list[str]:
        """Remove the jobs without processes; returns their JIDs."""
        return [jid for jid in self.jids() if self._is_empty(jid) and self.remove(jid)]

    def _is_empty(self, jid: str) -> bool:
        """Whether the kernel says that no process is in this cgroup or below."""
        try:
            return not keyed(self.path(jid) / "cgroup.events")["populated"]
        except OSError:
            return False

    def leftovers(self) -> list[Leftover]:
        """Frozen jobs, limits, protection: all that an agent sets. Without an agent, a killed one left them."""
        tops = self._jobs() if self.parent.is_dir() else []
        ours = [self.parent, *(path for top in tops for path in self._subtree(top))] if self.parent.is_dir() else []
        return leftovers.find(ours) + leftovers.frozen([path for job in slurm.find_jobs() for path in slurm.tasks(job)])

    def repair(self) -> list[str]:
        """Undo the changes of a killed agent: frozen jobs, limits, protection. One sentence for each."""
        return [left.undo() for left in self.leftovers()]

    def dissolve(self) -> None:
        """remove_empty(), and the parent too if no job is left."""
        self.remove_empty()
        if self.parent.is_dir() and not self._jobs():
            with contextlib.suppress(OSError):  # a process entered the parent itself
                self.parent.rmdir()


def _await_frozen(path: Path, until: float) -> bool:
    """Wait until the kernel says that this cgroup is frozen; False after the time-out."""
    with (path / "cgroup.events").open("rb", buffering=0) as events:
        poller = select.poll()
        poller.register(events, select.POLLPRI)
        # the state is read before each wait, because the kernel announces only changes after a read
        while b"frozen 1" not in os.pread(events.fileno(), 4096, 0):
            if not poller.poll(max(0.0, until - time.monotonic()) * 1000):
                return False
    return True
