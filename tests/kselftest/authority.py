#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Who may do what: users of group cosched run jobs and change no contract, and no job has more than who starts it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator

from ctl import protocol
from ctl.kernel.cgroups import PARENT, ROOT
from tests.kselftest import ktap
from tests.kselftest.command import agent, asked
from tests.kselftest.node import spawned

_NOBODY = 65534
_LIMITED = ROOT / "kselftest-limited"


def _as_nobody(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as user nobody, in the socket's group."""
    group = protocol.SOCKET.stat().st_gid
    switch = ("setpriv", f"--reuid={_NOBODY}", f"--regid={group}", "--clear-groups")
    return subprocess.run([*switch, *words], capture_output=True, text=True, check=False, timeout=ktap.TIME_OUT_S)


def _refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Status 2, one sentence with these words."""
    ktap.expect((done.returncode, done.stderr.count("\n")), (2, 1), f"status and lines of {done.stderr!r}")
    for word in words:
        assert word in done.stderr, f"no {word!r} in {done.stderr!r}"


@contextlib.contextmanager
def _limited(**limits: str) -> Iterator[tuple[str, ...]]:
    """A cgroup with these limits; the beginning of a command line that runs in it."""
    _LIMITED.mkdir()
    try:
        for name, value in limits.items():
            (_LIMITED / name.replace("_", ".", 1)).write_text(value)
        yield "sh", "-c", f'echo $$ > {_LIMITED}/cgroup.procs; exec "$@"', "sh"
    finally:
        ktap.until(lambda: not (_LIMITED / "cgroup.procs").read_text(), "the cgroup is empty")
        _LIMITED.rmdir()


def members_run_jobs_and_change_nothing() -> None:
    """A member of the group starts, lists and cancels its jobs; set, switch, unload and trace are root's."""
    with agent(), spawned("ctl", "run", "--job", "theirs", "--", "sleep", "1000"):
        ktap.until(lambda: [job["jid"] for job in asked("jobs")] == ["theirs"], "root's job")
        for words in (("switch", "prio"), ("set", "share_l=1"), ("unload",), ("trace", "--json")):
            _refused(_as_nobody("ctl", *words), "root's, not user nobody's", "sudo")
        ktap.expect(asked("status")["policy"], "csm", "the policy")
        done = _as_nobody("ctl", "run", "--job", "mine", "--", "id", "-un")
        ktap.expect((done.stdout, done.returncode), ("nobody\n", 0), "a job of nobody's")
        _refused(_as_nobody("ctl", "cancel", "theirs"), "belongs to user root")
        tasks = _as_nobody("ctl", "tasks", "--job", "theirs")
        ktap.expect((tasks.returncode, "theirs" in tasks.stdout, "sleep" in tasks.stdout), (0, True, False), "tasks")
        ktap.expect("sleep" in _as_nobody("ctl", "jobs").stdout, False, "what root's job runs")


def no_job_has_more() -> None:
    """From a cgroup with a limit of memory or CPU a job is refused; its number of tasks goes with it."""
    for limits, words in (
        ({"memory_max": "150M", "pids_max": "30"}, ("memory.max 157286400", str(_LIMITED.name))),
        ({"cpu_max": "20000 100000"}, ("cpu.max 20000 100000",)),
    ):
        with agent(), _limited(**limits) as inside:
            done = subprocess.run([*inside, "ctl", "run", "--job", "esc", "--", "true"], capture_output=True, text=True,
                                  check=False, timeout=ktap.TIME_OUT_S)
            _refused(done, *words)
            ktap.expect((PARENT / "esc").exists(), False, "the job's cgroup")
    few = PARENT / "few"
    with (
        agent(),
        _limited(pids_max="30") as inside,
        spawned(*inside, "ctl", "run", "--job", "few", "--", "sleep", "1000"),
    ):
        ktap.until(lambda: few.exists() and (few / "cgroup.procs").read_text() != "", "it runs")
        ktap.expect((few / "pids.max").read_text(), "30\n", "the job's number of tasks")
        within = f"echo $$ > {few}/cgroup.procs; exec ctl run --job more -- cat {PARENT}/more/pids.max"
        done = subprocess.run(["sh", "-c", within], capture_output=True, text=True, check=False)
        ktap.expect(done.stdout, "30\n", "that of a job which it starts")


if __name__ == "__main__":
    os.umask(0o022)
    ktap.run(members_run_jobs_and_change_nothing, no_job_has_more)
