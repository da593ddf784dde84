#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Tasks that wake on credit one after the other run in that order, also where no job is on the node."""

from __future__ import annotations

import json
import time

from tests.kselftest import ktap
from tests.kselftest.node import job, loaded, spawned

_ROUNDS = 8
# One task sleeps, then wakes four others in turn, which slept as long, and computes for a while: who wakes has to wait.
_SLEEPERS = """
import json, mmap, os, sys, time
ran = mmap.mmap(-1, 64)
doors = [os.eventfd(0) for _ in range(4)]
def run(ms, clock=time.thread_time):
    until = clock() + ms / 1000
    while clock() < until:
        pass
for number, door in enumerate(doors, 1):
    if not os.fork():
        while True:
            os.eventfd_read(door)
            ran[0] += 1
            ran[ran[0]] = number
orders = []
for _ in range(int(sys.argv[1])):
    time.sleep(0.08)
    ran[0] = 0
    for door in doors:
        os.eventfd_write(door, 1)
        run(1)
    run(2)
    time.sleep(0.08)
    orders.append(list(ran[1 : 1 + ran[0]]))
print(json.dumps(orders), flush=True)
os.killpg(0, 9)
"""


def _orders() -> list[list[int]]:
    """The orders in which the four ran, beside a local hog on CPU 0."""
    with (
        spawned(ktap.program("hog"), "1", cpu=0),
        spawned("python3", "-c", _SLEEPERS, str(_ROUNDS), cpu=0) as sleepers,
    ):
        assert sleepers.stdout
        return list(json.loads(sleepers.stdout.readline()))


def _expect_order() -> None:
    orders = _orders()
    right = sum(order == [1, 2, 3, 4] for order in orders)
    ktap.note(f"in order in {right} of {len(orders)} rounds: {orders}")
    # an interrupt at the wrong moment may let one of them have the CPU in between
    ktap.measured(right >= _ROUNDS - 1, f"the four ran in the order in which they woke {right} times of {len(orders)}")


def without_a_job() -> None:
    """Where no job is, and the local DSQ is the queue."""
    with loaded() as scheduler:
        _expect_order()
        stats = scheduler.stats()
    ktap.measured(stats["credits"] > 0, "nobody went ahead on credit, so the test shows nothing")


def beside_a_job() -> None:
    """Beside a task of a job, which waits."""
    with loaded(), job("asleep") as cgroup, spawned("sleep", "999", cgroup=cgroup):
        time.sleep(0.2)
        _expect_order()


if __name__ == "__main__":
    ktap.run(without_a_job, beside_a_job)
