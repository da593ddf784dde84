# SPDX-License-Identifier: GPL-2.0-or-later
"""The cgroups of peers that want some: LOCAL for local tasks, and JOBS with a cgroup in it for each job.

Under the peer "static" they have the weights and the protection that systemd and uresourced set: CPUWeight 20 for jobs,
500 and MemoryMin for local tasks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ctl.kernel.cgroups import ROOT

__all__ = ["LOCAL", "inside", "job_group", "make", "protect", "remove", "weigh"]

JOBS: Final = ROOT / "jobs"
LOCAL: Final = ROOT / "local"  # just below the root: deeper, MemoryMin would want the same of all above
_CPU_WEIGHTS: Final = {JOBS: 20, LOCAL: 500}
_LIBRARIES_KB: Final = 2048  # of a local task, besides the memory that it goes through


def job_group(name: str) -> Path:
    """The cgroup of a job."""
    return JOBS / name


def make(jobs: Iterable[str]) -> None:
    """Make the cgroups, with a CPU weight of 100 each."""
    for path in (ROOT, JOBS):
        path.mkdir(exist_ok=True)
        (path / "cgroup.subtree_control").write_text("+cpu +memory")
    for path in (LOCAL, *map(job_group, jobs)):
        path.mkdir(exist_ok=True)


def weigh() -> None:
    """Prefer local tasks to jobs on the CPU."""
    for path, weight in _CPU_WEIGHTS.items():
        (path / "cpu.weight").write_text(str(weight))


def protect(local_kb: int) -> None:
    """Have the kernel leave a local task its memory, which goes through so much."""
    (LOCAL / "memory.min").write_text(str((local_kb + _LIBRARIES_KB) * 1024))


def inside(cgroup: Path, argv: list[str]) -> list[str]:
    """The command line, run in this cgroup if it exists."""
    if not cgroup.is_dir():
        return argv
    return ["sh", "-c", f'echo $$ >{cgroup}/cgroup.procs; exec "$@"', "sh", *argv]


def remove() -> None:
    """Take processes out, and the cgroups away."""
    for path in (*JOBS.glob("*/"), JOBS, LOCAL):
        if not path.is_dir():
            continue
        for pid in (path / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (ROOT / "cgroup.procs").write_text(pid)
        path.rmdir()
