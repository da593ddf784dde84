# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs that are bound to the same CPUs while others have none: `mpiexec` binds its ranks to the first CPUs of a node,
whoever is there (Open MPI by default), and a scheduler cannot move them away."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

__all__ = ["Mask", "bound", "clashes", "cpu_list"]

Mask = frozenset[int]  # CPUs that a thread may use


def bound(pids: Iterable[int], online: Mask) -> list[Mask]:
    """The different masks of each process that leave CPUs out: one for a rank, as its threads inherit the mask, and one
    for each place of a process that binds its threads."""
    found: list[Mask] = []
    for pid in pids:
        masks = set()
        try:
            for tid in os.listdir(f"/proc/{pid}/task"):
                masks.add(frozenset(os.sched_getaffinity(int(tid))) & online)
        except OSError:  # it has ended
            continue
        found += [mask for mask in masks if mask and mask < online]
    return found


def clashes(jobs: Mapping[str, Sequence[Mask]], online: Mask) -> dict[tuple[str, str], tuple[Mask, Mask]]:
    """The pairs of jobs that are bound to more places than they have CPUs, with these CPUs and those to which no job is
    bound. None where every CPU has a job: somebody has to share then.

    >>> clashes({"a": [Mask({0})], "b": [Mask({0})]}, Mask({0, 1}))
    {('a', 'b'): (frozenset({0}), frozenset({1}))}
    >>> clashes({"a": [Mask({0, 1})], "b": [Mask({0, 1})]}, Mask({0, 1, 2})), clashes({"a": [Mask({0})]}, Mask({0, 1}))
    ({}, {})
    """
    unions = {jid: Mask().union(*masks) for jid, masks in jobs.items() if masks}
    free = online.difference(*unions.values())
    return {
        (one, other): (unions[one] & unions[other], free)
        for one, other in combinations(sorted(unions), 2)
        if free and unions[one] & unions[other] and len(jobs[one]) + len(jobs[other]) > len(unions[one] | unions[other])
    }


def cpu_list(cpus: Iterable[int]) -> str:
    """CPUs as the kernel writes them.

    >>> cpu_list([0, 1, 2, 5]), cpu_list([7])
    ('0-2,5', '7')
    """
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][-1] == cpu - 1:
            runs[-1][1:] = [cpu]
        else:
            runs.append([cpu])
    return ",".join("-".join(map(str, run)) for run in runs)
