# SPDX-License-Identifier: GPL-2.0-or-later
"""The limits of the cgroups that a process is in, so that a job never has more than the process that starts it.

`ctl run` moves a process into the job's cgroup, which is outside the cgroup it came from. So its limits would end
there: a service of 150 MB, a container, a job of Slurm. A process with a limit on memory, CPU, CPUs or devices is
refused, and so is one that a BPF program of its cgroup bounds, as containers have for devices. systemd limits the
number of tasks of every login and service; this limit goes with the process: the job gets it, and keeps the smallest of
all that enter.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from ctl.errors import FAILED, USAGE, CoschedError
from ctl.kernel.cgroup_programs import programs

__all__ = ["Limit", "check_limits", "hold_tasks", "limits_of"]

_NONE: Final = {
    "memory.max": "max",
    "memory.high": "max",
    "memory.swap.max": "max",
    "memory.zswap.max": "max",
    "pids.max": "max",
    "cpu.max": "max",
    "cpuset.cpus": "",
    "cpuset.mems": "",
    "io.max": "",
}
"""The files that limit a cgroup, and the first word of each that means no limit."""

_TASKS: Final = "pids.max"


class Limit(NamedTuple):
    """A limit of a cgroup."""

    cgroup: str  # below the root, as in /proc/PID/cgroup
    name: str
    value: str


def limits_of(pid: int, root: Path, jobs: Path | None = None) -> list[Limit]:
    """The limits of the cgroup of a process and of all above it, with the programs that do not act in the cgroup of all
    jobs. Raises CoschedError if it has ended."""
    try:
        text = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        raise CoschedError(f"process {pid} has ended", FAILED) from None
    place = Path(text.rpartition("::")[2].strip().removesuffix(" (deleted)").lstrip("/"))
    found = []
    for cgroup in [place, *place.parents][:-1]:
        for name, none in _NONE.items():
            try:
                value = (root / cgroup / name).read_text().strip()
            except OSError:  # the cgroup does not have this controller, or is gone
                continue
            if value.split(" ")[0] != none:
                found.append(Limit(f"/{cgroup}", name, value))
    if jobs is not None:
        left = sorted(programs(root / place) - programs(jobs))
        found += [Limit(f"/{place}", f"BPF program ({kind})", str(number)) for kind, number in left]
    return found


def check_limits(limits: list[Limit], jid: str, jobs: str) -> int | None:
    """The number of tasks that the job is held to, None for no limit; `jobs`: the cgroup of all jobs, whose limits are
    the agent's own.

    Raises CoschedError (status 2) if a limit cannot go with the process.
    """
    tasks = []
    for limit in limits:
        if limit.name == _TASKS:
            tasks.append(int(limit.value))
        elif limit.cgroup != jobs and not limit.cgroup.startswith(f"{jobs}/"):
            raise CoschedError(
                f"job {jid} would not have the limit {limit.name} {limit.value} of {limit.cgroup}, in which it is "
                "started: start it outside, or lift the limit",
                USAGE,
            )
    return min(tasks, default=None)


def hold_tasks(job: Path, tasks: int | None) -> None:
    """Hold a job to so many tasks; a smaller limit stays. Raises CoschedError if the kernel does not do it."""
    if tasks is None:
        return
    file = job / _TASKS
    try:
        now = file.read_text().strip()
        if now == "max" or int(now) > tasks:
            file.write_text(str(tasks))
    except OSError as error:
        raise CoschedError(f"job {job.name} cannot be held to {tasks} tasks: {error.strerror}", FAILED) from None
