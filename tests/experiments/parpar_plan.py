# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiment `parpar`: the workloads of ParPar §4.2 and what was scaled down from its laboratory.

The node is the paper's in memory: 55 MB are not the kernel's and stand in eq. 1, 45 MB of these are free for jobs, and
a job is a process with a static array of 10 MB. Time is shorter: the proportions of an access, a slot and a page fault
are told in scales(). One measurement is a `Case`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = [
    "ACCESSES", "C_SWEEP", "FAULT_MS", "FIGURE_5", "FREE_MB", "LARGE", "MOST", "NODE_MB", "NO_LIMIT", "SHORT",
    "SLOT_MS", "THETAS", "Case", "arrays", "cases", "limit_name", "scales",
]  # fmt: skip

NODE_MB: Final = 55
"""Of eq. 1: all that is not the kernel's (§4.2)."""
FREE_MB: Final = 45
"""What jobs can have in memory (§4.2): the limit of their cgroup."""
_ARRAY_MB: Final = 10
_LARGE_MB: Final = 70
ACCESSES: Final = 100_000
"""Of a job: the unit of F. 4's max."""
SLOT_MS: Final = 20
FAULT_MS: Final = 1
"""Of a request to the swap device, which serves one at a time."""

NO_LIMIT: Final = 0.0
"""As C: all jobs run at once."""
MOST: Final = 50
"""Jobs of F. 6, and the most of F. 5."""
_LEAST: Final = 5
_POINTS: Final = 6  # numbers of jobs in F. 5
FIGURE_5: Final = (1.0, 1.5, NO_LIMIT)
"""C of F. 5, at θ = 1 and 2."""
C_SWEEP: Final = (0.4, 0.8, 1.0, 1.2, 1.5, 2.0, NO_LIMIT)
"""C of F. 6, and one below what is free, for PP-16."""
THETAS: Final = (1.0, 1.25, 1.5, 1.75, 2.0)
LARGE: Final = "large"
"""The kind of the case with a job that is larger than the node (§3.2, PP-22)."""


class Case(NamedTuple):
    """One measurement: so many jobs that are all there at once, at a locality θ, under a limit C of eq. 1.

    kind: "static", jobs alike; "large": the one in their middle has 70 MB.
    """

    kind: str
    jobs: int
    theta: float
    c: float


SHORT: Final = [Case("static", 8, 1.0, c) for c in (0.8, NO_LIMIT)]
"""Shows the direction: twice as many jobs as fit. C = 1.5 would admit all eight, too."""


def limit_name(c: float) -> str:
    """The limit in words.

    >>> limit_name(1.5), limit_name(NO_LIMIT)
    ('C=1.5', 'no limit')
    """
    return f"C={c:g}" if c != NO_LIMIT else "no limit"


def arrays(case: Case) -> list[int]:
    """The array of each job, MB, in the order of the queue.

    >>> arrays(Case("large", 3, 2.0, 1.0))
    [10, 70, 10]
    """
    sizes = [_ARRAY_MB] * case.jobs
    if case.kind == LARGE:
        sizes[case.jobs // 2] = _LARGE_MB
    return sizes


def cases(most: int = MOST) -> list[Case]:
    """All, each once, with up to so many jobs, in the order in which they are made: what claims need most comes first.

    >>> sorted({case.jobs for case in cases(30)})
    [5, 10, 15, 20, 25, 30]
    """
    jobs = [_LEAST + (most - _LEAST) * step // (_POINTS - 1) for step in range(_POINTS)]
    found = [Case(LARGE, 5, 2.0, 1.0)]
    found += [Case("static", count, theta, c) for count in jobs for theta in (2.0, 1.0) for c in FIGURE_5]
    found += [Case("static", most, theta, c) for theta in (2.0, 1.0, 1.5, 1.75, 1.25) for c in C_SWEEP]
    return list(dict.fromkeys(found))


def scales(most: int) -> list[tuple[str, str, str]]:
    """What was scaled down with so many jobs: what, the paper's, ours."""
    return [*_SCALES, ("jobs", f"5 to {MOST}; {MOST} in F. 6", f"5 to {most}; {most} in F. 6")]


_SCALES: Final = (
    ("nodes", "2 of 16 PCs, Pentium Pro of 200 MHz, BSDI", "1 virtual machine with 1 emulated CPU, 500 million "
     "instructions a second, Linux; the processes of a job do not talk to each other"),
    ("memory", "64 MB, 55 MB not the kernel's, 45 MB of these free", "the jobs' cgroup has a limit of 45 MB; 55 MB "
     "stand in eq. 1"),
    ("swap", "a SCSI disk", f"null_blk, one request at a time, {FAULT_MS} ms each, no read-ahead"),
    ("a job", "static array of 10 MB, max a multiple of 100,000 accesses",
     f"the same, max = {ACCESSES:,}, F. 4 corrected as B-PP-1 says"),
    ("an access, a fault", "2.5 µs and 10 ms, as the simulator estimates", f"about 0.5 µs and {FAULT_MS} ms"),
    ("gangs", "masterd and noded; slots of unknown length", f"one row for each job, slots of {SLOT_MS} ms, by SIGSTOP "
     "and SIGCONT"),
    ("estimate", "previous runs, else the executable's static size", "the static size, by ctl/kernel/elf.py"),
    ("admission", "eq. 1, masterd's queue", "ctl/jobs/fit.py, the rule of policy `fit`, with C times 55 MB of room"),
)  # fmt: skip
