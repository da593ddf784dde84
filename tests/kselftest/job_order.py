#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Under rule order the first job of the queue of jobs has the CPU first; the others, and local tasks, do not starve."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ctl.kernel.cgroups import cgroup_id
from ctl.kernel.scheduler import Scheduler
from tests.kselftest import ktap
from tests.kselftest.node import cpu_s, job, loaded, spawned

_SECONDS = ktap.at_length(6.0, 3.0)
_STARVE_MS = 500


def _shares(pids: Sequence[int]) -> list[float]:
    """What part of a CPU each process has for some seconds."""
    before, began = [cpu_s(pid) for pid in pids], time.monotonic()
    time.sleep(_SECONDS)
    seconds = time.monotonic() - began
    return [(cpu_s(pid) - was) / seconds for pid, was in zip(pids, before, strict=True)]


@contextmanager
def _two_jobs() -> Iterator[tuple[Scheduler, dict[str, Path], tuple[int, int]]]:
    """The scheduler, the cgroups of two jobs, and the process of each, which computes on CPU 0."""
    hog = ktap.program("hog")
    with (
        job("first") as first,
        job("second") as second,
        loaded("fit", starve_ms=_STARVE_MS) as scheduler,
        spawned(hog, "1", cgroup=first, cpu=0) as one,
        spawned(hog, "1", cgroup=second, cpu=0) as other,
    ):
        yield scheduler, {"first": first, "second": second}, (one.pid, other.pid)


def first_job_first() -> None:
    """Of two jobs that compute the first has the CPU, the second a turn each starve_ms; the order may change."""
    with _two_jobs() as (scheduler, jobs, pids):
        for order in (("first", "second"), ("second", "first")):
            scheduler.place_jobs([cgroup_id(jobs[name]) for name in order])
            shares = dict(zip(jobs, _shares(pids), strict=True))
            ktap.note(f"{order[0]} is first: {[f'{name} {share:.2f}' for name, share in shares.items()]}")
            # a turn of 20 ms each 500 ms or so
            ktap.measured(shares[order[0]] > 0.8, f"the first has {shares[order[0]]:.2f}")
            ktap.measured(0.005 < shares[order[1]] < 0.15, f"the second has {shares[order[1]]:.2f}")
        ktap.expect(scheduler.stats()["overtakes"], 0, "overtakes: de is no bound here")


def local_tasks_are_passed_by_nobody() -> None:
    """A local task that computes has a turn for each turn of either job."""
    with _two_jobs() as (scheduler, jobs, pids), spawned(ktap.program("hog"), "1", cpu=0) as local:
        scheduler.place_jobs([cgroup_id(path) for path in jobs.values()])
        shares = _shares((local.pid, *pids))
        ktap.note(f"local, first, second: {[f'{share:.2f}' for share in shares]}")
        ktap.measured(shares[0] > 0.28, f"the local task has {shares[0]:.2f}")


if __name__ == "__main__":
    ktap.run(first_job_first, local_tasks_are_passed_by_nobody)
