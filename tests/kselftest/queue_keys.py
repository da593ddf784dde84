#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Keys keep the order: where keys run out, tasks get new ones, and no two waiting tasks have the same key."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ctl.kernel.scheduler import Scheduler
from tests.kselftest import ktap
from tests.kselftest.node import ENDLESS, Recorder, job, loaded, mismatches, spawned
from tests.reference.continuity import Chain
from tests.reference.records import PUT_BACK, from_json

_WAITER = """
import os, select, sys
wait, tell = [os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in sys.argv[1:]]
told = select.poll()
told.register(wait, select.POLLIN)
while True:
    told.poll()
    try:
        os.read(wait, 4096)
    except BlockingIOError:
        pass
    os.write(tell, b".")
"""
_WAKER = """
import os, sys, time
tell = os.open(sys.argv[1], os.O_RDWR)
while True:
    end = time.perf_counter() + 0.005
    while time.perf_counter() < end:
        pass
    os.write(tell, b".")
"""


def _disorders(decisions: list[dict[str, Any]]) -> list[str]:
    """The places at which the queue of CPU 0 was not as the decision before had left it, in words. No CPU steals from
    it."""
    chain = Chain()
    found = [wrong for one in decisions if one["cpu"] == 0 for wrong in chain.follow(from_json(one))]
    return found + chain.ran_early


def expect_in_order(decisions: list[dict[str, Any]]) -> None:
    """Fail unless decisions are the reference's, and the queue of CPU 0 is always as the decision before left it."""
    wrong = mismatches(decisions)
    assert not wrong, f"{len(wrong)} decisions differ from the reference, the first: {wrong[0]}"
    wrong = _disorders(decisions)
    assert not wrong, f"{len(wrong)} queues are not as the decision before left them, the first: {wrong[0]}"


def _order_survives(pairs: int, seconds: float) -> None:
    """Keys are so close that they run out; `pairs` pairs of tasks of a job, and some local ones."""
    mix = ktap.program("mix")
    with (
        job("keys") as cgroup,
        loaded("pred", observe=("sockets",), key_shift=2, mno=8) as scheduler,
        spawned(mix, ENDLESS, str(pairs), str(cgroup / "cgroup.procs"), cpu=0),
        spawned(mix, ENDLESS, "1", cpu=0),
    ):
        with Recorder(scheduler) as recorder:
            time.sleep(seconds)
        stats = scheduler.stats()
    longest = max(len(one["queue"]) for one in recorder.decisions)
    ktap.note(
        f"{stats['gaps']} gaps, {stats['renumbers']} opened, {stats['gaps_far']} too deep, "
        f"{len(recorder.decisions)} decisions, queues of up to {longest} tasks"
    )
    ktap.measured(stats["renumbers"] > 0, "no gap was opened, so the test shows nothing")
    expect_in_order(recorder.decisions)


def order_survives_a_lack_of_keys() -> None:
    """Decisions and queues stay exact where keys run out."""
    _order_survives(5, ktap.at_length(3, 1.5))


def order_survives_a_lack_of_keys_in_a_long_queue() -> None:
    """The same where more tasks are waiting than one dispatch gives new keys."""
    _order_survives(45, ktap.at_length(4, 1.5))


@contextmanager
def _displaced_again_and_again() -> Iterator[Scheduler]:
    """CPU 0 with tasks of a job that wake two at a time and displace a local task, under rule prio."""
    with (
        tempfile.TemporaryDirectory() as made,
        job("keys") as cgroup,
        loaded("prio") as scheduler,
        ExitStack() as stack,
    ):
        first, then = (str(Path(made) / name) for name in ("first", "then"))
        os.mkfifo(first)
        os.mkfifo(then)
        for pair in ((first, then), (then, "/dev/null")):
            for _ in range(2):
                stack.enter_context(spawned(sys.executable, "-c", _WAITER, *pair, cgroup=cgroup, cpu=0))
        stack.enter_context(spawned(ktap.program("hog"), "1", cpu=0))
        stack.enter_context(spawned(sys.executable, "-c", _WAKER, first, cpu=0))
        time.sleep(1)
        yield scheduler


def the_displaced_keeps_its_place() -> None:
    """A task that wakes beside the displacing task does not take the key kept for the displaced task."""
    with _displaced_again_and_again() as scheduler:
        with Recorder(scheduler) as recorder:
            time.sleep(2)
        stats = scheduler.stats()
    put_backs = sum(one["cause"] == PUT_BACK for one in recorder.decisions)
    ktap.note(f"{put_backs} put back, {stats['gaps']} gaps, {len(recorder.decisions)} decisions")
    ktap.measured(put_backs > 10, f"the running task was displaced {put_backs} times only")
    expect_in_order(recorder.decisions)
    ktap.expect(stats["gaps"], 0, "gaps between keys 2^32 apart that ran out")


def records_name_their_knobs() -> None:
    """Each record has the knobs of its time, also the first record, and also the record of a put-back task."""
    began, recordings = 0, int(ktap.at_length(20, 8))
    with _displaced_again_and_again() as scheduler:
        for mno in range(2, 2 + recordings):
            scheduler.write_knobs(mnol=mno, mnod=mno)
            with Recorder(scheduler) as recorder:
                time.sleep(0.1)
            on_0 = [one for one in recorder.decisions if one["cpu"] == 0]
            began += on_0[0]["cause"] == PUT_BACK
            ktap.expect({(one["mnol"], one["mnod"]) for one in on_0}, {(mno, mno)}, "MNOL and MNOD in the records")
    ktap.note(f"{began} of {recordings} recordings began with a task that was put back")


if __name__ == "__main__":
    ktap.run(
        order_survives_a_lack_of_keys,
        order_survives_a_lack_of_keys_in_a_long_queue,
        the_displaced_keeps_its_place,
        records_name_their_knobs,
    )
