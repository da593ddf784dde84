#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Gangs: tasks of jobs have all CPUs at the same time, for L of the time; nobody else is worse off."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tests.kselftest import ktap
from tests.kselftest.node import Recorder, cpu_s, job, loaded, spawned
from tests.kselftest.queue_keys import expect_in_order
from tests.reference.records import WINDOW

_CPUS: Final = os.cpu_count() or 1
_SETTLE_S: Final = 1.0
_SECONDS: Final = ktap.at_length(6.0, 2.0)
_TURNS_S: Final = ktap.at_length(12.0, 6.0)  # of seven turns one job has four
_OFF: Final = 0.12  # of a CPU: one virtual CPU may stand still in its window while another goes on
_PERIOD_MS: Final = 80
_MNO: Final = 2


@contextmanager
def _hogs(count: int, cgroup: Path | None = None) -> Iterator[list[int]]:
    """So many processes that compute, all begun on CPU 0, which may use all CPUs now; their pids."""
    with ExitStack() as stack:
        hogs = [
            stack.enter_context(spawned(ktap.program("hog"), "1", cgroup=cgroup, cpu=0)).pid for _ in range(count)
        ]
        time.sleep(0.2)
        for pid in hogs:
            os.sched_setaffinity(pid, range(_CPUS))
        yield hogs


def _parts(pids: list[int]) -> list[float]:
    """What part of a CPU each of these has."""
    time.sleep(_SETTLE_S)
    before, began = [cpu_s(pid) for pid in pids], time.monotonic()
    time.sleep(_SECONDS)
    used, took = [cpu_s(pid) for pid in pids], time.monotonic() - began
    return [(now - was) / took for was, now in zip(before, used, strict=True)]


def _have(what: str, got: list[float], fair: float) -> None:
    ktap.note(f"{what}: {', '.join(f'{part:.3f}' for part in got)} of a CPU, set is {fair:.3f}")
    right = all(abs(part - fair) < _OFF for part in got)
    ktap.measured(right, f"{what}: {[round(part, 3) for part in got]} of a CPU, set is {fair:.3f}")


def part_of_each_cpu() -> None:
    """A job's task on each CPU, all forked on one, has L of it beside local tasks that compute, one or two a CPU."""
    for share, crowd in ktap.cases(((0.25, 1), (0.75, 2), (0.5, 1)), 2):
        with job("gang") as cgroup, loaded(share_l=share, gang="on", gang_ms=_PERIOD_MS):
            with _hogs(_CPUS * crowd) as local, _hogs(_CPUS, cgroup) as ranks:
                got = _parts([*ranks, *local])
            _have(f"L {share}, the job", got[:_CPUS], share)
            _have(f"L {share}, {crowd} local a CPU", got[_CPUS:], (1 - share) / crowd)


def in_place_of_epochs() -> None:
    """Under Set_Quantum windows are in place of epochs: jobs have L while a user is present, else half."""
    with job("gang") as cgroup, _hogs(_CPUS) as local, _hogs(_CPUS, cgroup) as ranks, ExitStack() as stack:
        knobs: dict[str, Any] = {"epochs": "task", "share_l": 0.25, "gang": "on", "gang_ms": _PERIOD_MS}
        scheduler = stack.enter_context(loaded("ccs", **knobs))
        for user, share in ktap.cases(((True, 0.25), (False, 0.5)), 2):
            scheduler.adjust(set_quantum=1, local_user=int(user))
            got = _parts([*ranks, *local])
            _have(f"{'a user' if user else 'no user'}, the job", got[:_CPUS], share)
            _have("local tasks", got[_CPUS:], 1 - share)


def yields_in_its_window() -> None:
    """A job's task that yields all the time keeps the CPU in its window."""
    with job("gang") as cgroup, loaded(gang="on"), ExitStack() as stack:
        local = stack.enter_context(spawned(ktap.program("hog"), "1", cpu=0))
        rank = stack.enter_context(spawned(ktap.program("turns"), "1000", cgroup=cgroup, cpu=0))
        got = _parts([rank.pid, local.pid])
    _have("one yields, one computes", got, 0.5)


def passed_once_in_a_window() -> None:
    """Local tasks in a crowd are passed once in a window each, and nobody is passed more than MNO times."""
    most, crowd = 0, 6
    with job("gang") as cgroup, loaded(gang="on", gang_ms=_PERIOD_MS, mno=_MNO) as scheduler, ExitStack() as stack:
        for _ in range(crowd):
            stack.enter_context(spawned(ktap.program("hog"), "1", cpu=0))
        stack.enter_context(spawned(ktap.program("hog"), "1", cgroup=cgroup, cpu=0))
        time.sleep(_SETTLE_S)
        before, began = scheduler.stats()["overtakes"], time.monotonic()
        while (took := time.monotonic() - began) < _SECONDS:
            found = scheduler.snapshot(0)
            most = max([most, *(task["de"] for task in found["queue"])])
            time.sleep(0.01)
        passed = scheduler.stats()["overtakes"] - before
    windows = took * 1000 / _PERIOD_MS + 1
    ktap.note(f"{passed} overtakes of {crowd} tasks in {windows:.0f} windows, de up to {most}")
    ktap.expect(0 < passed <= crowd * windows, True, f"overtakes: {passed} of {crowd} tasks in {windows:.0f} windows")
    ktap.expect(0 < most <= _MNO, True, f"de up to {most}, MNO {_MNO}")


def recorded() -> None:
    """Who leaves a queue in a window, and who is charged for it, is as the reference says, and de stays what it was."""
    with job("gang") as one, job("other") as two, ExitStack() as stack:
        scheduler = stack.enter_context(loaded(gang="on", gang_ms=20, quantum_ms=5))
        for group in (None, one, None, two, None, one, two):  # on one CPU, whose queue nobody else takes from
            stack.enter_context(spawned(ktap.program("hog"), "1", cgroup=group, cpu=0))
        with Recorder(scheduler) as recorder:
            time.sleep(_SECONDS)
    windows = [one for one in recorder.decisions if one["cause"] == WINDOW]
    charged = sum(len(one["overtaken"]) for one in windows)
    turns = sum(one["turns"] for one in windows)
    ktap.note(f"{len(recorder.decisions)} records, {len(windows)} in windows, {turns} in turns, {charged} charged")
    ktap.expect(min(charged, turns) > 0, True, "tasks were passed in windows, and jobs took turns")
    expect_in_order(recorder.decisions)


def jobs_take_turns() -> None:
    """Of two jobs, one at a time has all CPUs, and both have half of them in the end."""
    period, every = 0.8, 0.1
    with job("gang") as first, job("other") as second, ExitStack() as stack:
        stack.enter_context(loaded(gang="on", gang_ms=round(period * 1000)))
        pids = [stack.enter_context(_hogs(_CPUS, group)) for group in (first, second)]
        time.sleep(_SETTLE_S)
        used, end = [[sum(map(cpu_s, one)) for one in pids]], time.monotonic() + _TURNS_S
        while time.monotonic() < end:
            time.sleep(every)
            used.append([sum(map(cpu_s, one)) for one in pids])
    parts = [(b[0] - a[0]) / max(b[0] - a[0] + b[1] - a[1], 1e-9) for a, b in pairwise(used)]
    alone = sum(part < 0.1 or part > 0.9 for part in parts) / len(parts)
    whole = [end - begin for begin, end in zip(used[0], used[-1], strict=True)]
    ktap.note(f"one job alone in {alone:.0%} of {len(parts)} times of {every * 1000:.0f} ms")
    ktap.note(f"in all they had {whole[0]:.2f} and {whole[1]:.2f} s")
    ktap.measured(alone > 0.6, f"one job alone in {alone:.0%} of {every * 1000:.0f} ms")
    ktap.measured(0.7 < whole[0] / whole[1] < 1.4, f"the jobs had {whole[0]:.2f} and {whole[1]:.2f} s")


def waits_for_no_window() -> None:
    """A local task that sleeps runs when it wakes, in the window of jobs too."""
    count = ktap.at_length(300, 100)
    with job("gang") as cgroup, loaded(gang="on", gang_ms=400), _hogs(_CPUS), _hogs(2 * _CPUS, cgroup):
        time.sleep(_SETTLE_S)
        with spawned(ktap.program("lateness"), "20000", f"{count:.0f}") as sleeper:
            mean, late, most = (int(word) for word in sleeper.communicate()[0].split())
    ktap.note(f"a local task that sleeps 20 ms is {mean} us late in the mean, {late} at p99, {most} at most")
    ktap.measured(mean < 15_000, f"late by {mean} us in the mean; where it waits for windows it is 20,000")


if __name__ == "__main__":
    ktap.run(
        part_of_each_cpu,
        in_place_of_epochs,
        yields_in_its_window,
        passed_once_in_a_window,
        recorded,
        jobs_take_turns,
        waits_for_no_window,
    )
