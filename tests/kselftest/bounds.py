#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Bounds: a message for a task deep in a queue costs no search through it all, and a flood delays no turn."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ctl.kernel.scheduler import Scheduler
from tests.kselftest import ktap
from tests.kselftest.node import job, loaded, spawned

_DEEP = 40  # tasks behind those that have messages; LOOKS of bpf/queue.bpf.h is 16
_MESSAGES = 20
_RECEIVERS = 8
_FLOOD_S = 2  # an emulated sender is too slow to hold a turn up: seen failing where each message comes back
_QUANTUM_MS = 5
_SO_RCVBUFFORCE = 33  # of Linux; the socket module has no name for it
_BUFFER = 64 << 20  # bytes: nobody reads the flood while it lasts


def _receives(cgroup: Path, end: socket.socket) -> None:
    """A rank that has read one message, so that its socket counts for it, and computes."""
    os.sched_setaffinity(0, {0})
    (cgroup / "cgroup.procs").write_text("0")
    end.sendto(*end.recvfrom(1))
    while True:
        pass


@contextmanager
def _deep_in_queue(count: int, scheduler: Scheduler) -> Iterator[tuple[list[int], int]]:
    """Ranks of a job wait on CPU 0 with _DEEP others behind them: their UDP ports, the pid of the others' parent."""
    ranks: list[int] = []
    ports: list[int] = []
    with job("deep") as cgroup, ExitStack() as stack:
        ours = stack.enter_context(_socket())
        for _ in range(count):
            theirs = stack.enter_context(_socket())
            if not (rank := os.fork()):
                _receives(cgroup, theirs)
            ranks.append(rank)
            ports.append(theirs.getsockname()[1])
        try:
            for port in ports:
                ours.sendto(b"x", ("127.0.0.1", port))
                ours.recv(1)
            hogs = stack.enter_context(spawned(ktap.program("hog"), str(_DEEP), cpu=0))
            ktap.until(lambda: scheduler.snapshot(0)["queued"] >= _DEEP - 1, "all are queued")
            yield ports, hogs.pid
        finally:
            for rank in ranks:
                os.kill(rank, signal.SIGKILL)
                os.waitpid(rank, 0)


def _socket() -> socket.socket:
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
    end.bind(("127.0.0.1", 0))
    return end


def _turns(parent: int) -> int:
    """How often the process and its children got a CPU."""
    pids = [str(parent), *Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[2]) for pid in pids)


def messages_are_looked_for_nearby() -> None:
    """A message for a task with 40 tasks behind it moves nobody, and is counted."""
    with (
        loaded("pred", observe=("sockets",), quantum_ms=1000, credit="off") as scheduler,
        _deep_in_queue(1, scheduler) as (ports, _),
        _socket() as ours,
    ):
        before = scheduler.stats()
        for _ in range(_MESSAGES):
            ours.sendto(b"x", ("127.0.0.1", ports[0]))
            time.sleep(0.02)
        counted = scheduler.stats()
    far, moved = (counted[name] - before[name] for name in ("messages_far", "messages"))
    ktap.note(f"{_MESSAGES} messages: {far} for a task too deep in the queue, {moved} moved it")
    ktap.measured(far > 0, "no message was for a task that deep in the queue")


def turns_end_in_a_flood() -> None:
    """Turns on a CPU end, however many messages the other CPUs send to tasks that are queued there."""
    with (
        loaded("pred", observe=("sockets",), quantum_ms=_QUANTUM_MS, credit="off") as scheduler,
        _deep_in_queue(_RECEIVERS, scheduler) as (ports, hogs),
        ExitStack() as floods,
    ):
        for cpu in range(1, os.cpu_count() or 1):
            floods.enter_context(spawned(ktap.program("flood"), *map(str, ports), cpu=cpu))
        before, begun = scheduler.stats(), _turns(hogs)
        time.sleep(_FLOOD_S)
        counted, turns = scheduler.stats(), _turns(hogs) - begun
    far, lost, late = (counted[name] - before[name] for name in ("messages_far", "messages_lost", "messages_late"))
    ktap.note(f"{turns} turns, {far} messages too deep in the queue, {lost} lost; {late} ends of turns waited for 64")
    ktap.measured(turns > _FLOOD_S * 1000 / _QUANTUM_MS / 8, f"only {turns} turns of {_QUANTUM_MS} ms")


if __name__ == "__main__":
    ktap.run(messages_are_looked_for_nearby, turns_end_in_a_flood)
