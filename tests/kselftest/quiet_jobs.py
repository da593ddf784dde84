#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Beside jobs that sleep, local tasks need no order; a task of a job that comes finds all of them in their places."""

from __future__ import annotations

import time

from tests.kselftest import ktap
from tests.kselftest.node import insertions, job, loaded, online, spawned

_QUANTUM_MS = 100
_PAUSE_US = 300_000  # longer than QUIET_PAUSE and a quantum: quiet mode begins between two wake-ups
_WAKE_UPS = 12
_HOGS = 80


def beside_a_sleeping_job() -> None:
    """Local hogs beside a job that sleeps wait in the local DSQ, as without a job."""
    with (
        online(1, False),  # it would look for tasks, and tasks would wait where it can take them
        job("asleep") as cgroup,
        loaded() as scheduler,
        spawned("sleep", "999", cgroup=cgroup),
        spawned(ktap.program("hog"), "4", cpu=0),
    ):
        ktap.until(lambda: scheduler.snapshot(0)["queued"] == 0, "no hog waits in the ordered queue")
        assert insertions(scheduler, 1.0) > 10, "the hogs do not take turns"
        ktap.expect(scheduler.snapshot(0)["queued"], 0, "tasks in the ordered queue")


def a_crowd_stays_in_order() -> None:
    """More local tasks than a job's task could have enqueued again stay in the ordered queue while a job is there."""
    with (
        online(1, False),
        job("asleep") as cgroup,
        loaded() as scheduler,
        spawned("sleep", "999", cgroup=cgroup) as asleep,
        spawned(ktap.program("hog"), str(_HOGS), cpu=0),
    ):
        ktap.until(lambda: scheduler.snapshot(0)["queued"] > _HOGS - 5, "all hogs wait in the ordered queue", 40)
        fewest = _HOGS
        for _ in range(20):
            fewest = min(fewest, scheduler.snapshot(0)["queued"])
            time.sleep(0.05)
        asleep.kill()
        ktap.until(lambda: scheduler.snapshot(0)["queued"] == 0, "without a job no hog waits in the ordered queue")
    assert fewest > _HOGS - 10, f"only {fewest} of {_HOGS} hogs waited in the ordered queue"


def a_job_that_wakes() -> None:
    """A task of a job that wakes where only local tasks were takes the CPU at once, as prio has it."""
    with (
        online(1, False),
        job("sleeper") as cgroup,
        loaded("prio", quantum_ms=_QUANTUM_MS) as scheduler,
        spawned(ktap.program("hog"), "5", cpu=0),
        spawned(ktap.program("lateness"), str(_PAUSE_US), str(_WAKE_UPS), cgroup=cgroup, cpu=0) as sleeper,
    ):
        late = int(sleeper.communicate(timeout=ktap.TIME_OUT_S)[0].split()[0]) / 1e3
        left = scheduler.stats()["quiet_left"]
    ktap.note(f"late by {late:.1f} ms in the mean, among 5 local hogs with quanta of {_QUANTUM_MS} ms")
    ktap.measured(left >= _WAKE_UPS / 2, f"quiet mode ended {left} times, so the test shows nothing")
    ktap.measured(late < _QUANTUM_MS / 2, f"late by {late} ms: it waited for local tasks")


if __name__ == "__main__":
    ktap.run(beside_a_sleeping_job, a_crowd_stays_in_order, a_job_that_wakes)
