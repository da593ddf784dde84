#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The messages that mes takes: with c_mes=flow those that a task read at once, too; with backlog those now queued."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from tests.kselftest import ktap
from tests.kselftest.node import job, loaded

_AT_ONCE = 20  # messages that the rank answers between two sleeps


@contextlib.contextmanager
def _rank(cgroup: Path, end: socket.socket) -> Iterator[int]:
    """A rank that answers _AT_ONCE messages as they come, sleeps, and begins again; its pid."""
    if (pid := os.fork()) == 0:
        (cgroup / "cgroup.procs").write_text("0")
        end.setblocking(False)
        while True:
            for _ in range(_AT_ONCE):
                while True:
                    with contextlib.suppress(BlockingIOError):
                        end.recv(1)
                        break
                end.send(b"x")
            time.sleep(0.01)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _mes(c_mes: str) -> float:
    """The largest mes of a rank that leaves no message lying, of some turns."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    seen = 0.0
    with (
        job("mes") as cgroup,
        loaded("pred", observe=("sockets",), c_mes=c_mes, p=0) as scheduler,
        _rank(cgroup, theirs) as rank,
    ):
        end = time.monotonic() + ktap.at_length(3, 1.5)
        while time.monotonic() < end:
            ours.send(b"x")
            ours.recv(1)
            for cpu in range(os.cpu_count() or 1):
                running = scheduler.snapshot(cpu)["running"]
                if running and running["tid"] == rank:
                    seen = max(seen, running["mes"])
    return seen


def flow_and_backlog() -> None:
    """A rank that answers at once has a mes of its messages with flow, and of next to none with backlog."""
    if (os.cpu_count() or 1) < 2:
        raise ktap.Skip("needs 2 CPUs, this machine has 1")
    flow, backlog = _mes("flow"), _mes("backlog")
    ktap.note(f"mes: {flow:.1f} with flow, {backlog:.1f} with backlog")
    ktap.measured(backlog <= 3, f"mes is {backlog} where at most one message waits")
    ktap.measured(flow >= _AT_ONCE, f"mes is {flow} after {_AT_ONCE} messages and as many answers")


if __name__ == "__main__":
    ktap.run(flow_and_backlog)
