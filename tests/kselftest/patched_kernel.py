#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What the patches of kernel-patches/ add is used where the kernel has it, and is right. Other kernels skip."""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from tests.kselftest import ktap
from tests.kselftest.node import ENDLESS, Recorder, job, loaded, spawned
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


def _decides_right_with(function: str) -> None:
    """Decisions under stress, with keys that run out, are as the reference has them, and this function is called."""
    mix = ktap.program("mix")
    with (
        job("patched") as cgroup,
        loaded("pred", observe=("sockets",), key_shift=2, mno=8) as scheduler,
        spawned(mix, ENDLESS, "5", str(cgroup / "cgroup.procs"), cpu=0),
        spawned(mix, ENDLESS, "1", cpu=0),
        _calls_counted(function) as profile,
    ):
        with Recorder(scheduler) as recorder:
            time.sleep(3)
        calls = _calls(profile)
    ktap.note(f"{calls} calls, {len(recorder.decisions)} decisions")
    assert calls > 0, f"{function}() is there and was not called in {len(recorder.decisions)} decisions"
    expect_in_order(recorder.decisions)


def the_tail_is_asked_of_the_kernel() -> None:
    """The kernel says which task is the tail, and decisions stay exact."""
    _need("0001", "scx_bpf_dsq_peek_tail")
    _decides_right_with("scx_bpf_dsq_peek_tail")


def tasks_go_beside_a_neighbour() -> None:
    """Tasks are inserted beside a neighbour, and decisions stay exact."""
    _need("0002", "scx_bpf_dsq_insert_vtime_beside")
    _decides_right_with("scx_bpf_dsq_insert_vtime_beside")


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
