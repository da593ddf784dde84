#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Tasks that compute have the same part of the CPUs that they may use, whatever CPU they were forked on."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.kselftest import ktap
from tests.kselftest.node import cpu_s, job, loaded, spawned

_SETTLE_S = 1.0
_SECONDS = ktap.at_length(6.0, 3.0)
_OFF = 0.1  # of the fair part, either way
_CROWDS = (3, 6, 5, 12)  # on two CPUs


@contextmanager
def _hogs(count: int) -> Iterator[list[int]]:
    """So many processes that compute, all begun on CPU 0, which may use all CPUs now; their pids."""
    with ExitStack() as stack:
        hogs = [stack.enter_context(spawned(ktap.program("hog"), "1", cpu=0)).pid for _ in range(count)]
        time.sleep(0.2)
        for pid in hogs:
            os.sched_setaffinity(pid, range(os.cpu_count() or 1))
        yield hogs


def _parts(count: int) -> list[float]:
    """What part of a CPU each of so many hogs has."""
    with _hogs(count) as hogs:
        time.sleep(_SETTLE_S)
        before, began = [cpu_s(pid) for pid in hogs], time.monotonic()
        time.sleep(_SECONDS)
        used, took = [cpu_s(pid) for pid in hogs], time.monotonic() - began
    return [(now - was) / took for was, now in zip(before, used, strict=True)]


def _fair(count: int, what: str) -> None:
    fair = min(1.0, (os.cpu_count() or 1) / count)
    got = _parts(count)
    ktap.note(f"{what}, {count} hogs: {min(got):.3f} to {max(got):.3f} of a CPU, fair is {fair:.3f}")
    right = min(got) > (1 - _OFF) * fair and max(got) < (1 + _OFF) * fair
    ktap.measured(right, f"{what}, {count} hogs: {[round(part, 3) for part in got]} of a CPU, fair is {fair:.3f}")


def without_jobs() -> None:
    """Without a job."""
    with loaded():
        for count in ktap.cases(_CROWDS, 2):
            _fair(count, "no job")


def beside_a_job_that_sleeps() -> None:
    """Beside a job that sleeps."""
    with job("asleep") as cgroup, loaded(), spawned("sleep", "1000", cgroup=cgroup):
        for count in ktap.cases(_CROWDS):
            _fair(count, "a job asleep")


def in_order() -> None:
    """With all decisions recorded: the queues are in order."""
    with loaded() as scheduler:
        scheduler.write_knobs(trace=1)
        for count in ktap.cases(_CROWDS):
            _fair(count, "in order")
        scheduler.write_knobs(trace=0)


if __name__ == "__main__":
    ktap.run(without_jobs, beside_a_job_that_sleeps, in_order)
