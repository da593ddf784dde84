#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Set_Quantum: tasks of jobs get L of a quantum beside a local user, here or elsewhere; local tasks keep their
quantum."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ctl.kernel.cgroups import cgroup_id
from ctl.kernel.layout import constant
from ctl.kernel.scheduler import Scheduler
from tests.kselftest import ktap
from tests.kselftest.command import agent, asked, ctl
from tests.kselftest.local_tasks import cpu_time
from tests.kselftest.node import insertions, job, loaded, spawned

_ONE = 1 << constant("MES_SHIFT")
_QUANTUM_MS = 40  # ten ticks of the kernel, which ends quanta at ticks
_EPOCH_S = ktap.at_length(3.0, 1.5)
_SECONDS = ktap.at_length(4.0, 2.0)


def _share(scheduler: Scheduler, *others: Path) -> float:
    """The share of CPU 0 that one hog in the first of these jobs gets beside a local hog, and one in each other job."""
    hog = ktap.program("hog")
    with ExitStack() as stack:
        hogs = [stack.enter_context(spawned(hog, "1", cgroup=cgroup, cpu=0)) for cgroup in [*others, None]]
        time.sleep(0.5)
        before = [cpu_time(one.pid) for one in hogs]
        time.sleep(_SECONDS)
        got = [cpu_time(one.pid) - was for one, was in zip(hogs, before, strict=True)]
    ktap.note("CPU seconds: jobs " + ", ".join(f"{seconds:.2f}" for seconds in got[:-1]) + f", local {got[-1]:.2f}")
    return got[0] / sum(got)


def _near(got: float, wanted: float, what: str) -> None:
    # wide limits: quanta end at ticks of 4 ms, and an emulated machine loses ticks while its host does something else
    ktap.measured(wanted / 1.5 < got < wanted * 1.5, f"{what}: {got:.2f} of the CPU, expected {wanted:.2f}")


def local_user_leaves_l() -> None:
    """Beside a local user a job's task gets L to 1; without one, or with quantum=off, 1 to 1."""
    with job("q") as cgroup, loaded("ccs", quantum_ms=_QUANTUM_MS, share_l=0.25) as scheduler:
        _near(_share(scheduler, cgroup), 0.5, "no local user")
        scheduler.adjust(local_user=1)
        _near(_share(scheduler, cgroup), 0.2, "a local user, L = 0.25")
        scheduler.adjust(set_quantum=0)
        _near(_share(scheduler, cgroup), 0.5, "a local user, quantum=off")


def slowed_elsewhere() -> None:
    """A job with a local user on another node gets L of a quantum here, another job a whole quantum."""
    with job("s") as slowed, job("f") as free, loaded("ccs", quantum_ms=_QUANTUM_MS, share_l=0.25) as scheduler:
        scheduler.slow_job(cgroup_id(slowed), True)
        scheduler.adjust(slowed_jobs=1)
        _near(_share(scheduler, slowed, free), 0.25 / 2.25, "the slowed job")
        scheduler.slow_job(cgroup_id(slowed), False)
        scheduler.adjust(slowed_jobs=0)
        _near(_share(scheduler, slowed, free), 1 / 3, "the job once nobody slows it")


def nothing_is_withheld() -> None:
    """With L = 0 a job's task still runs, with the smallest slice."""
    with job("z") as cgroup, loaded("ccs", quantum_ms=_QUANTUM_MS, share_l=0) as scheduler:
        scheduler.adjust(local_user=1)
        share = _share(scheduler, cgroup)
        ktap.measured(0.01 < share < 0.2, f"with L = 0 the job got {share:.3f} of the CPU")


def slow_nodes_have_long_quanta() -> None:
    """W = 0.25 makes quanta four times as long, for all tasks."""
    hog = ktap.program("hog")
    turns = []
    with (
        job("w") as cgroup,
        loaded("ccs", quantum_ms=20) as scheduler,
        spawned(hog, "1", cgroup=cgroup, cpu=0),
        spawned(hog, "2", cpu=0),
    ):
        for stretch in (_ONE, 4 * _ONE):
            scheduler.adjust(stretch=stretch)
            turns.append(insertions(scheduler, 2.0))
    ktap.note(f"insertions in 2 s: {turns[0]} with W = 1, {turns[1]} with W = 0.25")
    ktap.measured(turns[0] > 2 * turns[1], f"W = 1: {turns[0]} insertions, W = 0.25: {turns[1]}")


def _told() -> dict[str, Any]:
    """The quanta in status, once status has an epoch with the set share; other programs run in some epochs."""
    achieved = []
    for _ in range(8):
        time.sleep(2 * _EPOCH_S + 1)  # a whole epoch in which nothing else runs, ctl neither
        quantum: dict[str, Any] = asked("status")["contract"]["quantum"]
        achieved.append(quantum["achieved_share"])
        if 0.2 / 1.5 < achieved[-1] < 0.2 * 1.5:
            return quantum
    raise ktap.Missed(f"of {quantum['set_share']} of the CPU that are set, epochs achieve {achieved}")


def told_and_switched() -> None:
    """status has the set and the achieved share; knobs override the policy's row, across a switch."""
    hog = ktap.program("hog")
    times = f"quantum_ms={_QUANTUM_MS}", f"epoch_ms={_EPOCH_S * 1000:.0f}"
    with (
        agent("local_user=on", "share_l=0.25", "gang=off", *times, policy="ccs"),
        spawned("taskset", "1", "ctl", "run", "--job", "t", "--", hog, "1"),
        spawned(hog, "1", cpu=0),
    ):
        quantum = _told()
        ktap.expect((quantum["local_ms"], quantum["parallel_ms"], quantum["set_share"]), (40.0, 10.0, 0.2), "set")
        ktap.expect([row["state"] for row in asked("jobs")], ["slowed"], "state of the job")
        text = ctl("status")
        assert "parallel 10 ms" in text and "20% set for one task beside one local" in text, text
        ctl("set", "gang=on")
        text = ctl("status")
        assert "25% set beside busy local tasks" in text, text
        ctl("set", "gang=off")
        ctl("set", "quantum=off")
        ctl("switch", "zhang")
        ktap.expect(asked("status")["contract"]["modules"]["quantum"], False, "quantum, set off, after the switch")
        ctl("set", "quantum=policy", "local_user=off")
        now = asked("status")["contract"]
        ktap.expect((now["modules"]["quantum"], now["modules"]["memory"]), (True, False), "modules of zhang")
        ktap.expect(now["quantum"]["parallel_ms"], 40.0, "quantum of jobs without a local user")
        ctl("switch", "rr")
        ktap.expect(asked("status")["contract"]["modules"]["quantum"], False, "quantum of rr")


if __name__ == "__main__":
    ktap.run(
        local_user_leaves_l,
        slowed_elsewhere,
        nothing_is_withheld,
        slow_nodes_have_long_quanta,
        told_and_switched,
    )
