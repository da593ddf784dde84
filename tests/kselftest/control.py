#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The controller's base: job cgroups and their repair, the kernel's announcements, refusals to load."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from ctl.errors import USAGE, CoschedError
from ctl.kernel import paging
from ctl.kernel.cgroups import JobCgroups, cgroup_id
from ctl.kernel.netlink import ProcessEvents, SchedulerEvents, TaskDelays
from ctl.kernel.pins import PINS, remove_pins
from ctl.kernel.scheduler import Scheduler
from ctl.node.swapping import Swapping
from tests.kselftest import ktap
from tests.kselftest.node import OBJECT, job, loaded, spawned

SLEEP = "/bin/sleep"


def refusal(work: Any, *arguments: Any) -> CoschedError:
    """The error of a call that must be refused."""
    try:
        work(*arguments)
    except CoschedError as error:
        ktap.note(str(error))
        assert "\n" not in str(error), "more than one line"
        return error
    raise AssertionError("it was not refused")


def jobs_are_cgroups() -> None:
    """A process and its children are in the job that they entered; the job ends with its last process."""
    groups = JobCgroups()
    with job("a.1") as path, spawned("/bin/sh", "-c", f"{SLEEP} 60 & wait", cgroup=path) as shell:
        ktap.until(lambda: len(groups.pids("a.1")) == 2, "two processes in the job")
        assert shell.pid in groups.pids("a.1"), "the first process is not in its job"
        ktap.expect(groups.ids(), {cgroup_id(path): "a.1"}, "jobs by cgroup id")
        usage = groups.usage("a.1")
        ktap.expect((usage["tasks"], usage["frozen"]), (2, False), "tasks and frozen")
        assert usage["cpu_ns"] > 0, "no CPU time"
        ktap.expect(groups.remove("a.1"), False, "a job with processes is removed")
        ktap.expect(groups.remove_empty(), [], "jobs removed while populated")
        groups.kill("a.1")
        shell.wait()
        ktap.until(lambda: groups.remove_empty() == ["a.1"], "the empty job removed")
        ktap.expect(groups.jids(), [], "jobs left")


def bad_jids_make_nothing() -> None:
    """A JID that is not a name, or is the name of a file of the kernel, is refused, and nothing is made."""
    groups = JobCgroups()
    groups.prepare()
    before = sorted(Path("/sys/fs/cgroup").rglob("*"))
    for jid in ("..", "a/b", "", "memory.max", "cgroup.procs"):
        ktap.expect(refusal(groups.create, jid).status, USAGE, f"exit status for {jid!r}")
    ktap.expect(sorted(Path("/sys/fs/cgroup").rglob("*")), before, "cgroups")


def what_a_killed_agent_left_is_undone() -> None:
    """Frozen jobs, limits and protection are found and undone, one sentence each."""
    groups = JobCgroups()
    with job("left") as path, spawned("/bin/sh", "-c", "while :; do :; done", cgroup=path):
        ktap.expect(groups.freeze("left"), True, "frozen in time")
        ktap.expect(groups.usage("left")["frozen"], True, "frozen")
        (path / "memory.low").write_text("1048576")
        (path / "memory.high").write_text("104857600")
        (groups.parent / "memory.low").write_text("4096")
        (path / "inner").mkdir()
        (path / "inner" / "cgroup.freeze").write_text("1")
        done = groups.repair()
        ktap.note("\n".join(done))
        ktap.expect(len(done), 6, "repairs")
        ktap.expect(groups.repair(), [], "repairs the second time")
        ktap.until(lambda: not groups.usage("left")["frozen"], "thawed")
        before = groups.usage("left")["cpu_ns"]
        ktap.until(lambda: groups.usage("left")["cpu_ns"] > before, "it runs again")
        ktap.expect((path / "memory.high").read_text(), "max\n", "memory.high")


_PAGED: Final = 64 << 20


@contextlib.contextmanager
def _paged() -> Iterator[tuple[JobCgroups, subprocess.Popen[str], Callable[[], None], Swapping]]:
    """A job of _PAGED bytes that were pushed out, its process, a call that touches all bytes, and a look before."""
    code = f"import sys; m = bytearray(b'x') * {_PAGED}; print('up', flush=True); sys.stdin.readline(); " \
           "print(sum(m[::4096]), flush=True); sys.stdin.readline()"  # fmt: skip
    groups = JobCgroups()
    with job("paged") as path:
        reader = subprocess.Popen(
            [sys.executable, "-c", f"open('{path}/cgroup.procs', 'w').write('0'); {code}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        stdin, stdout = reader.stdin, reader.stdout
        assert stdin is not None and stdout is not None

        def touch() -> None:
            stdin.write("\n")
            stdin.flush()
            stdout.readline()

        stdout.readline()
        seen = Swapping()
        seen.look(0.0)
        groups.push_out("paged", _PAGED)
        assert groups.memory("paged")[1] > _PAGED / 2, "it was not pushed out"
        yield groups, reader, touch, seen
        reader.kill()
        reader.wait()


def pages_count_once() -> None:
    """A page that came back from swap counts once in a job's memory, though it keeps its place on swap."""
    with _paged() as (groups, _, touch, _):
        out = groups.memory("paged")
        touch()
        back = groups.memory("paged")
        kept = groups.usage("paged")["swap"]
    ktap.note(f"resident, on swap alone: {out} pushed out, then {back}; {kept} still have their place on swap")
    assert kept > _PAGED / 2, "no page kept its place: this shows nothing"
    assert sum(back[:2]) < 1.3 * _PAGED, f"{sum(back[:2])} bytes of a job that has {_PAGED}"


def pages_are_brought_back() -> None:
    """Requested pages come back while their process sleeps, count as resident, and cause no fault again."""
    with _paged() as (groups, reader, touch, seen):
        before = groups.memory("paged"), groups.usage("paged")["major_faults"]
        for portion in paging.portions(reader.pid, 4 << 20, set()):
            paging.will_need(reader.pid, portion.spans)
        ktap.until(lambda: groups.memory("paged")[0] > 0.9 * _PAGED, "it is resident")
        back = groups.memory("paged"), groups.usage("paged")["major_faults"]
        ktap.expect(seen.look(0.1)[1], 0.0, "swapping: pages taken by a push-out do not count")
        touch()
        faults = groups.usage("paged")["major_faults"] - before[1]
    ktap.note(f"(resident, on swap alone), faults: {before}, then {back}; {faults} faults for {_PAGED >> 12} pages")
    assert sum(back[0][:2]) < 1.3 * _PAGED, f"{sum(back[0][:2])} bytes of a job that has {_PAGED}"
    assert faults < 0.05 * (_PAGED >> 12), f"{faults} major faults for {_PAGED >> 12} pages that were there"


def schedulers_are_announced() -> None:
    """The uevents of loading and unloading arrive, without polling."""
    with SchedulerEvents() as events:
        with loaded():
            assert select.select([events], [], [], 10)[0], "no event within 10 s"
            ktap.expect([tuple(e) for e in events.read()], [("add", "cosched")], "events of loading")
        assert select.select([events], [], [], 10)[0], "no event within 10 s"
        ktap.expect([tuple(e) for e in events.read()], [("remove", "cosched")], "events of unloading")
        ktap.expect(events.read(), [], "more events")


def processes_are_announced() -> None:
    """Fork, exec and exit of a process are announced, with its parent and its status."""
    with ProcessEvents() as events:
        child = subprocess.Popen(["/bin/sh", "-c", "exit 3"])
        child.wait()
        time.sleep(0.2)
        heard = [event for event in events.read() if event.pid == child.pid]
        ktap.expect([event.kind for event in heard], ["fork", "exec", "exit"], "kinds")
        ktap.expect([event.tgid for event in heard], [child.pid] * 3, "processes")
        ktap.expect(heard[0].parent, os.getpid(), "parent")
        ktap.expect(os.waitstatus_to_exitcode(heard[2].status), 3, "exit status")
        ktap.expect(events.overruns, 0, "overruns")


def delays_are_told() -> None:
    """A task that waits for its CPU has a CPU delay in taskstats; the accounting switch is restored."""
    switch = Path("/proc/sys/kernel/task_delayacct")
    before = switch.read_text()
    with TaskDelays() as delays:
        ktap.expect(switch.read_text(), "1\n", "delay accounting")
        loop = ("/bin/sh", "-c", "while :; do :; done")
        with spawned(*loop, cpu=0) as first, spawned(*loop, cpu=0):
            time.sleep(1)
            found = delays.get(first.pid)
            ktap.note(str(found))
            assert found, "no answer"
            ktap.measured(200_000_000 < found.cpu_ns < 2_000_000_000, "CPU delay of half a second or so")
            assert found.cpu_count > 0, "waits for the CPU"
        ktap.expect(delays.get(first.pid), None, "delays of a task that is gone")
    ktap.expect(switch.read_text(), before, "delay accounting")


def foreign_pins_are_named() -> None:
    """A pinned map of another layout is refused with its path; nothing is loaded."""
    PINS.mkdir(exist_ok=True)
    pin = PINS / "obs"
    create = ["bpftool", "map", "create", str(pin), "type", "hash", "key", "4", "value", "8", "entries", "1"]
    subprocess.run([*create, "name", "obs"], check=True)
    try:
        error = refusal(_load)
        assert str(pin) in str(error), "the pin is not named"
    finally:
        remove_pins()


def _load() -> Scheduler:
    return Scheduler.load(OBJECT, {}, jobs_cgid=1, jobs_level=1, watchdog_ms=30000)


def without_root_it_is_refused() -> None:
    """A user other than root gets exit status 2 and a sentence with the user."""
    os.seteuid(65534)
    try:
        error = refusal(_load)
    finally:
        os.seteuid(0)
    ktap.expect(error.status, USAGE, "exit status")
    assert "65534" in str(error) and "root" in str(error), "the user is not named"


def unloaded_is_refused() -> None:
    """An unloaded scheduler refuses calls that need the kernel, and still has the reason of its end."""
    with loaded() as scheduler:
        assert scheduler.running(), "it does not run"
    for work in (scheduler.jobs, scheduler.read_knobs, scheduler.decisions, lambda: scheduler.snapshot(0)):
        refusal(work)
    refusal(lambda: scheduler.write_knobs(mnol=3))
    ended = scheduler.unload()
    assert ended is not None, "no exit record"
    ktap.expect((ended["kind_name"], ended["reason"]), ("unreg", "unregistered from user space"), "end")
    ktap.expect(scheduler.running(), False, "running")


if __name__ == "__main__":
    ktap.run(
        jobs_are_cgroups,
        bad_jids_make_nothing,
        what_a_killed_agent_left_is_undone,
        pages_count_once,
        pages_are_brought_back,
        schedulers_are_announced,
        processes_are_announced,
        delays_are_told,
        foreign_pins_are_named,
        without_root_it_is_refused,
        unloaded_is_refused,
    )
