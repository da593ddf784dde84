#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Guarantees for local tasks: an interactive task is on time, nice has an effect, no CPU idles beside a queue."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ctl.kernel.scheduler import Scheduler
from tests.kselftest import ktap
from tests.kselftest.node import Recorder, job, loaded, online, spawned
from tests.reference.records import PUT_BACK

_QUANTUM_MS = 100  # of hogs that are displaced
_SLEEPS = int(ktap.at_length(200, 60))  # without credit each is late by 80 ms
_PAGES = int(ktap.at_length(100, 40))
_KHUGEPAGED = Path("/sys/kernel/mm/transparent_hugepage/khugepaged")
_HUGE_PAGES = 190  # 20 to 70 ms of CPU time
_SMALL_PAGES = """
import mmap, time
memory = mmap.mmap(-1, 400 << 20)
memory.madvise(mmap.MADV_NOHUGEPAGE)
for page in range(0, 400 << 20, 4096):
    memory[page] = 1
memory.madvise(mmap.MADV_HUGEPAGE)
print(flush=True)
time.sleep(999)
"""

_PAGING = """
import time
def run(ms, clock=time.thread_time):
    until = clock() + ms / 1000
    while clock() < until:
        pass
run(200)
began = time.monotonic()
for page in range({pages}):
    time.sleep(0.0004)
    run(0.4)
print(round((time.monotonic() - began) * 1000))
"""


def _lateness(credit: str) -> tuple[int, int]:
    """Mean and 99th percentile, in us, of a 5 ms sleeper among 4 hogs of a job, all on CPU 0."""
    hog, lateness = ktap.program("hog"), ktap.program("lateness")
    with job("hogs") as cgroup, loaded(credit=credit), spawned(hog, "4", cgroup=cgroup, cpu=0):
        time.sleep(0.3)
        with spawned(lateness, "5000", str(_SLEEPS), cpu=0) as sleeper:
            mean, p99, _ = map(int, sleeper.communicate(timeout=ktap.TIME_OUT_S)[0].split())
    return mean, p99


def sleeper_goes_ahead_on_credit() -> None:
    """A local 5 ms sleeper among 4 parallel hogs runs at once with credit, and waits for all hogs without credit."""
    mean, p99 = _lateness("on")
    plain, plain_p99 = _lateness("off")
    ktap.note(f"late by mean {mean} us, p99 {p99} us; credit off {plain} us, {plain_p99} us")
    ktap.measured(plain > 20_000, f"without credit the sleeper was late by {plain} us only: 4 quanta are 80,000 us")
    ktap.measured(mean * 3 < plain, f"credit helps too little: mean {mean} us, without {plain} us")


def _paging_ms(credit: str) -> int:
    """Time, in ms, of a local task that sleeps briefly and often (_PAGING) on CPU 0 beside 3 hogs of a job."""
    with (
        job("hogs") as cgroup,
        loaded(credit=credit),
        spawned(ktap.program("hog"), "3", cgroup=cgroup, cpu=0),
        spawned("python3", "-c", _PAGING.format(pages=_PAGES), cpu=0) as task,
    ):
        return int(task.communicate(timeout=ktap.TIME_OUT_S)[0])


def rest_of_a_turn_is_credit() -> None:
    """A local task without credit that waits 0.4 ms for each page does not wait for all other tasks at each page."""
    took, plain = _paging_ms("on"), _paging_ms("off")
    ktap.note(f"{_PAGES} pages in {took} ms; credit off {plain} ms")
    ktap.measured(plain > 30 * _PAGES, f"without credit {_PAGES} pages took {plain} ms only: 3 quanta each are 60 ms")
    ktap.measured(took * 3 < plain, f"credit helps too little: {took} ms, without {plain} ms")


def cpu_time(pid: int) -> float:
    """CPU seconds a process used."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def nice_scales_the_quantum() -> None:
    """Of two local hogs on one CPU, nice 0 gets about three times the CPU of nice 5."""
    hog = ktap.program("hog")
    with loaded(), spawned(hog, "1", cpu=0) as one, spawned("nice", "-n", "5", hog, "1", cpu=0) as other:
        time.sleep(0.5)
        before = cpu_time(one.pid), cpu_time(other.pid)
        time.sleep(ktap.at_length(4, 2))
        got = cpu_time(one.pid) - before[0], cpu_time(other.pid) - before[1]
    ktap.note(f"CPU seconds: nice 0 {got[0]:.2f}, nice 5 {got[1]:.2f}")
    # wide limits: an emulated machine loses ticks while its host does something else
    right = 1.4 * got[1] < got[0] < 6 * got[1]
    ktap.measured(right, f"nice 0 got {got[0]:.2f} s, nice 5 {got[1]:.2f} s: weights are 3 to 1")


def kernel_thread_keeps_its_quantum() -> None:
    """A kernel thread at nice 19 works on beside six hogs, because it is an RCU reader while it makes a huge page."""
    pause, made = _KHUGEPAGED / "scan_sleep_millisecs", _KHUGEPAGED / "pages_collapsed"
    portion = _KHUGEPAGED / "pages_to_scan"  # then it sleeps: the usual 8 huge pages may take less than a quantum
    before = pause.read_text(), portion.read_text()
    with online(1, False), loaded(), spawned("python3", "-c", _SMALL_PAGES) as memory:
        assert memory.stdout
        memory.stdout.readline()
        with spawned(ktap.program("hog"), "6"):
            time.sleep(1)
            began, first = time.monotonic(), int(made.read_text())
            used, turns = _khugepaged()
            try:
                portion.write_text(str(1 << 20))
                pause.write_text("0")
                ktap.until(lambda: int(made.read_text()) - first >= _HUGE_PAGES, "huge pages are made")
            finally:
                pause.write_text(before[0])
                portion.write_text(before[1])
            took, now = time.monotonic() - began, _khugepaged()
    turn = (now[0] - used) / max(1, now[1] - turns - 1)  # the last turn ended with the last page
    ktap.note(f"{_HUGE_PAGES} huge pages in {took:.1f} s, by {now[1] - turns} turns of {turn:.1f} ms")
    # of 20 ms; with a sixteenth of them it would be 4 to 6, a tick
    ktap.measured(turn > 8, f"its turns take {turn:.1f} ms")


def _khugepaged() -> tuple[float, int]:
    """CPU time of khugepaged, in ms, and the number of times that it was scheduled."""
    comm = next(path for path in Path("/proc").glob("[0-9]*/comm") if path.read_text() == "khugepaged\n")
    ran_ns, _, turns = map(int, comm.with_name("schedstat").read_text().split())
    return ran_ns / 1e6, turns


def idle_cpus_take_waiting_tasks() -> None:
    """Four hogs that were on one CPU spread to all CPUs once they may."""
    cpus = os.cpu_count() or 1
    if cpus < 2:
        raise ktap.Skip("needs 2 CPUs, this machine has 1")
    hog = ktap.program("hog")
    with loaded() as scheduler, spawned(hog, "4", cpu=0) as hogs:
        time.sleep(0.5)
        pids = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _session(int(pid)) == hogs.pid]
        for pid in pids:
            os.sched_setaffinity(pid, range(cpus))
        ktap.until(lambda: len({_cpu(pid) for pid in pids}) == cpus, "hogs on every CPU")
        time.sleep(1)
        queued = [scheduler.snapshot(cpu)["queued"] for cpu in range(cpus)]
    ktap.note(f"waiting by CPU: {queued}")
    ktap.measured(max(queued) <= 2, f"tasks wait {queued} by CPU: no CPU took tasks from the longest queue")


def quiet_again() -> None:
    """Once no task needs the order, a queue of tasks that never sleep goes back to the cheap way."""
    hog = ktap.program("hog")
    # with another CPU on line, this CPU would look for tasks, and tasks would wait where it can take them
    with online(1, False), loaded() as scheduler, spawned(hog, "4", cpu=0):
        scheduler.write_knobs(trace=1)
        ktap.until(lambda: scheduler.snapshot(0)["queued"] >= 2, "tasks wait in the ordered queue")
        scheduler.write_knobs(trace=0)
        ktap.until(lambda: _stays_empty(scheduler), "no task waits in the ordered queue any more")


def _stays_empty(scheduler: Scheduler) -> bool:
    """Whether no task waits in CPU 0's ordered queue for half a second. Four hogs would wait there, at every tick."""
    for _ in range(10):
        if scheduler.snapshot(0)["queued"]:
            return False
        time.sleep(0.05)
    return True


def displaced_keeps_its_quantum() -> None:
    """A task that an interactive task displaces again and again has all of its quantum."""
    with (
        job("hogs") as cgroup,
        loaded(quantum_ms=_QUANTUM_MS) as scheduler,
        spawned(ktap.program("hog"), "2", cgroup=cgroup, cpu=0),
        spawned(ktap.program("lateness"), "5000", "2000", cpu=0),
        Recorder(scheduler) as recorder,
    ):
        time.sleep(ktap.at_length(4, 2.5))
    turns: list[float] = []
    last: dict[int, int] = {}
    displaced = 0
    for one in recorder.decisions:
        tid, used = one["task"]["tid"], one["task"]["cpu_ns"]
        displaced += one["cause"] == PUT_BACK and one["task"]["parallel"]
        if one["cause"] == "expire" and one["task"]["parallel"]:
            if tid in last:
                turns.append((used - last[tid]) / 1e6)
            last[tid] = used
    turns.sort()
    ktap.note(f"{len(turns)} turns of {turns[0]:.0f} to {turns[-1]:.0f} ms, displaced {displaced} times")
    ktap.measured(displaced > 3 * len(turns), "hardly displaced")
    assert turns[0] > _QUANTUM_MS - 1, f"a turn of {turns[0]:.1f} ms, the quantum is {_QUANTUM_MS} ms"


def _cpu(pid: int) -> int:
    """The CPU it ran on last."""
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[36])


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


if __name__ == "__main__":
    ktap.run(
        sleeper_goes_ahead_on_credit,
        rest_of_a_turn_is_credit,
        nice_scales_the_quantum,
        kernel_thread_keeps_its_quantum,
        idle_cpus_take_waiting_tasks,
        quiet_again,
        displaced_keeps_its_quantum,
    )
