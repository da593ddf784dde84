#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Bounds: a kernel thread takes its turns, and a message for a task deep in a queue costs no search through it all."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.kselftest import ktap
from tests.kselftest.local_tasks import cpu_time
from tests.kselftest.node import job, loaded, spawned

_PKTGEN = Path("/proc/net/pktgen")
_DEEP = 150  # tasks behind the one that has a message; LOOKS of bpf/queue.bpf.h is 64
_MESSAGES = 20


@contextlib.contextmanager
def _packets_without_end() -> Iterator[None]:
    """The kernel's packet generator: its thread of CPU 0 never sleeps."""
    if subprocess.run(["modprobe", "pktgen"], check=False, capture_output=True).returncode:
        raise ktap.Skip("this kernel has no pktgen")
    try:
        (_PKTGEN / "kpktgend_0").write_text("rem_device_all")
        (_PKTGEN / "kpktgend_0").write_text("add_device lo")
        for line in ("count 0", "delay 0", "dst 127.0.0.1", "pkt_size 60"):
            (_PKTGEN / "lo").write_text(line)
        with spawned("sh", "-c", f"echo start >{_PKTGEN}/pgctrl", cpu=1):
            yield
    finally:
        (_PKTGEN / "pgctrl").write_text("stop")
        (_PKTGEN / "kpktgend_0").write_text("rem_device_all")
        subprocess.run(["modprobe", "-r", "pktgen"], check=True)


def _thread(name: str) -> int:
    return next(int(path.parent.name) for path in Path("/proc").glob("[0-9]*/comm") if path.read_text() == f"{name}\n")


def a_kernel_thread_takes_turns() -> None:
    """A kernel thread of one CPU that never sleeps has its share beside a local task and a job, and no more."""
    if (os.cpu_count() or 1) < 2:
        raise ktap.Skip("needs 2 CPUs, this machine has 1")
    hog = ktap.program("hog")
    with job("bound") as cgroup, loaded(), _packets_without_end():
        sender = _thread("kpktgend_0")
        with spawned(hog, "1", cpu=0) as local, spawned(hog, "1", cgroup=cgroup, cpu=0) as parallel:
            pids = (sender, local.pid, parallel.pid)
            before = [cpu_time(pid) for pid in pids]
            time.sleep(ktap.at_length(4, 2))
            got = [round(cpu_time(pid) - was, 2) for pid, was in zip(pids, before, strict=True)]
    ktap.note(f"CPU seconds of the kernel thread, a local task and a job's: {got}")
    ktap.measured(got[0] > 0.2, f"the kernel thread did not work, so this shows nothing: {got}")
    # ahead of everything after each quantum, it had 0.6 of the CPU
    ktap.measured(got[0] < 0.45 * sum(got), f"the kernel thread had more than its turns: {got}")


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
    ktap.run(a_kernel_thread_takes_turns, messages_are_looked_for_nearby)
