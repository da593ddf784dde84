#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Epochs: a task has one quantum in each, however often it blocks, so Set_Quantum bounds the share of jobs."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path

from ctl.kernel.scheduler import Scheduler
from tests.kselftest import ktap
from tests.kselftest.node import job, loaded, spawned

_L = 0.25
_SECONDS = ktap.at_length(8.0, 3.0)
_MOST_OFF = ktap.at_length(0.03, 0.08)  # the shorter form runs on hosts that are busy: ticks get lost
_LENT = 0.1  # of their part, that jobs may miss where local tasks block: these take first what is lent. And of the
# others' part, that jobs may have beside the only local task while it blocks: for 1 %, and until its timer is heard
_BUSY = ("1000000", "1")  # blocks: computes for 1 s, sleeps 1 us
_OFTEN = ("9900", "100")  # blocks a hundred times a second


def _cpu_ns(cgroup: Path) -> int:
    """CPU time of all tasks of a cgroup so far."""
    lines = dict(line.split() for line in (cgroup / "cpu.stat").read_text().splitlines())
    return int(lines["usage_usec"]) * 1000


def _share(jobs: int, locals_: int, kinds: tuple[tuple[str, str], tuple[str, str]]) -> float:
    """The share of CPU 0 that tasks of a job get together beside local ones. kinds: how both compute and block."""
    blocks = ktap.program("blocks")
    with job("j") as parallel, ExitStack() as stack:
        # a cgroup beside those of jobs counts the local tasks
        local = Path("/sys/fs/cgroup/epochs-local")
        local.mkdir(exist_ok=True)
        stack.callback(lambda: ktap.until(lambda: _removed(local), "the cgroup of local tasks is empty"))
        stack.enter_context(spawned(blocks, str(jobs), *kinds[0], cgroup=parallel, cpu=0))
        stack.enter_context(spawned(blocks, str(locals_), *kinds[1], cgroup=local, cpu=0))
        time.sleep(1)
        before = _cpu_ns(parallel), _cpu_ns(local)
        time.sleep(_SECONDS)
        got = [_cpu_ns(cgroup) - was for cgroup, was in zip((parallel, local), before, strict=True)]
    return got[0] / sum(got)


def _removed(cgroup: Path) -> bool:
    (cgroup / "cgroup.kill").write_text("1")
    try:
        cgroup.rmdir()
    except OSError:
        return False
    return True


def _shares(scheduler: Scheduler, wanted: str, kinds: tuple[tuple[str, str], tuple[str, str]]) -> None:
    """Shares with 1 to 8 tasks of either kind. wanted: "task": as Alg. 2 sets it; "jobs": L."""
    for jobs, locals_ in ktap.cases(((8, 1), (1, 1), (4, 1), (1, 4), (1, 8), (8, 8)), 1):
        expected = _L if wanted == "jobs" else jobs * _L / (jobs * _L + locals_)
        got = _share(jobs, locals_, kinds)
        ktap.note(f"{jobs} to {locals_}: {got:.3f}, set {expected:.3f}")
        least = expected - max(_MOST_OFF, _LENT * expected if kinds[1] is _OFTEN else 0)
        lent = _LENT * (1 - expected) if kinds[1] is _OFTEN and locals_ == 1 else 0
        holds = least < got < expected + _MOST_OFF + lent
        ktap.measured(holds, f"{jobs} to {locals_}: {got:.3f} of the CPU, {expected:.3f} set")
    assert scheduler.stats()["expirations"] > 0


def tasks_that_compute() -> None:
    """Of tasks that compute, each task of a job has L of what a local task has."""
    with loaded("zhang", share_l=_L) as scheduler:
        scheduler.adjust(local_user=1)
        _shares(scheduler, "task", (_BUSY, _BUSY))


def tasks_that_block() -> None:
    """Of tasks that block 100 times a second, each task of a job has L of what a local task has."""
    with loaded("zhang", share_l=_L) as scheduler:
        scheduler.adjust(local_user=1)
        for kinds in ktap.cases(((_OFTEN, _BUSY), (_OFTEN, _OFTEN))):
            _shares(scheduler, "task", kinds)


def jobs_together() -> None:
    """With epochs=jobs, the tasks of jobs together have L of the CPU, however many they are."""
    with loaded("zhang", share_l=_L, epochs="jobs") as scheduler:
        scheduler.adjust(local_user=1)
        for kinds in ktap.cases(((_BUSY, _BUSY), (_OFTEN, _BUSY))):
            _shares(scheduler, "jobs", kinds)
        # each of 24 has less of an epoch than the shortest slice, and saves it
        got = _share(24, 1, (_BUSY, _BUSY))
        ktap.note(f"24 to 1: {got:.3f}, set {_L:.3f}")
        ktap.measured(abs(got - _L) < _MOST_OFF, f"24 to 1: {got:.3f} of the CPU, {_L:.3f} set")


def children_share_a_quantum() -> None:
    """A program that forks without end has one quantum in an epoch for all of its children."""
    forks = ktap.program("forks")
    with loaded("zhang", share_l=_L) as scheduler, job("j") as parallel:
        scheduler.adjust(local_user=1)
        with (
            spawned(ktap.program("blocks"), "1", *_BUSY, cgroup=parallel, cpu=0),
            spawned(forks, "2000", cpu=0),
        ):
            time.sleep(1)
            before = _cpu_ns(parallel)
            time.sleep(_SECONDS)
            got = (_cpu_ns(parallel) - before) / _SECONDS / 1e9
    ktap.note(f"a job's task beside a program that forks: {got:.2f}")
    ktap.measured(0.12 < got < 0.35, f"a job's task has {got:.3f} of the CPU beside a program that forks, 0.2 are set")


def _expired(scheduler: Scheduler) -> int:
    """Tasks that wait for an epoch, on all CPUs: the shell of the test may be one of them, on another than CPU 0."""
    return sum(scheduler.snapshot(cpu)["expired"] for cpu in range(os.cpu_count() or 1))


def _switches(hogs: list[int]) -> int:
    """How often these processes were taken off the CPU so far."""
    lines = (line for pid in hogs for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return sum(int(line.split()[1]) for line in lines if line.startswith("nonvoluntary_ctxt_switches"))


def _epochs(scheduler: Scheduler, hogs: list[int], switches: int) -> int:
    """How many epochs end while the hogs are taken off the CPU so often: a busy host stretches the time, not this."""
    before, began = int(scheduler.stats()["epochs"]), _switches(hogs)
    ktap.until(lambda: _switches(hogs) - began >= switches, f"hogs are switched {switches} times")
    return int(scheduler.stats()["epochs"]) - before


def nothing_waits_without_a_job() -> None:
    """When the last job goes, the tasks that waited for an epoch are in the ready queue again."""
    hog, blocks = ktap.program("hog"), ktap.program("blocks")
    with loaded("zhang", share_l=_L) as scheduler:
        scheduler.adjust(local_user=1)
        with ExitStack() as stack:
            hogs = [stack.enter_context(spawned(hog, "1", cpu=0)).pid for _ in range(4)]
            for pause_ms in range(1, 1 + int(ktap.at_length(12, 6))):
                # a rank that sleeps ends in the middle of an epoch, each time in another part of it
                with job("j") as parallel, spawned(blocks, "1", "100", "20000", cgroup=parallel, cpu=0):
                    ktap.until(lambda: scheduler.snapshot(0)["expired"] > 2, "hogs wait for the next epoch")
                    time.sleep(0.007 * pause_ms)
                ktap.until(lambda: not _expired(scheduler), "no task waits for an epoch", 5)
            # with a job an epoch ends about every four switches; one may end late, as a CPU of a busy host may have
            # been held up between the decision, when there was a job, and the queue
            ended = _epochs(scheduler, hogs, 48)
            assert ended <= 1, f"{ended} epochs ended without a job in 48 switches of 4 hogs"


def _late_us() -> int:
    """By how much a local 5 ms sleeper on CPU 0 is late, mean of 40, us."""
    with spawned(ktap.program("lateness"), "5000", "40", cpu=0) as sleeper:
        return int(sleeper.communicate(timeout=ktap.TIME_OUT_S)[0].split()[0])


def nobody_borrows_without_a_job() -> None:
    """A task that ran on borrowed time as the last job went is displaced by a sleeper, like any other."""
    late = []
    with loaded("zhang", quantum_ms=100) as scheduler, spawned(ktap.program("hog"), "1", cpu=0):
        scheduler.adjust(local_user=1)
        for _ in range(int(ktap.at_length(12, 8))):
            # a rank that sleeps leaves most of the epoch to the hog, which has used its quantum for half of the time
            with job("j") as parallel, spawned(ktap.program("blocks"), "1", "100", "20000", cgroup=parallel, cpu=0):
                time.sleep(0.5)
            late.append(_late_us())
    ktap.note(f"late by {sorted(late)} us")
    ktap.measured(max(late) < 20_000, f"a sleeper beside a hog was late by {max(late)} us once the job had gone")


def _waited(pid: int) -> tuple[int, int]:
    """How often a task slept so far, and how long it has waited for a CPU, ns."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["voluntary_ctxt_switches"]), int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])


def borrowers_leave_the_cpu() -> None:
    """A local task that has used its quantum takes the CPU, when it wakes, from a task that borrows it."""
    blocks = ktap.program("blocks")
    with loaded("zhang", share_l=_L, quantum_ms=100) as scheduler, job("j") as parallel, ExitStack() as stack:
        scheduler.adjust(local_user=1)
        # they use little of their quanta, so an epoch is half a second long, and mostly lent
        stack.enter_context(spawned(blocks, "4", "100", "500000", cpu=0))
        stack.enter_context(spawned(blocks, "1", *_BUSY, cgroup=parallel, cpu=0))
        user = stack.enter_context(spawned(blocks, "1", "5000", "5000", cpu=0))
        time.sleep(1)
        before = _waited(user.pid)
        time.sleep(_SECONDS)
        slept, waited = (new - old for new, old in zip(_waited(user.pid), before, strict=True))
    each_ms = waited / slept / 1e6
    ktap.measured(each_ms < 5, f"a local task beside a borrower waits for {each_ms:.1f} ms at each of {slept} wake-ups")
    ktap.note(f"waits for {each_ms:.1f} ms at each of {slept} wake-ups")


if __name__ == "__main__":
    ktap.run(
        tasks_that_compute,
        tasks_that_block,
        jobs_together,
        children_share_a_quantum,
        nothing_waits_without_a_job,
        nobody_borrows_without_a_job,
        borrowers_leave_the_cpu,
    )
