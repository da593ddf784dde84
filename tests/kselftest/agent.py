#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl` and its agent in use: load to unload, jobs, bad requests, events for followers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from ctl import protocol
from ctl.errors import CoschedError
from ctl.kernel.cgroups import PARENT, ROOT
from ctl.kernel.prompt import SHORTEST_SLICE
from tests.kselftest import ktap
from tests.kselftest.command import TIMEOUT, agent, asked, ctl, following, refused
from tests.kselftest.node import disabled, loaded, spawned, state

_SAME = "jobs c and d are bound to the same CPUs (0)"


def load_and_unload() -> None:
    """Load, status, get, set, switch and unload have their effects."""
    began = time.monotonic()
    with agent("mno=4") as pid:
        ktap.note(f"load took {time.monotonic() - began:.2f} s")
        ktap.expect(state(), "enabled", "sched_ext state")
        now = asked("status")
        ktap.expect((now["loaded"], now["policy"], now["agent"]["pid"]), (True, "csm", pid), "status")
        ktap.expect(now["changed"], {"mno": 4, "mnol": 4, "mnod": 4, "sensors": "off"}, "knobs not at defaults")
        ktap.expect(asked("get")["mno"], 4, "mno")
        ctl("set", "mnol=2", "quantum_ms=10")
        values = asked("get")
        ktap.expect((values["mnol"], values["mnod"], values["mno"]), (2, 4, None), "mnol, mnod, mno")
        before = Path("/sys/kernel/sched_ext/enable_seq").read_text()
        ctl("switch", "rr", "--set=mno=3")
        ktap.expect(asked("status")["rule"], "fifo", "rule after switch rr")
        ktap.expect(Path("/sys/kernel/sched_ext/enable_seq").read_text(), before, "schedulers enabled, after switch")
        ctl("unload")
        assert disabled(), f"sched_ext is {state()} after unload"
    last = asked("status")
    assert not last["loaded"] and "ctl unload" in last["last_exit"]["why"], last
    assert not Path(f"/proc/{pid}").exists(), f"agent {pid} still there after unload"


def prompt() -> None:
    """The agent's loop runs before all other tasks, not its threads and children; it never waits for khugepaged."""
    with agent() as pid, spawned("ctl", "run", "--job", "j", "--", "sleep", "100") as job:
        ktap.expect(_threads_of(pid, os.SCHED_RR), [pid], "threads before all others")
        ktap.expect(os.sched_getscheduler(job.pid), os.SCHED_OTHER, "a job's class")
        ktap.expect(_has_huge_pages(pid), False, "whether khugepaged looks at the agent's memory")
        ktap.expect(_has_huge_pages(job.pid), True, "whether it looks at a job's")


def _has_huge_pages(pid: int) -> bool:
    return "THP_enabled:\t1" in Path(f"/proc/{pid}/status").read_text().splitlines()


def prompt_among_local_tasks() -> None:
    """contract=class: the agent's loop is first when it wakes, but shares a CPU with local tasks."""
    with agent("contract=class") as pid:
        ktap.expect(_threads_of(pid, os.SCHED_RR), [], "threads before all others")
        short = [tid for tid in _tids(pid) if _slice_of(tid) == SHORTEST_SLICE]
        ktap.expect(short, [pid], "threads with the shortest slice")


def _tids(pid: int) -> list[int]:
    return [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]


def _threads_of(pid: int, kind: int) -> list[int]:
    """The threads of a class."""
    return [tid for tid in _tids(pid) if os.sched_getscheduler(tid) & ~os.SCHED_RESET_ON_FORK == kind]


def _slice_of(tid: int) -> int:
    """A fair task's slice, ns."""
    found = re.search(r"^se\.slice\s+:\s+(\d+)$", Path(f"/proc/{tid}/sched").read_text(), re.MULTILINE)
    assert found, f"no slice of {tid}"
    return int(found.group(1))


def wrong_requests() -> None:
    """A wrong request is refused in one sentence with status 2, and changes nothing."""
    refused("unload", words=("not running", "ctl load"))
    refused("load", "--policy", "nope", words=("'nope'", "csm"))
    with agent():
        before = asked("get")
        refused("set", "quantum_ms=10", "mno=65", words=("mno", "65", "1 to 64 overtakes"))
        refused("set", "watchdog_ms=2000", words=("watchdog_ms", "ctl unload"))
        refused("switch", "csm2", words=("'csm2'",))
        refused("run", "--job", "../x", "--", "true", words=("'../x'",))
        refused("load", "--policy", "rr", words=("csm is loaded already", "ctl switch"))
        ktap.expect(asked("get"), before, "knobs after refusals")
        ktap.expect(list(PARENT.glob("*/")), [], "jobs after refusals")


def another_scheduler() -> None:
    """A load beside another scheduler is refused, and the other scheduler stays loaded."""
    with loaded() as other:
        refused("load", "--policy", "csm", words=("cosched", "unload it first"))
        assert other.running(), "the other scheduler ended"
    ktap.expect(asked("status")["loaded"], False, "loaded, by status")


def jobs_come_and_go() -> None:
    """A job has the user's environment, directory and exit status, and ends with its last process."""
    with agent():
        here = tempfile.mkdtemp()
        done = subprocess.run(
            ["ctl", "run", "--job", "a", "--", "sh", "-c", "cat /proc/self/cgroup; pwd; echo $MARK; exit 7"],
            capture_output=True,
            text=True,
            cwd=here,
            env={**os.environ, "MARK": "here"},
            timeout=TIMEOUT,
            check=False,
        )
        ktap.expect((done.stdout.split(), done.returncode), (["0::/cosched/a", here, "here"], 7), "what the job saw")
        ktap.until(lambda: not (PARENT / "a").exists(), "the job's cgroup is removed")
        argv = ["ctl", "run", "--verbose", "--", "cat", "/proc/self/cgroup"]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        jid, *told = done.stderr.removeprefix("job ").splitlines()
        ktap.expect((done.stdout.strip(), jid[:4]), (f"0::/cosched/{jid}", "cat-"), "the job of a run without a JID")
        assert f"COSCHED_JOB={jid}" in told, done.stderr
        with spawned("ctl", "run", "--job", "b", "--", "sh", "-c", "sleep 1000 & sleep 1000"):
            ktap.until(lambda: [job["tasks"] for job in asked("jobs")] == [3], "three tasks in job b")
            rows = asked("tasks", "--job", "b")
            ktap.expect(sorted(row["comm"] for row in rows), ["sh", "sleep", "sleep"], "tasks of job b")
            ktap.expect({row["parallel"] for row in rows}, {True}, "class of the tasks of job b")
        _told_where_they_are()
        ktap.until(lambda: asked("jobs") == [], "no job is left")
        ktap.expect(list(PARENT.glob("*/")), [], "cgroups left")


def _told_where_they_are() -> None:
    """An event names two jobs on one CPU while another is free, and a process that was moved out of its job."""
    bound = "taskset -c 0 sleep 1000"
    with (
        spawned("ctl", "run", "--job", "c", "--", "sh", "-c", f"exec {bound}"),
        spawned("ctl", "run", "--job", "d", "--", "sh", "-c", f"{bound} & exec {bound}") as job,
    ):
        members = PARENT / "d" / "cgroup.procs"
        ktap.until(lambda: members.exists() and len(members.read_text().split()) == 2, "two processes in job d")
        moved = next(pid for pid in members.read_text().split() if pid != str(job.pid))
        try:
            (ROOT / "cgroup.procs").write_text(moved)
            for words in (f"(process {moved}) left its cgroup for / and is no part of the job", f"{_SAME}, while"):
                ktap.until(lambda words=words: words in ctl("events", "--job", "d"), words, 20)  # type: ignore[misc]
        finally:
            os.kill(int(moved), signal.SIGKILL)


def jobs_have_a_user() -> None:
    """A job belongs to the user who began it: the process of another user is refused, and changes nothing."""
    with agent(), spawned("ctl", "run", "--job", "mine", "--", "sleep", "1000"):
        ktap.until(lambda: [job["user"] for job in asked("jobs")] == ["root"], "root's job")
        protocol.SOCKET.chmod(0o666)
        os.seteuid(65534)  # nobody
        try:
            with protocol.Client() as client:
                client.call("enter", jid="mine")
            raise AssertionError("another user's process is in the job")
        except CoschedError as error:
            ktap.expect(str(error), "job mine belongs to user root, not to nobody: choose another JID", "the refusal")
        finally:
            os.seteuid(0)
        ktap.expect([job["tasks"] for job in asked("jobs")], [1], "tasks of the job")


def followed() -> None:
    """status --follow reports schedulers, jobs and knobs, also if it starts before the agent."""
    with following("status", "--follow") as follower:
        ktap.expect([event["agent"] for event in follower.events()], [False], "an agent when it began")
        with agent():
            ctl("set", "mno=5")
            ctl("run", "--job", "f", "--", "true")
            ktap.until(lambda: not (PARENT / "f").exists(), "the job is gone")
        jobs = [{"kind": "job", "action": action} for action in ("begin", "end")]
        schedulers = [{"kind": "sched_ext", "action": action} for action in ("add", "remove")]
        follower.hears(*schedulers, *jobs, {"kind": "knobs"})


if __name__ == "__main__":
    ktap.run(
        load_and_unload,
        prompt,
        prompt_among_local_tasks,
        wrong_requests,
        another_scheduler,
        jobs_come_and_go,
        jobs_have_a_user,
        followed,
    )
