# SPDX-License-Identifier: GPL-2.0-or-later
"""Another node that has memory for a job whose own node has too little: people are told, with the way there.

Such jobs are why LoadShare moves jobs (LoadShare §1). cosched starts jobs on the node that has room (placing.py), and
moves none that has begun (docs/cluster.md says why): its owner may end it, and start it there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ctl.jobs.mib import needed, there
from ctl.jobs.order import Known

__all__ = ["elsewhere", "outgrown", "unclaimed"]

_IF: Final = ", if it is for one node"  # a job that has not begun has not said on which others it will be


def unclaimed(jobs: Sequence[Known], rooms: Mapping[str, int]) -> dict[str, int]:
    """Bytes that no job needs, by node; below 0 where jobs need more than there is. `rooms`: bytes for jobs."""
    free = dict(rooms)
    for job in jobs:
        for node, need in job.needs.items():
            free[node] -= need
    return free


def elsewhere(job: Known, free: Mapping[str, int]) -> str:
    """In words, where this job would have memory; empty: nowhere, or it is on several nodes. `free`: see unclaimed().

    >>> elsewhere(Known("b", {"n1": 40 << 20}, here=True), {"n1": -20 << 20, "n2": 60 << 20})
    'n2 has 60 MiB free: after `ctl cancel b`, `ctl run --memory 40M --nodes 1 --by free` starts it there anew'
    """
    others = [(there(size), node) for node, size in free.items() if node not in job.needs]
    need = needed(sum(job.needs.values()))
    if len(job.needs) != 1 or not need or not others or max(others)[0] < need:
        return ""
    most, node = max(others)
    way = f"after `ctl cancel {job.jid}`, `ctl run --memory {need}M --nodes 1 --by free` starts it there"
    return f"{node} has {most} MiB free: {way}{' anew' if job.here else _IF}"


def outgrown(job: Known, rooms: Mapping[str, int], where: str) -> str:
    """In words, that a running job needs more than its node has for jobs, while another has room; empty: it is not so.

    `where`: see elsewhere().

    >>> outgrown(Known("b", {"n1": 70 << 20}), {"n1": 60 << 20}, "n2 has 90 MiB free")
    'needs 70 MiB on n1, which has 60 for jobs; n2 has 90 MiB free'
    >>> outgrown(Known("b", {"n1": 70 << 20}), {"n1": 60 << 20}, "")
    ''
    """
    short = next((node for node, need in job.needs.items() if need > rooms[node]), None)
    if not where or short is None:
        return ""
    return f"needs {needed(job.needs[short])} MiB on {short}, which has {there(rooms[short])} for jobs; {where}"
