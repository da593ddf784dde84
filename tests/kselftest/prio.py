#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Under prio tasks of jobs are always ahead of local tasks, and still neither a local task nor the kernel starves."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.kselftest import ktap
from tests.kselftest.node import cpu_s, job, loaded, spawned

_SECONDS = 3.0


def jobs_come_first() -> None:
    """Tasks of a job share the CPU among themselves; a computing local task has a turn each starve_ms."""
    hog = ktap.program("hog")
    with (
        job("first") as cgroup,
        loaded("prio", starve_ms=500) as scheduler,
        spawned(hog, "1", cpu=0) as local,
        spawned(hog, "1", cgroup=cgroup, cpu=0) as one,
        spawned(hog, "1", cgroup=cgroup, cpu=0) as two,
    ):
        tasks = (local, one, two)
        ktap.until(lambda: min(cpu_s(task.pid) for task in tasks) > 0.1, "all have run", 20)
        before = [cpu_s(task.pid) for task in tasks]
        time.sleep(_SECONDS)
        used = [cpu_s(task.pid) - was for task, was in zip(tasks, before, strict=True)]
        counted = scheduler.stats()
    ktap.note(f"CPU s of a local task and two of a job: {used}; {counted['preempts']} preempts")
    # a turn of 20 ms each 500 ms or so
    ktap.measured(0 < used[0] < 0.15 * sum(used), f"the local task had {used[0]} s")
    ktap.measured(min(used[1:]) > 0.6 * max(used[1:]), f"two of a job had {used[1:]} s")
    ktap.expect(counted["overtakes"], 0, "overtakes: de is no bound here")


def wakes_to_the_cpu() -> None:
    """A waking task of a job displaces any local task at once, also a local task with credit."""
    hog, lateness = ktap.program("hog"), ktap.program("lateness")
    with (
        job("sleeper") as cgroup,
        loaded("prio", quantum_ms=300),
        spawned(lateness, "5000", "100000", cpu=0),  # a local sleeper, on credit
        spawned(hog, "3", cpu=0),
        spawned(lateness, "20000", "50", cgroup=cgroup, cpu=0) as sleeper,
    ):
        late = int(sleeper.communicate(timeout=ktap.TIME_OUT_S)[0].split()[0]) / 1e3
    ktap.note(f"a sleeper of a job among 3 local hogs with quanta of 300 ms is late by {late:.1f} ms in the mean")
    # behind one hog it would be late by half a quantum or more
    ktap.measured(late < 60, f"late by {late} ms")


def nobody_calls_the_watchdog() -> None:
    """Beside a task of a job that never sleeps, the watchdog ends the scheduler at no value of starve_ms."""
    hog, turns = ktap.program("hog"), ktap.program("turns")
    watchdog_s = 4
    with (
        job("greedy") as cgroup,
        loaded("prio", watchdog_ms=1000 * watchdog_s, starve_ms=10000) as scheduler,
        ExitStack() as stack,
    ):
        for _ in range(2):
            stack.enter_context(spawned(hog, "1", cgroup=cgroup, cpu=0))
        local = [stack.enter_context(spawned(turns, "6", cpu=0)) for _ in range(3)]
        waited = [int(process.communicate(timeout=ktap.TIME_OUT_S)[0].split()[0]) for process in local]
        ended = scheduler.exit_record()
    ktap.note(f"longest waits of three local tasks: {waited} ms")
    # a host that takes CPUs away for long enough lets the watchdog's time pass for tasks that nobody could run
    ktap.measured(ended is None, f"the kernel ended the scheduler: {ended and ended['msg']}")
    # else it would not be prio
    ktap.measured(max(waited) > 500, f"local tasks waited {waited} ms at most")


@contextmanager
def _real_time() -> Iterator[None]:
    """Run this process ahead of all tasks of the scheduler, but not the programs that it starts."""
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def the_kernel_goes_on() -> None:
    """Kernel threads are not held back: RCU's thread ends its grace periods beside greedy jobs."""
    hog = ktap.program("hog")
    with job("everywhere") as cgroup, loaded("prio", starve_ms=10000) as scheduler, _real_time(), ExitStack() as stack:
        hogs = [stack.enter_context(spawned(hog, "1", cgroup=cgroup, cpu=cpu)) for cpu in range(os.cpu_count() or 1)]
        ktap.until(lambda: min(cpu_s(one.pid) for one in hogs) > 0.2, "a hog runs on every CPU", 20)
        began = time.monotonic()
        for mnol in (3, 4, 5, 6):
            scheduler.write_knobs(mnol=mnol)  # waits for one; the first need not
        took = time.monotonic() - began
    ktap.note(f"three grace periods took {took * 1e3:.0f} ms")
    # the thread wakes several times in each, and would be passed for 7.5 s every time
    ktap.measured(took < 5, f"three grace periods took {took:.1f} s")


if __name__ == "__main__":
    ktap.run(jobs_come_first, wakes_to_the_cpu, nobody_calls_the_watchdog, the_kernel_goes_on)
