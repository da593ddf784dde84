#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A task of a job that an idle CPU takes at once has its mes computed, like one that goes through the ready queue."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ctl.kernel.scheduler import Scheduler
from tests.kselftest import ktap
from tests.kselftest.node import job, loaded

_TURNS = 20


@contextlib.contextmanager
def _rank(cgroup: Path, end: socket.socket) -> Iterator[int]:
    """A rank that reads a message, _TURNS times, sleeps after each one, and then computes; its pid. A pinned task would
    always go through the ready queue."""
    if (pid := os.fork()) == 0:
        (cgroup / "cgroup.procs").write_text("0")
        for _ in range(_TURNS):
            end.recv(1)
            time.sleep(0.02)
        end.send(b"x")
        while True:
            pass
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _running(scheduler: Scheduler, pid: int) -> dict[str, Any] | None:
    """The task, if it runs now."""
    tasks = (scheduler.snapshot(cpu)["running"] for cpu in range(os.cpu_count() or 1))
    return next((task for task in tasks if task and task["tid"] == pid), None)


def mes_of_a_direct_dispatch() -> None:
    """mes of a task that never waits in a ready queue follows its messages (CSM eq. 2)."""
    if (os.cpu_count() or 1) < 2:
        raise ktap.Skip("needs 2 CPUs, this machine has 1")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with (
        job("direct") as cgroup,
        loaded("pred", observe=("sockets",), quantum_ms=1000) as scheduler,  # no quantum of the rank's ends meanwhile
        _rank(cgroup, theirs) as rank,
    ):
        before = scheduler.stats()["directs"]
        for _ in range(3 * _TURNS):
            ours.send(b"x")
        ours.recv(1)
        ktap.until(lambda: _running(scheduler, rank) is not None, "the rank runs")
        running, directs = _running(scheduler, rank), scheduler.stats()["directs"] - before
    ktap.note(f"{running}; {directs} direct dispatches")
    assert running, "the rank ran, and does not any more"
    ktap.measured(directs >= _TURNS, "the rank did not always wake on an idle CPU, so this shows nothing")
    ktap.measured(running["mes"] > running["com"] / 2, f"mes is {running['mes']} where {running['com']} messages wait")


if __name__ == "__main__":
    ktap.run(mes_of_a_direct_dispatch)
