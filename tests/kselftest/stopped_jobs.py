#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A stopped job goes on without limits when the agent ends, in any way, or is stopped itself."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from ctl.kernel.cgroups import PARENT, JobCgroups
from tests.kselftest import ktap
from tests.kselftest.command import agent, asked, ctl
from tests.kselftest.node import disabled, spawned

_SPARED = "user.oomd_avoid"  # by systemd-oomd


def _frozen(jid: str) -> bool:
    return "frozen 1" in (PARENT / jid / "cgroup.events").read_text()


def _limits() -> list[str]:
    """The settings that differ from the kernel's own values."""
    unset = {"memory.min": "0", "memory.low": "0", "memory.high": "max"}
    jobs = PARENT / "one", PARENT / "two"
    found = [
        f"{path.name}/{name}"
        for path in (PARENT, *jobs)
        for name, value in unset.items()
        if (path / name).read_text().strip() != value
    ]
    return found + [f"{path.name}/{_SPARED}" for path in jobs if _SPARED in os.listxattr(path)]


def _free(what: str) -> None:
    """Check that both jobs run without limits."""
    ktap.until(lambda: not _frozen("one") and not _frozen("two"), f"the stopped job goes on, {what}", 20)
    ktap.until(lambda: _limits() == [], f"nothing is limited, {what}")


@contextlib.contextmanager
def _two_jobs(policy: str = "poly") -> Iterator[int]:
    """An agent and two jobs, with an MPL of 1: the second job is stopped. Gives the agent's pid."""
    with (
        agent("mpl=1", "epoch_ms=300", policy=policy) as pid,
        spawned("ctl", "run", "--job", "one", "--", "sleep", "1000") as one,
        contextlib.ExitStack() as stack,
    ):
        ktap.until((PARENT / "one").exists, "job one")
        two = stack.enter_context(spawned("ctl", "run", "--job", "two", "--", "sleep", "1000"))
        ktap.until(lambda: (PARENT / "two").exists() and _frozen("two"), "job two is stopped", 20)
        ktap.expect(_frozen("one"), False, "job one frozen")
        assert "memory.min" in str(_limits()), f"nothing is protected: {_limits()}"
        ktap.expect([name for name in _limits() if _SPARED in name], [f"two/{_SPARED}"], "spared by systemd-oomd")
        yield pid
        ktap.expect((one.poll(), two.poll()), (None, None), "exit status of the jobs")


def agent_is_told() -> None:
    """The second job waits and is shown with its reason; it goes on by a knob, and when the first job ends."""
    with _two_jobs():
        rows = {row["jid"]: (row["state"], row["why"]) for row in asked("jobs")}
        ktap.expect(rows, {"one": ("free", ""), "two": ("stopped", "2 jobs, 1 may run")}, "jobs")
        text = ctl("status")
        assert "job two stopped: 2 jobs, 1 may run" in text and "1 jobs run, of at most 1" in text, text
        ctl("set", "memory=off")
        _free("memory=off")
        ctl("set", "memory=on")
        ktap.until(lambda: _frozen("two"), "stopped again, memory=on")
        ctl("switch", "rr")
        ktap.expect(asked("status")["contract"]["modules"]["memory"], True, "memory, set on, after the switch")
        ctl("switch", "csm", "--set=memory=policy")
        _free("with a policy that has no Set_Memory")


def first_ends() -> None:
    """When the first job ends the second job goes on; a stopped job can be killed."""
    with agent("mpl=1", "epoch_ms=300", policy="poly"), spawned("ctl", "run", "--job", "a", "--", "sleep", "1000"):
        ktap.until((PARENT / "a").exists, "job a")
        with spawned("ctl", "run", "--job", "b", "--", "sleep", "1000"):
            ktap.until(lambda: (PARENT / "b").exists() and _frozen("b"), "job b is stopped", 20)
            (PARENT / "a" / "cgroup.kill").write_text("1")
            ktap.until(lambda: not _frozen("b"), "job b goes on", 20)
            with spawned("ctl", "run", "--job", "c", "--", "sleep", "1000"):
                ktap.until(lambda: (PARENT / "c").exists() and _frozen("c"), "job c is stopped", 20)
                (PARENT / "c" / "cgroup.kill").write_text("1")
                ktap.until(lambda: not (PARENT / "c").exists(), "the stopped job is gone")
                ktap.expect([row["state"] for row in asked("jobs")], ["free"], "jobs left")


def memory_comes_back() -> None:
    """A stopped job's memory is pushed out, and comes back when the job goes on, but not when the agent ends."""
    size, groups = 48 << 20, JobCgroups()
    holder = (sys.executable, "-c", f"import time; m = bytearray(b'x') * {size}; time.sleep(1000)")
    with (
        agent("epoch_ms=300", policy="poly"),
        spawned("ctl", "run", "--job", "one", "--", "sleep", "1000"),
        contextlib.ExitStack() as stack,
    ):
        ktap.until((PARENT / "one").exists, "job one")
        stack.enter_context(spawned("ctl", "run", "--job", "two", "--", *holder))
        ktap.until(lambda: (PARENT / "two").exists() and groups.memory("two")[0] > size, "job two has its memory", 20)
        for goes_on in ("set", "mpl=0"), ("unload",):
            ctl("set", "mpl=1")
            ktap.until(lambda: groups.memory("two")[1] > 0.9 * size, "it was pushed out", 20)
            ctl(*goes_on)
            ktap.until(lambda: not _frozen("two"), "it goes on", 20)
            if goes_on[0] == "set":
                ktap.until(lambda: groups.memory("two")[0] > 0.9 * size, "its memory is back", 20)
        ktap.expect(groups.memory("two")[1] > 0.85 * size, True, "still on swap after the unload, but for a piece")


def unloaded() -> None:
    """ctl unload."""
    with _two_jobs():
        ctl("unload")
        _free("after ctl unload")


def killed_and_started_again() -> None:
    """kill -9 of the agent: the next agent stops the job again, and an unload lets it go on."""
    with _two_jobs() as pid:
        os.kill(pid, signal.SIGKILL)
        _free("after kill -9")
        ktap.until(lambda: not Path("/run/cosched/agent.json").exists(), "the supervisor cleaned up")
        with agent("mpl=1", "epoch_ms=300", policy="poly"):
            ktap.until(lambda: _frozen("one") or _frozen("two"), "one is stopped again", 20)
        _free("after the second agent")


def agent_stopped() -> None:
    """SIGSTOP of the agent: the job goes on meanwhile, and is stopped again when the agent continues."""
    with _two_jobs() as pid:
        os.kill(pid, signal.SIGSTOP)
        _free("while the agent is stopped")
        os.kill(pid, signal.SIGCONT)
        ktap.until(lambda: _frozen("two"), "stopped again once the agent continues", 20)
        os.kill(pid, signal.SIGSTOP)
        ctl("unload")
        _free("after an unload by force")


def thrown_out() -> None:
    """The kernel ends the scheduler."""
    with _two_jobs():
        Path("/proc/sysrq-trigger").write_text("S")
        ktap.until(disabled, "the kernel is on its own scheduler")
        _free("without the scheduler")


if __name__ == "__main__":
    ktap.run(
        agent_is_told, first_ends, memory_comes_back, unloaded, killed_and_started_again, agent_stopped, thrown_out
    )
