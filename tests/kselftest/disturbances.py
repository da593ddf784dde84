#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Disturbances of a scheduler: CPUs go and come, a storm of forks, memory runs out, cgroups vanish, a stall."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kselftest import ktap
from tests.kselftest.node import ENDLESS, disabled, job, loaded, online, spawned, state

_STORM = int(ktap.at_length(5000, 700))
_TURNS = int(ktap.at_length(20, 8))  # of a CPU that goes and comes


def cpus_go_and_come() -> None:
    """A CPU that goes and comes under load does not end the scheduler; its tasks go on elsewhere."""
    if (os.cpu_count() or 1) < 2:
        raise ktap.Skip("needs 2 CPUs, this machine has 1")
    mix = ktap.program("mix")
    with (
        job("plug") as cgroup,
        loaded() as scheduler,
        spawned(mix, ENDLESS, "4", str(cgroup / "cgroup.procs")),
        spawned(mix, ENDLESS, "2"),
    ):
        for _ in range(3):
            with online(1, up=False):
                time.sleep(0.5)
                wanted = scheduler.stats()["insertions"] + 10
                ktap.until(lambda n=wanted: scheduler.stats()["insertions"] > n, "tasks are scheduled without CPU 1")  # type: ignore[misc]
            time.sleep(0.3)
        ktap.expect(state(), "enabled", "sched_ext state after CPU 1 went and came")


@contextmanager
def _probed(**functions: str) -> Iterator[Callable[[], list[tuple[int, str]]]]:
    """Kernel functions, name="p function" at their begin or "r function" at their end.

    Gives a function that returns (CPU, name) of what was called so far, in this order on each CPU.
    """
    tracing = Path("/sys/kernel/tracing")
    if not (tracing / "trace").exists():
        subprocess.run(["mount", "-t", "tracefs", "tracefs", str(tracing)], check=True)
    trace, events = tracing / "trace", tracing / "kprobe_events"
    enable = tracing / "events/kselftest/enable"
    called = re.compile(rf"\[(\d+)\].*: ({'|'.join(functions)}): ")
    trace.write_text("")  # of the test's previous try
    events.write_text("".join(f"{what[0]}:kselftest/{name} {what[2:]}\n" for name, what in functions.items()))
    try:
        enable.write_text("1")
        yield lambda: [(int(cpu), name) for cpu, name in called.findall(trace.read_text())]
    finally:
        enable.write_text("0")
        events.write_text("")


def cpu_that_comes_or_goes_kicks_none() -> None:
    """A CPU kicks no CPU from its deactivation until it is active again: its irq_work might never run.

    Its first act when it comes is to wake the task that asked for it: here a task of a job, which displaces a local
    task.
    """
    if (os.cpu_count() or 1) < 2:
        raise ktap.Skip("needs 2 CPUs, this machine has 1")
    switch = "/sys/devices/system/cpu/cpu1/online"
    again = f"for turn in $(seq {_TURNS}); do echo 0 >{switch}; echo 1 >{switch}; done"
    with (
        job("asks") as cgroup,
        loaded("prio"),
        spawned(ktap.program("hog"), "2"),
        _probed(kick="p scx_bpf_kick_cpu", goes="r sched_cpu_deactivate", comes="p sched_cpu_activate") as calls,
    ):
        with spawned("sh", "-c", again, cgroup=cgroup, cpu=0) as toggle:
            ktap.expect(toggle.wait(timeout=ktap.TIME_OUT_S), 0, "exit status of the shell that switched CPU 1")
        called = calls()
    on_1 = [name for cpu, name in called if cpu == 1]
    kicks = [name for _, name in called].count("kick")
    ktap.expect((on_1.count("goes"), on_1.count("comes")), (_TURNS, _TURNS), "times CPU 1 went and came")
    ktap.measured(kicks > 0, "no CPU was kicked, so the test shows nothing")
    active, wrong = True, 0
    for name in on_1:
        active = name == "comes" or (active and name != "goes")
        wrong += name == "kick" and not active
    ktap.note(f"{kicks} kicks in {_TURNS} turns")
    ktap.expect(wrong, 0, "kicks by CPU 1 while it was not active")


def fork_storm() -> None:
    """Thousands of tasks forked at once live and end under the scheduler."""
    storm = ktap.program("storm")
    with job("storm") as cgroup, loaded("csm") as scheduler:
        for where in (None, cgroup):
            with spawned(storm, str(_STORM), cgroup=where) as process:
                out, _ = process.communicate(timeout=ktap.TIME_OUT_S)
            ktap.expect(process.returncode, 0, "exit status of the storm")
            ktap.expect(out.strip(), str(_STORM), "tasks that lived at once")
        ktap.expect(state(), "enabled", "sched_ext state after the storm")
        ktap.note(f"{scheduler.stats()['insertions']} insertions")


def oom_kill() -> None:
    """A job killed for memory leaves the scheduler running and its cgroup removable."""
    with job("greedy") as cgroup, loaded():
        (cgroup / "memory.max").write_text(str(32 << 20))
        if (swap := cgroup / "memory.swap.max").exists():
            swap.write_text("0")
        command = ["python3", "-c", "b = bytearray(200 << 20); print(len(b))"]
        with spawned(*command, cgroup=cgroup) as process:
            process.communicate(timeout=ktap.TIME_OUT_S)
        ktap.expect(process.returncode, -9, "exit status of the task that wanted too much")
        kills = dict(line.split() for line in (cgroup / "memory.events").read_text().splitlines())["oom_kill"]
        assert int(kills) > 0, "the kernel counted no OOM kill"
        ktap.expect(state(), "enabled", "sched_ext state after the OOM kill")


def cgroup_removed_while_tasks_run() -> None:
    """A job's cgroup may vanish under its running tasks: they become local."""
    hog = ktap.program("hog")
    with loaded() as scheduler, spawned(hog, "3") as hogs:
        ktap.until(lambda: len(_pids(hogs.pid)) == 3, "three hogs")
        pids = _pids(hogs.pid)
        home = Path("/sys/fs/cgroup/cgroup.procs")
        for turn in range(20):
            with job(f"brief{turn}") as cgroup:
                for pid in pids:
                    (cgroup / "cgroup.procs").write_text(pid)
                time.sleep(0.05)
                for pid in pids:
                    home.write_text(pid)
                cgroup.rmdir()
        ktap.expect(state(), "enabled", "sched_ext state after 20 vanished cgroups")
        tasks = scheduler.snapshot(0)["queue"]
        ktap.expect([task["tid"] for task in tasks if task["parallel"]], [], "parallel tasks after their job vanished")
        ktap.expect(scheduler.jobs(), {}, "jobs the scheduler remembers")


def _pids(session: int) -> list[str]:
    """The processes of a session."""
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and _session(int(pid)) == session]


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def watchdog_ends_a_stall() -> None:
    """Tasks that cannot run for watchdog_ms end the scheduler, and the exit record has the reason."""
    hog = ktap.program("hog")
    throttle = Path("/proc/sys/kernel/sched_rt_runtime_us")
    server = Path("/sys/kernel/debug/sched/ext_server/cpu0/runtime")
    before, reserve = throttle.read_text(), server.read_text()
    try:
        throttle.write_text("-1")
        with loaded(watchdog_ms=1000) as scheduler, spawned(hog, "2", cpu=0):
            server.write_text("0")
            with spawned("chrt", "-f", "50", hog, "1", "6", cpu=0):
                ktap.until(lambda: scheduler.exit_record() is not None, "the watchdog's word", 15)
            ended = scheduler.exit_record()
            assert ended
            ktap.note(f"{ended['kind_name']}: {ended['reason']}: {ended['msg']}")
            ktap.expect(ended["kind_name"], "error-stall", "kind of the exit")
            ktap.until(disabled, "the kernel is back on its own scheduler")
    finally:
        throttle.write_text(before)
        server.write_text(reserve)


def sysrq_ends_it() -> None:
    """SysRq-S unloads the scheduler."""
    with loaded() as scheduler:
        Path("/proc/sysrq-trigger").write_text("S")
        ktap.until(disabled, "the kernel is back on its own scheduler")
        ktap.until(lambda: scheduler.exit_record() is not None, "the exit record")
        ended = scheduler.exit_record()
        assert ended
        ktap.expect(ended["kind_name"], "sysrq", "kind of the exit")


if __name__ == "__main__":
    if subprocess.run(["mountpoint", "-q", "/sys/kernel/debug"], check=False).returncode:
        subprocess.run(["mount", "-t", "debugfs", "debugfs", "/sys/kernel/debug"], check=True)
    ktap.run(
        cpus_go_and_come,
        cpu_that_comes_or_goes_kicks_none,
        oom_kill,
        cgroup_removed_while_tasks_run,
        watchdog_ends_a_stall,
        sysrq_ends_it,
        fork_storm,
    )
