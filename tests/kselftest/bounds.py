#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Bounds: a message for a task deep in a queue costs no search through it all."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

from tests.kselftest import ktap
from tests.kselftest.node import job, loaded, spawned

_DEEP = 150  # tasks behind the one that has a message; LOOKS of bpf/queue.bpf.h is 16
_MESSAGES = 20


def _receiver(cgroup: Path, end: socket.socket) -> int:
    """A rank that has read one message, so that its socket counts for it, and computes. Returns its pid."""
    if rank := os.fork():
        return rank
    os.sched_setaffinity(0, {0})
    (cgroup / "cgroup.procs").write_text("0")
    end.send(end.recv(1))
    while True:
        pass


def messages_are_looked_for_nearby() -> None:
    """A message for a task with 150 tasks behind it moves nobody, and is counted."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with job("deep") as cgroup, loaded("pred", observe=("sockets",), quantum_ms=1000, credit="off") as scheduler:
        rank = _receiver(cgroup, theirs)
        try:
            ours.send(b"x")
            ours.recv(1)
            with spawned(ktap.program("hog"), str(_DEEP), cpu=0):
                ktap.until(lambda: scheduler.snapshot(0)["queued"] >= _DEEP - 1, "all are queued")
                before = scheduler.stats()
                for _ in range(_MESSAGES):
                    ours.send(b"x")
                    time.sleep(0.02)
                counted = scheduler.stats()
        finally:
            os.kill(rank, signal.SIGKILL)
            os.waitpid(rank, 0)
    far, moved = (counted[name] - before[name] for name in ("messages_far", "messages"))
    ktap.note(f"{_MESSAGES} messages: {far} for a task too deep in the queue, {moved} moved it")
    ktap.measured(far > 0, "no message was for a task that deep in the queue")


if __name__ == "__main__":
    ktap.run(messages_are_looked_for_nearby)
