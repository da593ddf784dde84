#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A task of a job that polls or yields without a message counts as waiting; a computing task does not."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from functools import partial

from ctl.kernel import layout
from tests.kselftest import ktap
from tests.kselftest.node import ENDLESS, job, loaded, spawned

_SECONDS = ktap.at_length(3.0, 2.0)


def _beside_a_hog(what: str, compute_us: int, policy: str, spin_ms: int = 2) -> tuple[float, float]:
    """CPU seconds that a task of a job and a local hog get on one CPU in _SECONDS."""
    spin = ktap.program("spin")
    with (
        loaded(policy, observe=("sockets",), spin_ms=spin_ms, overload="off") as scheduler,
        job("rank") as cgroup,
        spawned(spin, what, str(_SECONDS), str(compute_us), cgroup=cgroup, cpu=0) as rank,
        spawned(spin, "compute", str(_SECONDS), "1000", cpu=0) as hog,
    ):
        used = [float(process.communicate(timeout=ktap.TIME_OUT_S)[0].split()[0]) / 1e3 for process in (rank, hog)]
        ktap.note(
            f"{policy}, {what}, {compute_us} us, spin_ms {spin_ms}: CPU s of rank and hog {used}, "
            f"{scheduler.stats()['waits']} waits"
        )
        return used[0], used[1]


def waiting_uses_no_cpu() -> None:
    """A task that polls or yields in vain leaves the CPU to others"""
    spins = ("csm", "epoll"), ("rr", "yield"), ("csm", "poll"), ("csm", "select"), ("csm", "yield")
    for policy, what in ktap.cases(spins, 2):
        ktap.tried(partial(_leaves_the_cpu, policy, what))


def _leaves_the_cpu(policy: str, what: str) -> None:
    rank, hog = _beside_a_hog(what, 0, policy)
    left = rank < 0.25 * _SECONDS and hog > 0.7 * (_SECONDS - rank)
    ktap.measured(left, f"{policy}, {what}: {rank} s of CPU while it waited {_SECONDS} s, the hog {hog} s")


def two_wait_as_well_as_one() -> None:
    """Two polling ranks on one CPU leave the CPU to others, and do not delay a change of knobs"""
    used, changed = _two_beside_a_hog()
    text = f"CPU s of two ranks that waited {_SECONDS} s and a hog: {used}; the knob took {changed} s"
    ktap.measured(sum(used[:2]) < used[2] and changed < 0.5, text)  # as tasks like others they have twice the hog's


def _two_beside_a_hog() -> tuple[list[float], float]:
    """CPU seconds of two waiting ranks and a hog, and the time that a change of a knob takes."""
    spin = ktap.program("spin")
    with (
        loaded("csm", observe=("sockets",), overload="off") as scheduler,
        job("rank") as cgroup,
        spawned(spin, "epoll", str(_SECONDS), "0", cgroup=cgroup, cpu=0) as one,
        spawned(spin, "epoll", str(_SECONDS), "0", cgroup=cgroup, cpu=0) as two,
        spawned(spin, "compute", str(_SECONDS), "1000", cpu=0) as hog,
    ):
        time.sleep(1)
        scheduler.write_knobs(mnol=3)
        began = time.monotonic()
        scheduler.write_knobs(mnol=2)
        changed = time.monotonic() - began
        used = [float(process.communicate(timeout=ktap.TIME_OUT_S)[0].split()[0]) / 1e3 for process in (one, two, hog)]
    ktap.note(f"CPU s of two ranks and a hog {used}; the second change of a knob took {changed:.2f} s")
    return used, changed


def computing_is_not_waiting() -> None:
    """A task that computes between polls, or is displaced, has its share and never counts as waiting"""
    # each ms: polls too far apart to be of one wait; each 0.4 ms: near enough, but too few (POLL_PAUSE in the mean)
    polls = ("epoll", 1000), ("epoll", 400), ("poll", 1000), ("select", 1000)
    for what, compute_us in ktap.cases(polls, 2):
        rank, _ = _beside_a_hog(what, compute_us, "csm")
        ktap.measured(rank > 0.35 * _SECONDS, f"{what} each {compute_us} us: {rank} s of CPU in {_SECONDS} s")
    spin = ktap.program("spin")
    sleeper = "import time\nprint('up', flush=True)\nwhile True: time.sleep(0.005)"
    with (
        loaded("csm", observe=("sockets",), overload="off") as scheduler,
        job("rank") as cgroup,
        spawned(sys.executable, "-c", sleeper, cpu=0) as sleeping,
    ):
        assert sleeping.stdout is not None
        sleeping.stdout.readline()
        with spawned(spin, "compute", str(_SECONDS), "1000", cgroup=cgroup, cpu=0) as rank_process:
            rank_process.communicate(timeout=ktap.TIME_OUT_S)
        counted = scheduler.stats()
    ktap.note(f"beside a sleeper: displaced {counted['preempts']} times, {counted['waits']} waits")
    ktap.measured(counted["preempts"] > 30, str(counted))  # an idle host makes it 300
    ktap.expect(counted["waits"], 0, "waits of one that computes")


def off_is_off() -> None:
    """spin_ms=0: no task counts as waiting"""
    rank, _ = _beside_a_hog("epoll", 0, "csm", spin_ms=0)
    ktap.measured(rank > 0.35 * _SECONDS, f"{rank} s of CPU in {_SECONDS} s")


def a_message_ends_it() -> None:
    """A message gives a waiting task the CPU at once, and a yield before its answer does not take the CPU away"""
    for policy in ("dyn", "implicit"):
        _answered(policy)


def _answered(policy: str) -> None:
    """Messages for a waiting task beside a hog."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    answers: list[float] = []
    with (
        job("rank") as cgroup,
        loaded(policy, observe=("sockets",), quantum_ms=1000) as scheduler,
        spawned(ktap.program("spin"), "compute", ENDLESS, "1000", cpu=0),
    ):
        rank = os.fork()
        if rank == 0:
            _echo(cgroup, theirs)
        try:
            for _ in range(20):
                time.sleep(0.1)
                began = time.monotonic()
                ours.send(b"x")
                ours.recv(1)
                answers.append(time.monotonic() - began)
        finally:
            os.kill(rank, signal.SIGKILL)
            os.waitpid(rank, 0)
        waits = scheduler.stats()["waits"]
    answers.sort()
    times = f"{answers[10] * 1e3:.1f} ms in the median, {answers[-1] * 1e3:.1f} at most"
    ktap.note(f"{policy}: answers after {times}; {waits} waits")
    assert waits, f"{policy}: the task never counted as waiting"
    # at the tail, behind a hog that has half of its 1,000 ms left, an answer takes longer
    ktap.measured(answers[10] < 0.1, f"{policy}: half of the answers took longer than {answers[10] * 1e3:.0f} ms")


def _echo(cgroup: os.PathLike[str], end: socket.socket) -> None:
    """Answer each message, polling for it, and yield between reading and answering."""
    os.sched_setaffinity(0, {0})
    with open(os.path.join(cgroup, "cgroup.procs"), "w") as procs:
        procs.write("0")
    while True:
        if select.select([end], [], [], 0)[0]:
            data = end.recv(1)
            os.sched_yield()
            end.send(data)


def _deaf(cgroup: os.PathLike[str], end: socket.socket) -> None:
    """Read a message, so that the socket counts for this task, and then compute; the other messages stay unread."""
    os.sched_setaffinity(0, {0})
    with open(os.path.join(cgroup, "cgroup.procs"), "w") as procs:
        procs.write("0")
    end.send(end.recv(1))
    while True:
        pass


def implicit_leaves_the_ready_alone() -> None:
    """Under implicit a message for a rank that computes changes nothing; under dyn it does"""
    moved = {}
    with (
        job("rank") as cgroup,
        loaded("dyn", observe=("sockets",), spin_ms=1) as scheduler,
        spawned(ktap.program("spin"), "compute", ENDLESS, "1000", cpu=0),
    ):
        for policy in ("dyn", "implicit"):
            scheduler.write_knobs(rule=layout.RULES[policy])
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            rank = os.fork()
            if rank == 0:
                _deaf(cgroup, theirs)
            try:
                ours.send(b"x")
                ours.recv(1)
                before = scheduler.stats()["messages"]
                for _ in range(100):
                    time.sleep(0.013)  # it is queued every other time
                    ours.send(b"x")
                moved[policy] = scheduler.stats()["messages"] - before
            finally:
                os.kill(rank, signal.SIGKILL)
                os.waitpid(rank, 0)
    ktap.note(f"messages that moved a computing task, of 100: {moved}")
    ktap.measured(moved["dyn"] > 5, str(moved))
    ktap.expect(moved["implicit"], 0, "moves under implicit")


if __name__ == "__main__":
    ktap.run(
        waiting_uses_no_cpu,
        two_wait_as_well_as_one,
        computing_is_not_waiting,
        off_is_off,
        a_message_ends_it,
        implicit_leaves_the_ready_alone,
    )
