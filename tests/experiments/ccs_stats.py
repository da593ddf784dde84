# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of runs, means of them with 95 % confidence, and ratios of means.

    speedup             mean over the jobs of T on one node, alone, all tasks there / T on the cluster (CCS eq. 7,
                        B-CCS-23); a job that had not ended in time counts as nothing. From the opening of its gate
    completion          mean over the jobs, from the beginning of the run; a job that had not ended counts until then.
                        Beside eq. 7, which rewards the scheduler that lets single jobs starve
    of_limit            completion / the least that any scheduler could reach: the jobs' CPU time alone, the nodes never
                        idle, without users, paging and messages, the shortest job first
    wait                the longest time from a gate's opening to the job's end
    slowdown            of local users: seconds of all their stays / seconds these take undisturbed (B-CCS-24), the
                        start of their programs among them
    active              the same without the time in which they are asleep on purpose: what a user feels who waits
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ctl.sim.intervals import student_t

__all__ = ["FIGURES", "Figure", "Mean", "figures", "mean", "ratio"]

Run = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean of `runs` values and half the width of its 95 % confidence interval; None: one run has none."""

    value: float
    half: float | None
    runs: int

    def __str__(self) -> str:
        digits = 0 if self.value >= 100 else 1 if self.value >= 20 else 2
        text = f"{self.value:,.{digits}f}"
        return text if self.half is None else f"{text} ± {self.half:,.{digits}f}"


def mean(values: Sequence[float]) -> Mean | None:
    """The mean of values; None of none.

    >>> str(mean([1.0, 2.0, 3.0]))
    '2.00 ± 2.48'
    """
    if not values:
        return None
    if len(values) == 1:
        return Mean(values[0], None, 1)
    t = student_t(len(values) - 1)
    return Mean(statistics.mean(values), t * statistics.stdev(values) / math.sqrt(len(values)), len(values))


def ratio(of: Mapping[int, float], to: Mapping[int, float]) -> Mean | None:
    """How many times as much: the mean of the ratios of runs with the same number, which had the same users."""
    return mean([of[number] / to[number] for number in sorted(of) if to.get(number)])


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a run, how it is called, and how it is found in the run with the workload's baselines."""

    key: str
    label: str
    of: Callable[[Run, Run], float | None]


def figures(run: Run, alone: Run) -> dict[str, float]:
    """All figures that a run has."""
    found = {figure.key: figure.of(run, alone) for figure in FIGURES}
    return {key: value for key, value in found.items() if value is not None}


def _speedup(run: Run, alone: Run) -> float | None:
    base = {kernel: float(job["seconds"]) for kernel, job in alone["jobs"].items()}
    # `alone` has two ranks; more have as much more to do
    bases = [base[job["kernel"]] * job.get("ranks", 2) / 2 for job in run["jobs"]]
    pairs = zip(bases, run["jobs"], strict=True)
    return statistics.mean(alone_s / _took(job) if job["seconds"] else 0.0 for alone_s, job in pairs)


def _took(job: Mapping[str, Any]) -> float:
    """Seconds from the opening of its gate to its end; of runs that did not note it, by the job's own clock."""
    return float(job["ended_s"] - job["opened_s"] if job.get("ended_s") else job["seconds"])


def _completion(run: Run, _alone: Run) -> float | None:
    if any("ended_s" not in job for job in run["jobs"]):
        return None
    return statistics.mean(float(job["ended_s"] or run["makespan_s"]) for job in run["jobs"])


def _of_limit(run: Run, alone: Run) -> float | None:
    completion = _completion(run, alone)
    if completion is None:
        return None
    cpu = {kernel: float(job["cpu_s"]) / 2 for kernel, job in alone["jobs"].items()}  # a rank's: `alone` has two
    work = sorted(cpu[job["kernel"]] * job.get("ranks", 2) / len(run["nodes"]) for job in run["jobs"])
    least = float(statistics.mean(itertools.accumulate(work)))
    return completion / least


def _wait(run: Run, _alone: Run) -> float | None:
    if any("ended_s" not in job for job in run["jobs"]):
        return None
    opened = [job for job in run["jobs"] if job["opened_s"] is not None]
    return max(float((job["ended_s"] or run["makespan_s"]) - job["opened_s"]) for job in opened)


def _slowdown(run: Run, alone: Run) -> float | None:
    took = undisturbed = 0.0
    for user in run["locals"]:
        base = alone["locals"][user["profile"]]
        took += user["start_s"] + user["seconds"]
        undisturbed += base["start_s"] + user["cycles"] * base["seconds"] / base["cycles"]
    return took / undisturbed if undisturbed else None


def _active(run: Run, alone: Run) -> float | None:
    took = undisturbed = 0.0
    for user in run["locals"]:
        base = alone["locals"][user["profile"]]
        took += user["active_s"]
        undisturbed += user["cycles"] * base["active_s"] / base["cycles"]
    return took / undisturbed if undisturbed else None


def _latency(name: str) -> Callable[[Run, Run], float | None]:
    return lambda run, _alone: run["latency"].get(name)


def _of_jobs(name: str) -> Callable[[Run, Run], float | None]:
    def of(run: Run, _alone: Run) -> float | None:
        values = [float(job[name]) for job in run["jobs"] if job.get(name) is not None]
        return sum(values) if values else None

    return of


def _together(run: Run, _alone: Run) -> float | None:
    values = [float(job["together"]) for job in run["jobs"] if job["together"] is not None]
    return statistics.mean(values) if values else None


FIGURES: Final = (
    Figure("speedup", "speedup of jobs", _speedup),
    Figure("completion", "mean completion, s", _completion),
    Figure("of_limit", "times the least possible", _of_limit),
    Figure("wait", "longest wait, s", _wait),
    Figure("makespan_s", "all jobs, s", lambda run, _alone: float(run["makespan_s"])),
    Figure("slowdown", "slowdown of local users", _slowdown),
    Figure("active", "the same while active", _active),
    Figure("p50_ms", "system call latency, ms", _latency("p50")),
    Figure("p99_ms", "p99, ms", _latency("p99")),
    Figure("max_ms", "longest, ms", _latency("max")),
    Figure("faults", "major faults", lambda run, _alone: float(sum(node["pgmajfault"] for node in run["nodes"]))),
    Figure("together", "ranks run at once", _together),
    Figure("mpi_cpu_s", "CPU in MPI calls, s", _of_jobs("mpi_cpu_s")),
    Figure("unfinished", "jobs not ended", lambda run, _alone: float(sum(not job["seconds"] for job in run["jobs"]))),
)
