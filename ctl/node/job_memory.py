# SPDX-License-Identifier: GPL-2.0-or-later
"""The memory of this node's jobs as Set_Memory and fit look at it: one reading of each job."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ctl.errors import CoschedError
from ctl.kernel.cgroups import JobCgroups
from ctl.node import set_memory
from ctl.node.jobs import Job

__all__ = ["as_seen"]


def as_seen(
    jobs: Iterable[Job], cgroups: JobCgroups, stopped: Callable[[str], bool], elsewhere: Callable[[str], bool]
) -> tuple[set_memory.Job, ...]:
    """The jobs that are still there. `stopped`, `elsewhere`: whether this JID is stopped here, or by another node."""
    found = []
    for job in jobs:
        try:
            memory = cgroups.memory(job.jid)
        except (CoschedError, OSError):  # it has just ended
            continue
        sizes, states = (memory.resident, memory.swapped), (stopped(job.jid), elsewhere(job.jid))
        pids = frozenset(job.processes)
        found.append(set_memory.Job(job.jid, *sizes, job.started, *states, memory.locked, memory.refaults, pids))
    return tuple(found)
