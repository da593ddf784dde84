#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Explicit coscheduling: jobs run in their slots only, and no job stays stopped when slots end, in any way."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from ctl.kernel.cgroups import PARENT
from tests.kselftest import ktap
from tests.kselftest.command import agent, asked, ctl
from tests.kselftest.node import spawned

_STOP_MS = 1000  # long enough to be met in it


def _stopped() -> bool:
    """All jobs, by the clock."""
    return (PARENT / "cgroup.freeze").read_text().strip() == "1"


def _pids(jid: str) -> list[int]:
    return [int(pid) for pid in (PARENT / jid / "cgroup.procs").read_text().split()]


def _cpu_s(jid: str) -> float:
    """CPU time of a job so far."""
    usage = (PARENT / jid / "cpu.stat").read_text().split()
    return int(usage[usage.index("usage_usec") + 1]) / 1e6


def _program(busy: bool) -> list[str]:
    """A program that only computes, or wakes a hundred times a second, which leaves an emulated CPU to others."""
    return [ktap.program("hog"), "1"] if busy else [ktap.program("lateness"), "10000", "1000000"]


@contextlib.contextmanager
def _job(jid: str, *, busy: bool = False) -> Iterator[None]:
    """A running job."""
    with spawned("ctl", "run", "--job", jid, "--", *_program(busy)) as process:
        ktap.until(lambda: (PARENT / jid).exists() and process.pid in _pids(jid), f"job {jid} began", 60)
        entered = _cpu_s(jid)
        ktap.until(lambda: _cpu_s(jid) > entered, f"job {jid} runs", 60)
        yield
        ktap.expect(process.poll(), None, f"exit status of job {jid}")


@contextlib.contextmanager
def _met_in_a_stop(*knobs: str) -> Iterator[int]:
    """An agent and a job, which is stopped now. Gives the agent's pid."""
    with agent("slot_run_ms=300", f"slot_stop_ms={_STOP_MS}", *knobs, policy="explicit") as pid, _job("j"):
        _await_stop()
        yield pid


def _await_stop() -> None:
    ktap.until(lambda: not _stopped(), "a slot in which jobs run", 60)
    ktap.until(_stopped, "a slot in which they are stopped", 60)


def _goes_on(what: str) -> None:
    """Check that the job runs without an agent."""
    ktap.until(lambda: not _stopped(), f"no job is stopped, {what}", 60)
    before = _cpu_s("j")
    ktap.until(lambda: _cpu_s("j") > before, f"the job runs, {what}", 60)


def _ended(what: str) -> None:
    """Check that there are no slots after the command."""
    ktap.expect(_stopped(), False, f"jobs are stopped, {what}")
    ktap.expect(asked("status")["contract"]["slots"], None, f"slots, {what}")
    _goes_on(what)


def slots_as_set() -> None:
    """A job alone has its slots' part of a CPU; slots end by a knob, with another policy, and without a policy."""
    with agent(policy="explicit"), _job("b", busy=True):
        # an emulator may run one of two CPUs for 100 ms at a time
        for run, stop in ((700, 300), (300, 700)):
            _has_its_share(run, stop)
    with _met_in_a_stop():
        ktap.expect([(row["state"], row["frozen"]) for row in asked("jobs")], [("free", False)], "state of the job")
        text = ctl("status")
        assert f"slots: jobs run 300 ms, are stopped {_STOP_MS} ms" in text, text
        ctl("set", "slots=off")
        _ended("slots=off")
        ctl("set", "slots=policy")
        _await_stop()
        ctl("switch", "rr")
        _ended("after the switch")
        ctl("switch", "rr", "--set=slots=on")
        _await_stop()
        ctl("unload")
        _goes_on("after ctl unload")


def _has_its_share(run: int, stop: int) -> None:
    """Set these slots, in ms, and measure the job's CPU time for four seconds."""
    ctl("set", f"slot_run_ms={run}", f"slot_stop_ms={stop}")
    before, began = _cpu_s("b"), time.monotonic()
    time.sleep(4)
    got = (_cpu_s("b") - before) / (time.monotonic() - began)
    now = asked("status")["contract"]["slots"]
    ktap.note(f"{run} ms of {run + stop}: {got:.2f} of a CPU; {now}")
    wanted = run / (run + stop)
    ktap.measured(wanted - 0.2 < got < wanted + 0.2, f"the job had {got:.2f} of a CPU, its slots are {wanted:.2f}")
    ktap.measured(now["turns"] >= 4, str(now))


def agent_killed() -> None:
    """kill -9 of the agent."""
    with _met_in_a_stop() as pid:
        os.kill(pid, signal.SIGKILL)
        _goes_on("after kill -9")
        ktap.until(lambda: not Path("/run/cosched/agent.json").exists(), "the supervisor cleaned up")


def agent_stopped() -> None:
    """SIGSTOP of the agent: it stops jobs again once it continues; unload ends it by force."""
    with _met_in_a_stop() as pid:
        os.kill(pid, signal.SIGSTOP)
        _goes_on("while the agent is stopped")
        os.kill(pid, signal.SIGCONT)
        _await_stop()
        os.kill(pid, signal.SIGSTOP)
        ctl("unload")
        _goes_on("after an unload by force")


def two_reasons_to_stop() -> None:
    """A job stopped by Set_Memory does not run in a slot, and its release does not end the stop of a slot."""
    with (
        agent("slot_run_ms=150", "slot_stop_ms=50", "memory=on", "mpl=1", "epoch_ms=200", policy="explicit"),
        _job("j"),
        spawned("ctl", "run", "--job", "k", "--", *_program(busy=False)),
    ):
        own = PARENT / "k" / "cgroup.freeze"
        ktap.until(lambda: own.exists() and own.read_text().strip() == "1", "job k is stopped by Set_Memory", 60)
        ktap.until(lambda: "frozen 1" in (PARENT / "k" / "cgroup.events").read_text(), "it stands", 60)
        turns = asked("status")["contract"]["slots"]["turns"]
        before = _cpu_s("j"), _cpu_s("k")
        ktap.until(lambda: asked("status")["contract"]["slots"]["turns"] > turns + 6, "three periods pass", 60)
        assert _cpu_s("j") > before[0], "job j did not run in them"
        ktap.expect(_cpu_s("k"), before[1], "CPU time of job k, before and after three periods")
        ktap.expect([row["state"] for row in asked("jobs")], ["free", "stopped"], "states")
        ctl("set", "slot_stop_ms=10000")  # a command takes its time
        _await_stop()
        ctl("set", "memory=off")
        ktap.until(lambda: own.read_text().strip() == "0", "Set_Memory lets job k go")
        assert _stopped(), "that ended the stop of all jobs"
        ktap.until(lambda: _cpu_s("k") > before[1], "job k runs in the next slot", 60)


if __name__ == "__main__":
    ktap.run(slots_as_set, agent_killed, agent_stopped, two_reasons_to_stop)
