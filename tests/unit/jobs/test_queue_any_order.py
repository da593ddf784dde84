# SPDX-License-Identifier: GPL-2.0-or-later
"""The queue of policy `fit` under events in any order: jobs come, grow, end, ask, are cancelled; the room changes.

After each event: what runs fits, or is alone, or was let through by its owner; every waiting job has a reason; nobody
is passed more than PASSES times. And whatever happened before, once nothing more comes every job has its turn.

COSCHED_RUNS sets the number of runs: COSCHED_RUNS=10000 just test-unit -k queue_any_order
"""

from __future__ import annotations

import os
import random

from ctl.contract import Wish
from ctl.errors import CoschedError
from ctl.jobs.fit import PASSES
from ctl.jobs.queue import LEASE, Queue

RUNS = int(os.environ.get("COSCHED_RUNS", "600"))
TURN_S = 30.0
NAMES = [f"j{i}" for i in range(9)]


class World:
    """A node and its users, drawn by chance."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.queue = Queue()
        self.now, self.room = 0.0, 100
        self.here: dict[str, int] = {}  # jobs with processes, and what they have
        self.asking: dict[str, Wish] = {}
        self.now_jobs: set[str] = set()

    def look(self) -> list[str]:
        return [jid for jid, _ in self.queue.look(self.now, self.here, self.room, TURN_S)]

    def ask(self, wish: Wish) -> None:
        try:
            why = self.queue.ask(wish, self.now)
        except CoschedError:  # cancelled
            self.asking.pop(wish.jid, None)
            return
        if why:
            self.asking[wish.jid] = Wish(wish.jid, wish.user, need=wish.need, now=wish.now, again=True)
        else:
            self.asking.pop(wish.jid, None)
            self.here[wish.jid] = 1
            if wish.now:
                self.now_jobs.add(wish.jid)

    def step(self) -> None:
        """One event."""
        jid, kind = self.draw.choice(NAMES), self.draw.randrange(7)
        if kind == 0 and jid not in self.here:
            self.ask(Wish(jid, "eve", need=self.draw.choice((0, 10, 40, 70, 130)), now=self.draw.random() < 0.1))
        elif kind == 1 and jid in self.here:
            self.here[jid] += self.draw.choice((0, 5, 30, 80))
        elif kind == 2 and jid in self.here:
            del self.here[jid]
            self.now_jobs.discard(jid)
        elif kind == 3:
            self.queue.cancel(jid)
        elif kind == 4 and jid not in self.here and jid not in self.asking:
            self.here[jid] = self.draw.randrange(80)  # of Slurm: it does not ask
        elif kind == 5:
            self.room = self.draw.choice((0, 50, 100, 200))
        else:
            self.now += self.draw.choice((0.1, 1, TURN_S))
        for wish in list(self.asking.values()):
            if self.draw.random() < 0.9 or self.draw.random() < 0.5:
                self.ask(wish)

    def check(self) -> None:
        stopped = self.look()
        rows = self.queue.rows(self.now)["jobs"]
        running = [row for row in rows if row["state"] == "runs"]
        total = 0
        for i, row in enumerate(running):
            total += row["need"]
            assert total <= self.room or i == 0 or row["need"] == 0 or row["jid"] in self.now_jobs, (rows, self.room)
        assert [row["jid"] for row in rows if row["state"] == "stopped"] == stopped
        assert all(row["why"] for row in rows if row["state"] != "runs")
        assert all(row["passed"] <= PASSES + len(NAMES) for row in rows)
        assert set(self.here) <= {row["jid"] for row in rows}

    def settle(self) -> None:
        """Nothing more comes: every job has its turn, and what asks begins."""
        ran: set[str] = set()
        turns = 4 * (len(self.here) + len(self.asking)) + 2  # a job larger than the room has every fourth
        for _ in range(int(turns * TURN_S / LEASE)):
            for wish in list(self.asking.values()):
                self.ask(wish)
            ran |= set(self.here) - set(self.look())
            self.now += LEASE
        assert not self.asking and ran >= set(self.here), (self.asking, self.queue.rows(self.now))


def test_any_order() -> None:
    for seed in range(RUNS):
        world = World(seed)
        for _ in range(60):
            world.step()
            world.check()
        world.settle()
