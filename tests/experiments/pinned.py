# SPDX-License-Identifier: GPL-2.0-or-later
"""Small workloads for both the kernel and the simulator: pinned tasks that compute, some of them tasks of a job.

This file declares them once, and makes from them the arguments of tests/progs/pinned_tasks.c, the jobs of model csm,
and both sides' knobs. The simulator draws the times at which messages fall due, and the program gets them. Memory is
abundant, tasks sleep only for messages, and no task changes its CPU, so only the order of the ready queues decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["KNOBS", "POLICIES", "WORKLOADS", "End", "Work", "arguments", "parameters", "places", "tasks"]

POLICIES: Final = ("rr", "pred")

_SLICE_MS: Final = 38  # from tick to tick 40; no whole number of ticks, where the kernel's own time would decide
_TICK_MS: Final = 4  # CONFIG_HZ=250
_GAP_MS: Final = 12
_MNO: Final = 2


class Work(NamedTuple):
    """A job with a task on each of these CPUs, the next in turn, or a local task on one; CPU time of each task."""

    name: str
    cpus: tuple[int, ...]
    cpu_ms: int
    parallel: bool = False


WORKLOADS: Final[Mapping[str, tuple[Work, ...]]] = {
    "one CPU": (
        Work("J", (0, 0), 2700, parallel=True),
        Work("K", (0, 0), 750, parallel=True),
        Work("a", (0,), 1500),
        Work("b", (0,), 5100),
        Work("c", (0,), 7200),
    ),
    "two CPUs": (
        Work("J", (0, 1), 4800, parallel=True),
        Work("a", (0,), 2700),
        Work("b", (0,), 4500),
        Work("c", (0,), 6000),
        Work("d", (1,), 3300),
        Work("e", (1,), 7350),
    ),
}
"""In the order in which tasks begin. A queue for each CPU.

Long enough that a turn more or less is little of anybody's share when the first three end: a message that comes a
microsecond too late waits for a whole round. With a third of the work a turn was a seventh of J's share on two CPUs,
and the kernel's runs, which repeat, were of two kinds: one within 5 % of the simulator and one at 14 %.
"""

KNOBS: Final[Mapping[str, Any]] = {
    "quantum_ms": _SLICE_MS,
    "mno": _MNO,
    "sensors": "on",
    "overload": "off",
    "credit": "off",
    "reinsert": "off",  # a message for a queued task does not move it: CSM inserts once
    "spin_ms": 0,
    "walk_max": 64,
    "top_ms": 10_000,  # dyn leads a job's task to the top however long that has gone on
}
"""The kernel's side."""

Place = tuple[str, int]
"""The part of a job or local task on a CPU: its name, the CPU."""


class End(NamedTuple):
    """The end of a job or local task, and the CPU time that each place had had by then; in s."""

    name: str
    at_s: float
    cpu_s: Mapping[Place, float]


def tasks(workload: Sequence[Work]) -> list[Place]:
    """The place of every task, in the order in which tasks begin."""
    return [(work.name, cpu) for work in workload for cpu in work.cpus]


def places(workload: Sequence[Work]) -> list[Place]:
    """The same, each once."""
    return list(dict.fromkeys(tasks(workload)))


def arguments(workload: Sequence[Work], gaps_s: Mapping[str, Sequence[float]]) -> list[str]:
    """The arguments of pinned_tasks, without the jobs' cgroup.procs; gaps_s: of each job."""
    jobs = [work.name for work in workload if work.parallel]
    gaps = [",".join(str(round(gap * 1e6)) for gap in gaps_s[job]) for job in jobs]
    number = {work.name: str(jobs.index(work.name)) if work.parallel else "-" for work in workload}
    each = [f"{cpu}:{number[work.name]}:{work.cpu_ms}" for work in workload for cpu in work.cpus]
    return [str(len(jobs)), *gaps, *each]


def parameters(workload: Sequence[Work]) -> dict[str, object]:
    """The simulator's side of KNOBS: a node for each CPU, as each has a ready queue, and memory for all."""
    return {
        "nodes": 1 + max(cpu for work in workload for cpu in work.cpus),
        "local_share": 1.0,
        "slice_ms": _SLICE_MS,
        "mfreq_ms": _GAP_MS,
        "slices": "equal",
        "tick_ms": _TICK_MS,
        "mnol": _MNO,
        "mnod": _MNO,
        "c_mes": "backlog",  # COM is what is queued now
        "refs": 0,
    }
