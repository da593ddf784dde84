#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A task that wakes others, or sends them messages, loses the CPU to them by the tick, and not with each of them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from tests.kselftest import ktap
from tests.kselftest.node import Recorder, job, loaded, online, sensing, spawned

_OTHERS = 5
_ROUNDS = int(ktap.at_length(7, 4))
_QUANTUM_MS = 200
_TALK = ("--groups", "4", "--fds", "10", "--datasize", "100", "--loops", "100")
_EVENTS = 2 * 4 * 10 * 10 * 100  # each message comes and goes
_TICK_NS = 4_000_000  # of the image's kernel
_SOON_US = 40_000  # an emulated CPU stands still where the host is busy
_AT_ONCE = 0.87  # of the followers: 27 or 28 of 28 were; 23 to 25 with no interrupt after the first, 4 with none


def _sends(what: str, stays: str, cgroup: Path | None = None, policy: str = "csm") -> tuple[float, int]:
    """In which part of the rounds the sender lost the CPU meanwhile; us from its last message until all others had
    run, median."""
    with (
        loaded(policy, observe=("sockets",), quantum_ms=_QUANTUM_MS, waker_stays=stays, overload="off") as scheduler,
        spawned(ktap.program("wakers"), str(_OTHERS), what, str(_ROUNDS), cgroup=cgroup, cpu=0) as sender,
    ):
        rounds, lossy, after = map(int, sender.communicate(timeout=ktap.TIME_OUT_S)[0].split())
        stats = scheduler.stats()
    counts = f"{stats['preempts']} displaced, {stats['messages']} messages for queued tasks"
    ktap.note(f"{policy}, others {what}, waker_stays={stays}: lost the CPU in {lossy} of {rounds} rounds, "
              f"{after} us; {counts}")
    return lossy / rounds, after


def _stays(what: str, cgroup: Path | None = None, policy: str = "csm") -> None:
    lost, after = _sends(what, "on", cgroup, policy)
    ktap.measured(lost < 0.5, f"the sender of {_OTHERS} messages lost the CPU in {lost:.0%} of the rounds")
    ktap.measured(after < _SOON_US, f"{after} us went by before all others had run")


def _leaves(what: str, cgroup: Path | None = None, policy: str = "csm") -> None:
    lost, _ = _sends(what, "off", cgroup, policy)
    ktap.measured(lost > 0.7, f"waker_stays=off: the sender lost the CPU in {lost:.0%} of the rounds only")


def wakes_sleepers() -> None:
    """A local task that wakes others on credit goes on, and they run from the next tick on"""
    with online(1, False):
        _stays("sleep")
        _leaves("sleep")


def sends_to_queued_tasks() -> None:
    """A task of a job that sends messages to queued ones goes on, and they run from the next tick on"""
    with online(1, False), job("senders") as cgroup:
        _stays("compute", cgroup, "sdca")


def each_has_a_dispatch() -> None:
    """The messages of a task that then waits are handled one after the other, and not one with each tick"""
    with (
        online(1, False),
        job("senders") as cgroup,
        loaded("sdca", observe=("sockets",), quantum_ms=_QUANTUM_MS, overload="off") as scheduler,
        Recorder(scheduler) as recorder,
        spawned(ktap.program("wakers"), str(_OTHERS), "compute", str(_ROUNDS), "wait", cgroup=cgroup, cpu=0) as sender,
    ):
        rounds = int(sender.communicate(timeout=ktap.TIME_OUT_S)[0].split()[0])
    times = [decision["ns"] for decision in recorder.decisions if decision["cause"] == "message"]
    at_once = sum(later - earlier < _TICK_NS / 2 for earlier, later in pairwise(times))
    followers = rounds * (_OTHERS - 1)
    ktap.note(f"{len(times)} messages for queued tasks, {at_once} at once after another, of {followers} sent so")
    ktap.measured(at_once > _AT_ONCE * followers, f"{at_once} of {followers} messages were handled at once")


def in_a_program() -> None:
    """A task that is in a program of a sensor as its turn ends leaves the CPU behind it: few events are missed"""
    with (
        online(1, False),
        sensing("sockets") as sensors,
        loaded("csm", sensors="on"),
        job("talk") as cgroup,
        spawned("hackbench", *_TALK, cgroup=cgroup, cpu=0) as talk,
    ):
        before = sensors.missed()  # of the tests and tries before: the sensors run on
        talk.communicate(timeout=ktap.TIME_OUT_S)
        missed = sensors.missed() - before
    ktap.note(f"{missed} events missed of {_EVENTS:,}")
    ktap.measured(missed < _EVENTS // 500, f"{missed} events of {_EVENTS:,} were missed")


if __name__ == "__main__":
    ktap.run(wakes_sleepers, sends_to_queued_tasks, each_has_a_dispatch, in_a_program)
