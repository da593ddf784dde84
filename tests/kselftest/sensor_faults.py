#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""FLT: the sensors' counts of major faults agree exactly with the kernel's counts. Needs swap with I/O."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from ctl.kernel.observations import Observation
from ctl.kernel.sensors import Sensors
from tests.kselftest.ktap import Skip, expect, program, run, until
from tests.kselftest.node import sensing

_PAGE_CLUSTER = Path("/proc/sys/vm/page-cluster")
_FILE_PAGES = 64
_CGROUP = Path("/sys/fs/cgroup/kselftest-faults")


class _Faulter:
    """The program that takes page faults on command."""

    def __init__(self, path: str) -> None:
        command = f"echo $$ > {_CGROUP}/cgroup.procs && exec {program('faults')} {path} {_CGROUP}/memory.reclaim"
        self._process = subprocess.Popen(
            ["sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid, self.majflt, self.ns = self.answer()

    def answer(self) -> tuple[int, int, int]:
        """(thread id, its major faults, CLOCK_MONOTONIC ns)."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"faults ended with status {self._process.wait()}")
        tid, majflt, ns = map(int, line.split())
        return tid, majflt, ns

    def do(self, command: str) -> tuple[int, int, int]:
        """Run one command."""
        assert self._process.stdin
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self.answer()

    def end(self) -> None:
        """Let it exit."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@contextlib.contextmanager
def _faulter() -> Iterator[tuple[Sensors, _Faulter]]:
    """Sensors for faults, and the program, with one page per swap-in."""
    if len(Path("/proc/swaps").read_text().splitlines()) < 2:
        raise Skip("no swap: start the VM with --swap 256:8")
    cluster = _PAGE_CLUSTER.read_text()
    _PAGE_CLUSTER.write_text("0")
    (_CGROUP.parent / "cgroup.subtree_control").write_text("+memory")
    _CGROUP.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
        file.write(os.urandom(4096 * _FILE_PAGES))
        file.flush()
        with sensing("faults") as sensors:
            faulter = _Faulter(file.name)
            try:
                yield sensors, faulter
            finally:
                faulter.end()
                _PAGE_CLUSTER.write_text(cluster)
                _CGROUP.rmdir()


def _majflt(tid: int) -> int:
    """The kernel's own count of a thread's major faults, once it sleeps."""

    def fields() -> list[str]:
        return Path(f"/proc/{tid}/task/{tid}/stat").read_text().rpartition(")")[2].split()

    until(lambda: fields()[0] == "S", f"thread {tid} sleeps")
    return int(fields()[9])


def _observed(sensors: Sensors, tid: int) -> Observation:
    observation = sensors.observation(tid)
    assert observation, f"nothing is known of thread {tid}"
    return observation


def _quiet(sensors: Sensors, tid: int) -> tuple[int, Observation]:
    """(major faults as the kernel counts them, observation) of a thread that sleeps; both must agree."""
    counted, seen = _majflt(tid), _observed(sensors, tid)
    expect(seen.majflt, counted, "major faults, sensor and kernel")
    return counted, seen


def swap_ins_counted() -> None:
    """each page from swap counts as one major fault and one swap-in"""
    with _faulter() as (sensors, faulter):
        faulter.do("out 40")
        before, first = _quiet(sensors, faulter.pid)
        faulter.do("in")
        after, seen = _quiet(sensors, faulter.pid)
        expect(after - before >= 40, True, f"40 pages were read from swap ({after - before} major faults)")
        expect(40 <= seen.swapin - first.swapin <= after - before, True, f"swap-ins, {first} before, {seen} after")


def window_is_one_second() -> None:
    """FLT holds the faults of the last second, then 0"""
    with _faulter() as (sensors, faulter):
        faulter.do("out 10")
        time.sleep(1.2)
        before, _ = _quiet(sensors, faulter.pid)
        _, _, ns = faulter.do("in")
        after, seen = _quiet(sensors, faulter.pid)
        expect(seen.faults_last_second(ns), after - before, "FLT right after the faults")
        expect(seen.faults_last_second(ns + 800_000_000), after - before, "FLT 0.8 s later")
        expect(seen.faults_last_second(ns + 1_100_000_000), 0, "FLT 1.1 s later")


def minor_faults_not() -> None:
    """minor faults are not counted"""
    with _faulter() as (sensors, faulter):
        faulter.do("swap 2")
        faulter.do("minor 1000")
        before, first = _quiet(sensors, faulter.pid)
        faulter.do("minor 1000")
        after, seen = _quiet(sensors, faulter.pid)
        expect(after - before < 100, True, f"1,000 minor faults are minor ({after - before} major ones)")
        expect(seen.swapin - first.swapin <= after - before, True, f"swap-ins, {first} before, {seen} after")


def file_faults_are_no_swap_ins() -> None:
    """a major fault on a file is counted and is no swap-in"""
    with _faulter() as (sensors, faulter):
        faulter.do("swap 2")
        before, first = _quiet(sensors, faulter.pid)
        faulter.do(f"file {_FILE_PAGES}")
        after, seen = _quiet(sensors, faulter.pid)
        expect(after - before >= _FILE_PAGES, True, f"{_FILE_PAGES} pages were read ({after - before} major faults)")
        others = after - before - _FILE_PAGES
        expect(seen.swapin - first.swapin <= others, True, f"swap-ins, {first} before, {seen} after, {others} others")


def threads_apart() -> None:
    """threads are counted apart, and forgotten when they end"""
    with _faulter() as (sensors, faulter):
        main = faulter.pid
        faulter.do("swap 3")
        tid, majflt, _ = faulter.do("thread 20")
        expect(majflt >= 20, True, f"20 pages were read ({majflt} major faults)")
        expect(tid != main, True, "another thread answers")
        for thread in (tid, main):
            _quiet(sensors, thread)
        faulter.do("join")
        until(lambda: sensors.observation(tid) is None, "the ended thread is forgotten")
        faulter.end()
        until(lambda: sensors.observation(main) is None, "the ended process is forgotten")


def exec_by_a_thread() -> None:
    """a thread that calls execve() is known by the number that it takes over"""
    with _faulter() as (sensors, faulter):
        faulter.do("swap 3")
        tid, _, _ = faulter.do("thread 5")
        new, _, _ = faulter.do("exec")
        expect(new, faulter.pid, "the thread's new number")
        expect(sensors.observation(tid), None, "its old number")
        faulter.do("swap 4")
        _quiet(sensors, new)


run(
    swap_ins_counted,
    window_is_one_second,
    minor_faults_not,
    file_faults_are_no_swap_ins,
    threads_apart,
    exec_by_a_thread,
)
