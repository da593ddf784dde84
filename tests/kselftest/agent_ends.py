#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""All ways in which an agent can end: the kernel is back on its own scheduler, nothing is left, status has the
reason."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from ctl.kernel.cgroups import PARENT
from tests.kselftest import ktap
from tests.kselftest.command import agent, asked, ctl, refused
from tests.kselftest.node import disabled, spawned, state


def _commands(jid: str) -> list[str]:
    """What runs in a job."""
    try:
        pids = (PARENT / jid / "cgroup.procs").read_text().split()
        return [Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids]
    except OSError:
        return []


def killed_agent() -> None:
    """kill -9 of the agent: its supervisor cleans up, jobs run on, status has the reason."""
    with agent() as pid, spawned("ctl", "run", "--job", "k", "--", "sleep", "1000") as job:
        ktap.until(lambda: _commands("k") == ["sleep"], "job k")
        (PARENT / "k" / "cgroup.freeze").write_text("1")
        os.kill(pid, signal.SIGKILL)
        ktap.until(lambda: not Path("/run/cosched/agent.json").exists(), "the supervisor cleaned up")
        ktap.expect(ktap.left_behind(), [], "left behind by the agent")
        ktap.expect(job.poll(), None, "exit status of the job")
        text = ctl("status")
        assert "SIGKILL" in text, f"status does not have the reason: {text}"
        refused("jobs", words=("not running",))
        with agent():
            ktap.expect([row["jid"] for row in asked("jobs")], ["k"], "jobs the next agent took over")


def killed_with_its_supervisor() -> None:
    """Agent and supervisor both killed: every command reports it, and the next load repairs the node."""
    with agent() as pid, spawned("ctl", "run", "--job", "k", "--", "sleep", "1000"):
        ktap.until(lambda: _commands("k") == ["sleep"], "job k")
        (PARENT / "k" / "cgroup.freeze").write_text("1")
        supervisor = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(supervisor, signal.SIGSTOP)
        os.kill(pid, signal.SIGKILL)
        os.kill(supervisor, signal.SIGKILL)
        ktap.until(disabled, "the kernel is on its own scheduler")
        text = ctl("status")
        assert f"pid {pid}" in text and "was killed" in text, f"status does not have the reason: {text}"
        with agent():
            ktap.expect((PARENT / "k" / "cgroup.freeze").read_text(), "0\n", "job k frozen")


def killed_supervisor() -> None:
    """The supervisor killed: the agent ends in good order."""
    with agent() as pid:
        os.kill(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
        ktap.until(lambda: not Path(f"/proc/{pid}").exists(), "the agent ended")
        ktap.expect(ktap.left_behind(), [], "left behind by the agent")


def stopped_agent() -> None:
    """SIGSTOP of the agent: the scheduler goes on, commands report the stop in time, unload ends the agent by force."""
    with agent() as pid:
        os.kill(pid, signal.SIGSTOP)
        ktap.expect(state(), "enabled", "sched_ext state while the agent is stopped")
        text = ctl("get", status=1)
        assert "does not answer" in text, text
        ctl("unload")
        assert disabled(), f"sched_ext is {state()} after unload"
        assert not Path(f"/proc/{pid}").exists(), "the stopped agent is still there"


def thrown_out() -> None:
    """The kernel ends the scheduler: agent and status have kind, reason and dump."""
    with agent() as pid:
        Path("/proc/sysrq-trigger").write_text("S")  # "sched_ext: exit to the kernel's own scheduler"
        ktap.until(disabled, "the kernel is on its own scheduler")
        ktap.until(lambda: not Path(f"/proc/{pid}").exists(), "the agent ended")
    ended = asked("status")["last_exit"]
    ktap.expect(ended["exit"]["kind_name"], "sysrq", "kind of the exit")
    text = ctl("status")
    assert ended["exit"]["reason"] in text, text
    assert ended["exit"]["reason"] in Path("/run/cosched/agent.log").read_text(), "the log does not tell"


if __name__ == "__main__":
    ktap.run(
        killed_agent,
        killed_with_its_supervisor,
        killed_supervisor,
        stopped_agent,
        thrown_out,
    )
