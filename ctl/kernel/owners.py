# SPDX-License-Identifier: GPL-2.0-or-later
"""Whose a socket is: its job by the cgroup in which it was made, its process by the open files in /proc.

A look at everything reads many small files. So what it finds is kept, and it is repeated when a number is new, at most
once a second.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from ctl.kernel import slurm
from ctl.kernel.cgroups import PARENT, cgroup_id
from ctl.kernel.kernfs import read
from ctl.kernel.member import jid_of

__all__ = ["Kept", "Task", "jobs_of_cgroups", "processes_of_sockets", "task"]

T = TypeVar("T")

_AGAIN_S: Final = 1.0
_SOCKET: Final = "socket:["


class Task(NamedTuple):
    """A process, and the job that it is in."""

    pid: int
    comm: str
    jid: str | None


class Kept(Generic[T]):
    """Answers by number, kept from a look at everything."""

    def __init__(self, look: Callable[[], dict[int, T]]) -> None:
        """`look` gives the answers to all numbers that have one."""
        self._look = look
        self._known: dict[int, T | None] = {}
        self._asked: set[int] = set()  # since the last look; those that it does not find are not looked for again
        self._next = float("-inf")

    def get(self, number: int) -> T | None:
        """The answer; None if the number has none, or if it came since the last look."""
        self._asked.add(number)
        if number not in self._known and time.monotonic() >= self._next:
            self._known = {**dict.fromkeys(self._asked), **self._look()}
            self._asked.clear()
            self._next = time.monotonic() + _AGAIN_S
        return self._known.get(number)


def jobs_of_cgroups(parent: Path = PARENT) -> dict[int, str]:
    """The job of each cgroup that belongs to one, by the cgroup's id; those of Slurm, too."""
    found: dict[int, str] = {}
    with contextlib.suppress(OSError):  # no job was ever run here
        for path in parent.iterdir():
            found |= dict.fromkeys(_ids(path), path.name)
    for place in slurm.find_jobs():
        jobs = (slurm.job_of(pid) for pid in slurm.processes(place))
        if job := next((job for job in jobs if job is not None), None):
            found |= dict.fromkeys(_ids(place), job.jid)
    return found


def _ids(path: Path) -> Iterator[int]:
    """The ids of a cgroup and of those below it."""
    for directory, _, _ in os.walk(path):
        with contextlib.suppress(OSError):  # removed since
            yield cgroup_id(Path(directory))


def processes_of_sockets(pids: Iterable[int] | None = None) -> dict[int, int]:
    """The process that has a socket open, by the socket's inode: of these processes, or of all that one may look at."""
    if pids is None:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    found: dict[int, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as files:
            for file in files:
                if (target := os.readlink(file)).startswith(_SOCKET):
                    found.setdefault(int(target[len(_SOCKET) : -1]), pid)
    return found


def task(tid: int) -> Task | None:
    """The process of a thread; None if it has ended."""
    try:
        status = read(f"/proc/{tid}/status").split("\n")
        comm = read(f"/proc/{tid}/comm").rstrip("\n")
    except OSError:
        return None
    pid = next((int(line.split()[1]) for line in status if line.startswith("Tgid:")), tid)
    return Task(pid, comm, jid_of(tid))
