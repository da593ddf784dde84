# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes that a job started and that are not in its cgroup: containers of podman, which gives them a cgroup of their
own elsewhere, and of dockerd, which starts them itself. Their CPU time and memory are not the job's: no rule orders
them, no turn stops them, `ctl cancel` leaves them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from ctl.kernel.member import cgroup_of

__all__ = ["Stray", "clients", "strays"]

_CLIENTS = {"docker", "nerdctl", "podman-remote"}  # programs that have a service start their containers


@dataclass(frozen=True)
class Stray:
    """A process of a job that is elsewhere."""

    pid: int
    program: str
    cgroup: str  # as in /proc/PID/cgroup


def strays(started: Collection[int], inside: Collection[int], jobs: str) -> list[Stray]:
    """Those of the processes `started` by a job that live outside of all jobs' cgroups, in the order of their numbers.

    `inside`: those in the job's own cgroup; `jobs`: the cgroup of all jobs, as in /proc/PID/cgroup.
    """
    found = []
    for pid in sorted(set(started) - set(inside)):
        cgroup = cgroup_of(pid)
        if cgroup and not f"{cgroup}/".startswith(f"{jobs}/"):
            found.append(Stray(pid, _program(pid), cgroup))
    return found


def clients(pids: Iterable[int], job: str) -> list[str]:
    """The programs among these that have a service start their containers, and do not name the `job`'s cgroup, as in
    /proc/PID/cgroup, as its place."""
    return sorted({name for pid in pids if (name := _program(pid)) in _CLIENTS and job not in _read(pid, "cmdline")})


def _program(pid: int) -> str:
    return _read(pid, "comm").rstrip("\n")


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:  # it has just ended
        return ""
