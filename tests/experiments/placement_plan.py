# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiment `placement`: LoadShare's programs on small nodes, when and where they come, and who chooses a node.

The programs are those of LoadShare T. 2, scaled; their arrivals are those of trace 1 (eq. 3.6, B-LS-24). Everything
that was scaled is in SCALES, which the results show.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from ctl.sim.loadshare.programs import SETS, TRACES, Program

__all__ = [
    "CONFIGS",
    "DISK_MB",
    "JOB",
    "KNOBS",
    "PAGE_MS",
    "POLICY",
    "PROGRAMS",
    "ROOM_MB",
    "SCALES",
    "Arrival",
    "Config",
    "arguments",
    "arrivals",
    "count_of",
    "need_mb",
]

ROOM_MB: Final = 64  # of a node, left beside system, programs and measuring; jobs get what the agent's reserve leaves
DISK_MB: Final = 192  # of swap: no job is ever killed for want of it
JOB: Final = Path("/run/cosched-ccs/profiled_job")  # in the guests, a tmpfs

_TIME: Final = 1 / 40  # of LoadShare's time
_LONGEST: Final = {"m-m": 1 / 400}  # of the program that lasts 82 minutes
_MEMORY: Final = 1 / 2
_PAPER_FAULT_MS: Final = 10.0
PAGE_MS: Final = _PAPER_FAULT_MS * _TIME / _MEMORY  # so paging takes the same part of a life: there are fewer pages
_TOUCHES: Final = 6000  # pages per second of CPU time: at LoadShare T. 3's 25 % oversize, about as many faults as there
_GROWTH: Final = {"no": 0, "half": 50, "life": 100}  # percent of a life after which a working set is at its largest

POLICY: Final = "rr"  # LoadShare's nodes have turns of equal length; the queue of `fit` places jobs under any policy
KNOBS: Final[dict[str, Any]] = {
    "fit": "on", "events": "on", "turn_s": 0, "local_user": "off", "sensors": "off",
    "memory_mb": ROOM_MB, "speed": 1000.0,
}  # fmt: skip

PROGRAMS: Final = tuple(SETS["seven"])


@dataclass(frozen=True, slots=True)
class Config:
    """Who chooses the node of a job, by a policy of `ctl place`; empty: it runs where it comes.

    `known`: its largest need is declared; `waits`: it does not run before its memory fits, and is stopped if it grows
    out of it. Else it runs at once, and pages.
    """

    name: str
    by: str = ""
    known: bool = True
    waits: bool = False


CONFIGS: Final = {
    config.name: config
    for config in (
        Config("none"),
        Config("cpu", "cpu"),
        Config("mem", "mem"),
        Config("cpu-mem-hp", "cpu-mem-hp"),
        Config("cpu-mem-ht", "cpu-mem-ht"),
        Config("blocking", known=False, waits=True),
        Config("free", "free", known=False, waits=True),
        Config("fit", "cpu-mem-hp", waits=True),
    )
}

SCALES: Final = (
    ("nodes", "32", "4 virtual machines of 1 emulated CPU each, in lock-step"),
    ("memory of a node for jobs", "121 of 128 MB (B-LS-16)",
     f"{ROOM_MB} MB, less the agent's reserve; all else is held or locked"),
    ("working sets", "T. 2", f"{_MEMORY:g} of T. 2"),
    ("lifetimes", "T. 2: 42 to 4,902 s", f"{_TIME:g} of T. 2, m-m {_LONGEST['m-m']:g}: 1 to 12 s"),
    ("service of a page fault", "10 ms, one at a time", f"{PAGE_MS:g} ms, one at a time"),
    ("reads and writes", "12 ms each", f"the same part of a life, in reads of {PAGE_MS:g} ms from the device of swap"),
    ("touches of pages", "as the programs do",
     f"{_TOUCHES:,} a second of CPU time, every page of the set as likely; one in four writes"),
    ("arrivals", "trace 1: 503 in 1,365 s at random nodes; eq. 3.6, u = 150 s",
     f"on N nodes 7 (N - 1), each program N - 1 times, in {TRACES['trace1'].end_s * _TIME:.0f} s; "
     f"u = {TRACES['trace1'].unit_s * _TIME:g} s"),
    ("network", "10 or 100 Mbps; 0.05 or 0.1 s to begin a job elsewhere", "1 to 2 ms there and back"),
    ("thresholds CT, MT", "a job that is above stays or is refused", "none: the least loaded node of all is taken"),
    ("migration of running jobs", "part II", "none: a job that has begun stays (docs/cluster.md)"),
)  # fmt: skip


class Arrival(NamedTuple):
    """A job: when it comes, from the beginning of the run, to which node (from 0), and what it is."""

    at_s: float
    node: int
    program: str


def count_of(nodes: int) -> int:
    """How many jobs come to a cluster of so many nodes."""
    return (nodes - 1) * len(PROGRAMS)


def arrivals(nodes: int, seed: int) -> list[Arrival]:
    """The jobs of a run, in the order in which they come (LoadShare eq. 3.6, B-LS-24, B-LS-25)."""
    drawn, trace = random.Random(f"placement {seed}"), TRACES["trace1"]
    times: list[float] = []
    while len(times) < count_of(nodes):
        at = drawn.random() * trace.end_s
        z = (math.log(max(at, 1e-9) / trace.unit_s) - trace.mu) / trace.sigma
        if drawn.random() < math.exp(-z * z / 2):
            times.append(at * _TIME)
    programs = list(PROGRAMS) * (nodes - 1)
    drawn.shuffle(programs)
    return [Arrival(at, drawn.randrange(nodes), program) for at, program in zip(sorted(times), programs, strict=True)]


def need_mb(program: str) -> float:
    """The largest working set here, MB."""
    return SETS["seven"][program].high_mb * _MEMORY


def _scale(name: str) -> float:
    return _LONGEST.get(name, _TIME)


def arguments(program: str, loops_per_ms: int, disk: str, seed: int) -> list[str]:
    """The command line of tests/progs/profiled_job.c for a program; `disk`: a device of PAGE_MS."""
    one: Program = SETS["seven"][program]
    cpu_s, io_s = one.cpu_s * _scale(program), one.io_s * _scale(program)
    low, high = (round(1024 * mb * _MEMORY) for mb in (one.low_mb, one.high_mb))
    numbers = (
        *(low, high, _GROWTH[one.grows]),
        *(round(1000 * cpu_s * loops_per_ms), round(_TOUCHES * cpu_s), round(1000 * io_s / PAGE_MS)),
    )
    return [str(JOB), *map(str, numbers), disk, str(seed)]
