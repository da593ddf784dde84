# SPDX-License-Identifier: GPL-2.0-or-later
"""Slurm's cgroups: the place of a job of Slurm, its processes, and a stop that does not disturb Slurm.

Slurm's cgroup/v2 plugin makes these cgroups, in system.slice or its counterpart in a container:

    [NODE_]slurmstepd.scope/JOB/step_NAME/user/task_N    processes of the job
                                         /slurm          slurmstepd, which is no part of the job

JOB is job_ID, or since Slurm 26.05 the job's SLUID. The ID is our JID; slurmstepd, which is root's, shows it as its
title: "slurmstepd: [42.batch]". The kernel side knows the places by the same names (bpf/slurm.bpf.h).

The tree belongs to Slurm: the agent makes, removes and limits nothing in it. The agent only writes `cgroup.freeze` of
task_N, and undoes the freeze as in its own cgroups. The agent does not write to `user`, because Slurm writes there when
it suspends a job, and the two would undo each other. The agent does not write to the job's cgroup, because a freeze
there would stop slurmstepd and so scancel.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ctl.errors import CoschedError

__all__ = [
    "SlurmJob",
    "begins_here",
    "check",
    "find_jobs",
    "is_stepd",
    "jid_in",
    "job_of",
    "missing_controllers",
    "parts",
    "place",
    "processes",
    "tasks",
]

_ROOT = Path("/sys/fs/cgroup")
_SCOPE = re.compile(r"(?:.+_)?slurmstepd\.scope")
_PLACE = re.compile(r"/(?P<job>(?:.*/)?(?:[^/]+_)?slurmstepd\.scope/[^/]+)/step_[^/]+/user(?:/.*)?")
_TITLE = re.compile(rb"slurmstepd: \[(?P<jid>[0-9]{1,20})\.")
_LONGEST_TITLE = 256  # bytes that are read
_NEEDED = ("cpu", "memory")


class SlurmJob(NamedTuple):
    """A job of Slurm on this node."""

    jid: str  # its id
    path: Path  # its cgroup


def job_of(pid: int) -> SlurmJob | None:
    """The job a process belongs to; None if it is in none, or has ended."""
    try:
        text = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return None
    path = place(text.rpartition("::")[2].rstrip("\n"))
    jid = _jid(path) if path else None
    return SlurmJob(jid, path) if path and jid else None


def place(cgroup: str) -> Path | None:
    """The cgroup of the job whose processes are in this one, named as in /proc/PID/cgroup; None if it is of none.

    >>> place("/system.slice/slurmstepd.scope/job_42/step_0/user/task_1")
    PosixPath('/sys/fs/cgroup/system.slice/slurmstepd.scope/job_42')
    """
    found = _PLACE.fullmatch(cgroup)
    # a cgroup outside of this namespace is shown as /../NAME: not one that can be reached
    return _ROOT / found["job"] if found and not {"", ".."} & set(cgroup[1:].split("/")) else None


def _jid(job: Path) -> str | None:
    """The id of a job, from the title of the slurmstepd of a step."""
    for step in sorted(job.glob("step_*/slurm/cgroup.procs")):
        with contextlib.suppress(OSError):  # the step, or its slurmstepd, has just ended
            for pid in step.read_text().split():
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if jid := jid_in(file.read(_LONGEST_TITLE)):
                        return jid
    return None


def jid_in(title: bytes) -> str | None:
    """The id of the job in the title of a slurmstepd.

    >>> jid_in(b"slurmstepd: [42.batch]"), jid_in(b"slurmstepd: [x]")
    ('42', None)
    """
    found = _TITLE.match(title)
    return found["jid"].decode() if found else None


def is_stepd(pid: int) -> bool:
    """Whether a process is still a copy of slurmstepd: it will turn into the job's program, and its user's."""
    try:
        return Path(os.readlink(f"/proc/{pid}/exe")).name.startswith("slurmstepd")
    except OSError:
        return False


def find_jobs() -> list[Path]:
    """The cgroups of all jobs now, by a look through all cgroups, for a new agent or after lost announcements."""
    return sorted({step.parent for scope in _scopes() for step in scope.glob("*/step_*")})


def _scopes(root: Path = _ROOT) -> Iterator[Path]:
    for directory, names, _ in os.walk(root):
        for name in list(names):
            path = Path(directory, name)
            if _SCOPE.fullmatch(name):
                names.remove(name)
                if path.stat().st_uid == 0:  # as in the kernel: only a scope of root counts
                    yield path


def parts(job: Path) -> list[Path]:
    """The cgroups below which the job's processes are: `user` of each step."""
    return sorted(job.glob("step_*/user"))


def tasks(job: Path) -> list[Path]:
    """The cgroups that are frozen to stop the job."""
    return sorted(job.glob("step_*/user/task_*"))


def processes(job: Path) -> list[int]:
    """The job's processes."""
    found: list[int] = []
    for path in tasks(job):
        with contextlib.suppress(OSError):  # it has just ended
            found += map(int, (path / "cgroup.procs").read_text().split())
    return found


def begins_here(job: Path) -> bool:
    """Whether this is the first node of a job: its script, or the shell that salloc gives, runs here."""
    return any((job / f"step_{name}").is_dir() for name in ("batch", "interactive"))


def missing_controllers(job: Path) -> list[str]:
    """The missing controllers of a job's cgroup: without `cpu` the kernel side cannot tell the job's processes from
    others."""
    try:
        return _lacking(parts(job))
    except OSError:  # a step has just ended
        return []


def _lacking(cgroups: Iterable[Path]) -> list[str]:
    """The controllers that jobs need and any of these cgroups has not. Raises OSError."""
    there = [set((path / "cgroup.controllers").read_text().split()) for path in cgroups]
    return [name for name in _NEEDED if not all(name in given for given in there)]


def check(root: Path = _ROOT, processes: Path = Path("/proc")) -> str:
    """What there is of Slurm on this node, in words. Raises CoschedError if its jobs could not be jobs here."""
    if not any(_is_slurmd(path) for path in processes.glob("[0-9]*/comm")):
        return "no slurmd runs"
    scopes = list(_scopes(root))
    if not scopes:
        raise CoschedError(
            f"slurmd has no slurmstepd.scope below {root}, so its jobs would be local tasks: set "
            "ProctrackType=proctrack/cgroup in slurm.conf and CgroupPlugin=cgroup/v2 in cgroup.conf"
        )
    if lacking := _lacking(scopes):
        raise CoschedError(
            f"{scopes[0]} has no {' and no '.join(lacking)} controller, so Slurm's jobs would be local tasks: start "
            "slurmd with systemd's Delegate=yes, or write EnableControllers=yes into cgroup.conf"
        )
    return f"slurmd runs, its jobs are below {scopes[0].relative_to(root)}"


def _is_slurmd(comm: Path) -> bool:
    try:
        return comm.read_text() == "slurmd\n"
    except OSError:  # it has just ended
        return False
