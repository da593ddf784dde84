#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What the patches of kernel-patches/ add is used where the kernel has it, and is right. Other kernels skip."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.kselftest import ktap
from tests.kselftest.node import ENDLESS, Recorder, job, loaded, mismatches, spawned
from tests.kselftest.queue_keys import expect_in_order

_TRACING = Path("/sys/kernel/tracing")
_LEVEL = re.compile(r"sock_queue_level: sk=(\S+) .* queue=rcv level=(\d+)")


def _need(patch: str, function: str) -> None:
    """Skip unless the kernel has this function."""
    if f" {function}\n" not in Path("/proc/kallsyms").read_text():
        raise ktap.Skip(f"this kernel has no {function}(), which kernel-patches/{patch} adds")


@contextlib.contextmanager
def _calls_counted(function: str) -> Iterator[Path]:
    """Count the calls of a kernel function; _calls() reads them."""
    events = _TRACING / "kprobe_events"
    events.write_text(f"p:cosched_test/probe {function}")
    enable = _TRACING / "events/cosched_test/probe/enable"
    enable.write_text("1")
    try:
        yield _TRACING / "kprobe_profile"
    finally:
        enable.write_text("0")
        events.write_text("")  # opened to be written anew, the file removes all events


def _calls(profile: Path) -> int:
    return sum(int(line.split()[1]) for line in profile.read_text().splitlines() if line.split()[0] == "probe")


def _go_and_come(pids: Sequence[int], seconds: float) -> None:
    """Move these processes from CPU 0 to CPU 1 and back, again and again: so tails leave their queue."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for pid in pids:
            for cpu in (1, 0):
                os.sched_setaffinity(pid, {cpu})
                time.sleep(0.005)


def _decisions(function: str, leave: bool) -> list[dict[str, Any]]:
    """Decisions under stress, with keys that run out and, with `leave`, tails that leave; the function is called."""
    mix = ktap.program("mix")
    with (
        job("patched") as cgroup,
        loaded("pred", observe=("sockets",), key_shift=1, mno=8) as scheduler,
        spawned(mix, ENDLESS, "5", str(cgroup / "cgroup.procs"), cpu=0),
        spawned(mix, ENDLESS, "1", cpu=0),
        spawned(ktap.program("hog"), "1", cpu=0) as one,
        spawned(ktap.program("hog"), "1", cpu=0) as two,
        _calls_counted(function) as profile,
    ):
        with Recorder(scheduler) as recorder:
            if leave:
                _go_and_come((one.pid, two.pid), 4)
            else:
                time.sleep(4)
        calls = _calls(profile)
    ktap.note(f"{calls} calls, {len(recorder.decisions)} decisions")
    ktap.measured(calls > 0, f"{function}() was not called in {len(recorder.decisions)} decisions")
    return recorder.decisions


def the_tail_is_asked_of_the_kernel() -> None:
    """Where the tail that we remember has left, the kernel says which task it is, and decisions stay exact."""
    _need("0001", "scx_bpf_dsq_peek_tail")
    wrong = mismatches(_decisions("scx_bpf_dsq_peek_tail", leave=True))
    ktap.expect(wrong, [], "decisions that differ from the reference")


def tasks_go_beside_a_neighbour() -> None:
    """Where no key is left between two neighbours, a task is inserted beside one; decisions and queues stay exact."""
    _need("0002", "scx_bpf_dsq_insert_vtime_beside")
    expect_in_order(_decisions("scx_bpf_dsq_insert_vtime_beside", leave=False))


@contextlib.contextmanager
def _levels_traced() -> Iterator[dict[str, list[int]]]:
    """The levels of receive queues that events of the block have told, by socket, in order; filled at its end."""
    levels: dict[str, list[int]] = {}
    (_TRACING / "trace").write_text("")
    enable = _TRACING / "events/sock/sock_queue_level/enable"
    enable.write_text("1")
    try:
        yield levels
    finally:
        enable.write_text("0")
        for sk, level in _LEVEL.findall((_TRACING / "trace").read_text()):
            levels.setdefault(sk, []).append(int(level))


def _pair(family: socket.AddressFamily, kind: socket.SocketKind) -> tuple[socket.socket, socket.socket]:
    """Two connected sockets: one that sends, one that receives."""
    if family == socket.AF_UNIX:
        return socket.socketpair(family, kind)
    theirs = socket.socket(family, kind)
    theirs.bind(("127.0.0.1", 0))
    ours = socket.socket(family, kind)
    ours.connect(theirs.getsockname())
    return ours, theirs


def every_change_of_a_level_is_told() -> None:
    """The tracepoint tells each level of a receive queue, up and down again."""
    _need("0003", "__tracepoint_sock_queue_level")
    for family, kind in (
        (socket.AF_UNIX, socket.SOCK_STREAM), (socket.AF_UNIX, socket.SOCK_DGRAM), (socket.AF_INET, socket.SOCK_DGRAM),
    ):
        ours, theirs = _pair(family, kind)
        with ours, theirs, _levels_traced() as levels:
            for _ in range(3):
                ours.send(b"x")
            for _ in range(3):
                theirs.recv(1)
        assert [1, 2, 3, 2, 1, 0] in levels.values(), f"no {family.name} {kind.name} went up to 3 and down: {levels}"


if __name__ == "__main__":
    ktap.run(the_tail_is_asked_of_the_kernel, tasks_go_beside_a_neighbour, every_change_of_a_level_is_told)
