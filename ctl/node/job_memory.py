# SPDX-License-Identifier: GPL-2.0-or-later
"""The memory of this node's jobs as Set_Memory and fit look at it: one reading of each job."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ctl.errors import CoschedError
from ctl.kernel import swap
from ctl.kernel.cgroup_memory import Memory
from ctl.kernel.cgroups import JobCgroups
from ctl.node import set_memory
from ctl.node.jobs import Job
from ctl.node.pools import Pools

__all__ = ["as_seen", "staying"]


def as_seen(
    jobs: Iterable[Job], cgroups: JobCgroups, pools: Pools, elsewhere: Callable[[str], bool]
) -> tuple[set_memory.Job, ...]:
    """The jobs that are still there. `elsewhere`: whether this JID is stopped by another node, or its
    owner."""
    found, kept = [], swap.kept()
    for job in jobs:
        jid = job.jid
        try:
            memory, free = cgroups.memory(jid), cgroups.swap_free(jid)
        except (CoschedError, OSError):  # it has just ended
            continue
        stays = staying(memory, free, pools.stuck(jid), kept.all)
        found.append(
            set_memory.Job(
                jid,
                memory.resident,
                memory.swapped,
                job.started,
                stopped=pools.stopped(jid),
                elsewhere=elsewhere(jid),
                stays=stays,
                refaults=memory.refaults,
                movable=memory.movable,
                lingers=job.lingers,
                pids=frozenset(job.processes),
            )
        )
    return tuple(found)


def staying(memory: Memory, swap_free: int, stuck: int, kept: float) -> int:
    """What a job has in memory when it is stopped, or would have, bytes: what cannot go to swap, what swap has no room
    for, and what swap keeps compressed in memory. The same before, while and after it goes out.

    >>> staying(Memory(100, 20, 10, movable=80), swap_free=1000, stuck=0, kept=0.0)
    10
    >>> staying(Memory(100, 20, 10, movable=80), swap_free=50, stuck=0, kept=0.5)  # 10 + 30 + 70 / 2
    75
    """
    movable = max(0, memory.movable - stuck)
    out = min(movable, swap_free)
    return memory.locked + min(stuck, memory.movable) + movable - out + int(kept * (memory.swapped + out))
