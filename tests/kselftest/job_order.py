#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Under rule order the first job of the queue of jobs has the CPU first; the others, and local tasks, do not starve."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ctl.kernel.cgroups import cgroup_id
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


def first_job_first() -> None:
    """Of two jobs that compute the first has the CPU, the second a turn each starve_ms; the order may change."""
    hog = ktap.program("hog")
    with (
        job("first") as first,
        job("second") as second,
        loaded("fit", starve_ms=_STARVE_MS) as scheduler,
        spawned(hog, "1", cgroup=first, cpu=0) as one,
        spawned(hog, "1", cgroup=second, cpu=0) as other,
    ):
        for order in ((first, second), (second, first)):
            scheduler.place_jobs([cgroup_id(path) for path in order])
            shares = dict(zip((first, second), _shares((one.pid, other.pid)), strict=True))
            ktap.note(f"{order[0].name} is first: {[f'{path.name} {share:.2f}' for path, share in shares.items()]}")
            # a turn of 20 ms each 500 ms or so
            ktap.measured(shares[order[0]] > 0.8, f"the first has {shares[order[0]]:.2f}")
            ktap.measured(0.005 < shares[order[1]] < 0.15, f"the second has {shares[order[1]]:.2f}")
        ktap.expect(scheduler.stats()["overtakes"], 0, "overtakes: de is no bound here")


def local_tasks_are_passed_by_nobody() -> None:
    """A local task that computes has a turn for each turn of either job."""
    hog = ktap.program("hog")
    with (
        job("first") as first,
        job("second") as second,
        loaded("fit", starve_ms=_STARVE_MS) as scheduler,
        spawned(hog, "1", cpu=0) as local,
        spawned(hog, "1", cgroup=second, cpu=0) as other,
        spawned(hog, "1", cgroup=first, cpu=0) as one,
    ):
        scheduler.place_jobs([cgroup_id(first), cgroup_id(second)])
        shares = _shares((local.pid, one.pid, other.pid))
        ktap.note(f"local, first, second: {[f'{share:.2f}' for share in shares]}")
        ktap.measured(shares[0] > 0.28, f"the local task has {shares[0]:.2f}")


if __name__ == "__main__":
    ktap.run(first_job_first, local_tasks_are_passed_by_nobody)
