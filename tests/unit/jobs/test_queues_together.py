# SPDX-License-Identifier: GPL-2.0-or-later
"""Several nodes' queues of policy `fit`: the same verdict everywhere, whatever order messages and failures come in.

A small cluster in virtual time: each node looks once a second, tells its facts when they change and three times in a
lease, and hears the others' after a delay. Jobs of one to all nodes come, grow, and end when they have run long enough
on all their nodes at the same time. Nodes are cut off, agents are killed, the broker is lost, clocks are apart.

What must hold: on a node, the running jobs fit or are one; without failures a job's nodes differ for at most 100 ms,
and a job waits for at most two turns for each job; after the last failure every job ends.

COSCHED_RUNS sets ten times the number of runs: COSCHED_RUNS=100000 just test-unit -k queues_together
"""

from __future__ import annotations

import heapq
import itertools
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest

from ctl.cluster.events import LEASE
from ctl.cluster.facts import Facts, arrivals, encode_facts
from ctl.contract import NodeFacts
from ctl.jobs.queue import Queue

RUNS = int(os.environ.get("COSCHED_RUNS", "600")) // 10
TURN_S = 30.0
ROOM = 100
DIFFER_S = 0.1
EPOCH = 1_000_000.0  # Unix time at which a run begins


@dataclass
class Job:
    """A job and its life."""

    jid: str
    needs: dict[str, int]
    work: float  # seconds
    grows: bool
    ran: float  # when it ran last
    done: float = 0.0


class Node:
    """One node: its queue, what it knows of the others, and what it has stopped."""

    def __init__(self, world: World, name: str, skew: float) -> None:
        self.world, self.name, self.skew = world, name, skew
        self.incarnation = 0
        self.cut = self.down = False
        self.here: dict[str, int] = {}
        self.begin()

    def begin(self) -> None:
        """The agent starts: it remembers nothing."""
        self.queue, self.known = Queue(self.name), Facts()
        self.incarnation += 1
        self.told: NodeFacts | None = None
        self.stopped: set[str] = set()

    @property
    def wall(self) -> float:
        return EPOCH + self.world.now + self.skew

    def runs(self, jid: str) -> bool:
        return jid not in self.stopped

    def look(self) -> None:
        if not self.down:
            self.settle(self.queue.look(self.wall, self.here, ROOM, TURN_S))

    def settle(self, stops: list[tuple[str, str]]) -> None:
        self.stopped = {jid for jid, _ in stops}
        due = self.queue.due(self.wall)
        if due is not None:
            self.world.later(max(0.001, due - self.wall), self.decide)
        self.tell()

    def decide(self) -> None:
        if not self.down:
            self.settle(self.queue.decide(self.wall))

    def tell(self, again: bool = False) -> None:
        """To the store, if there is news or it is time."""
        facts = self.queue.facts()
        if facts == self.told and not again:
            return
        self.told = facts
        if not self.cut and self.world.broker:
            self.world.later(self.world.delay(), partial(self.world.put, self, facts))

    def repeat(self) -> None:
        if not self.down:
            self.tell(again=True)
            if self.known.expire(self.world.now):
                self.queue.hear(self.known.now)
                self.decide()
        self.world.later(LEASE / 3, self.repeat)

    def hear(self, sender: str, record: bytes) -> None:
        if not self.down and not self.cut and self.known.put(sender, record, self.world.now, self.wall):
            self.queue.hear(self.known.now)
            self.decide()

    def arrived(self, numbers: dict[str, int]) -> None:
        if not self.down and not self.cut:
            self.queue.arrived(numbers)
            self.decide()


@dataclass
class World:
    """The nodes, the store, the time."""

    seed: int
    failures: bool
    now: float = 0.0
    broker: bool = True
    revision: int = 0
    jobs: dict[str, Job] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    differ: dict[str, float] = field(default_factory=dict)  # since when a job's nodes differ
    worst: float = 0.0
    longest: float = 0.0  # that a job waited, seconds

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()
        skew = 5.0 if self.failures else 0.0
        names = [f"n{i}" for i in range(self.draw.randrange(2, 5))]
        self.nodes = {name: Node(self, name, self.draw.uniform(-skew, skew)) for name in names}
        for node in self.nodes.values():
            self.later(self.draw.random(), partial(self.every_second, node))
            self.later(self.draw.random() * LEASE / 3, node.repeat)

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + max(0.0, seconds), next(self._number), what))

    def delay(self) -> float:
        return self.draw.uniform(0.001, 0.02)

    def every_second(self, node: Node) -> None:
        node.look()
        self.later(1.0, partial(self.every_second, node))

    def put(self, node: Node, facts: NodeFacts) -> None:
        """The store takes a record, numbers it, and sends it to all."""
        if not self.broker or node.cut or node.down or facts != node.told:
            return
        self.revision += 1
        record, numbers = encode_facts(facts, node.name, node.incarnation, node.wall), arrivals(facts, self.revision)
        if numbers:
            self.later(self.delay(), partial(node.arrived, numbers))
        for other in self.nodes.values():
            if other is not node:
                self.later(self.delay(), partial(other.hear, node.name, record))

    def come(self, number: int) -> None:
        """A job of one to all nodes."""
        nodes = self.draw.sample(sorted(self.nodes), self.draw.randrange(1, len(self.nodes) + 1))
        needs = {node: self.draw.randrange(5, 120) for node in nodes}
        job = Job(f"j{number}", needs, self.draw.choice((5, 20, 60, 240)), self.draw.random() < 0.5, self.now)
        self.jobs[job.jid] = job
        for name, need in needs.items():
            self.nodes[name].here[job.jid] = 1 if job.grows else need
            self.nodes[name].look()

    def fail(self) -> None:
        """Something breaks, or is mended."""
        node = self.draw.choice(list(self.nodes.values()))
        kind = self.draw.randrange(4)
        if kind == 0:
            node.cut = not node.cut
        elif kind == 1:
            self.broker = not self.broker
        elif node.down:
            node.down = False
            node.begin()
        elif kind == 2:
            node.down = True  # nothing is stopped then: the supervisor lets all go on
            node.stopped.clear()

    def mend(self) -> None:
        self.broker = True
        for node in self.nodes.values():
            node.cut = False
            if node.down:
                node.down = False
                node.begin()

    def run(self, until: float, step: float = 0.05) -> None:
        """Let time pass; jobs compute while they run on all their nodes."""
        while self.now < until:
            target = self.now + step
            while self._events and self._events[0][0] <= target:
                self.now, _, what = heapq.heappop(self._events)
                what()
                self.compare()
            self.now = target
            self.compute(step)

    def compute(self, step: float) -> None:
        for job in list(self.jobs.values()):
            if all(self.nodes[name].runs(job.jid) for name in job.needs):
                job.done += step
                job.ran = self.now
                for name, need in job.needs.items():
                    here = self.nodes[name].here
                    here[job.jid] = min(need, here[job.jid] + round(step * 40))
            self.longest = max(self.longest, self.now - job.ran)
            if job.done >= job.work:
                del self.jobs[job.jid]
                self.ended.add(job.jid)
                self.differ.pop(job.jid, None)
                for name in job.needs:
                    del self.nodes[name].here[job.jid]
                    self.nodes[name].stopped.discard(job.jid)
                    self.nodes[name].look()

    def compare(self) -> None:
        """Since when do nodes differ? And does what runs on a node fit, by what it knew when it looked last?"""
        for job in self.jobs.values():
            if len({self.nodes[name].runs(job.jid) for name in job.needs}) > 1:
                self.worst = max(self.worst, self.now - self.differ.setdefault(job.jid, self.now))
            else:
                self.differ.pop(job.jid, None)
        for node in self.nodes.values():
            if not node.down:
                facts = {fact.jid: fact.need for fact in node.queue.facts().jobs}
                running = [facts.get(jid, 0) for jid in node.here if node.runs(jid)]
                assert len(running) <= 1 or sum(running) <= ROOM, (self.seed, node.name, running)


@pytest.mark.parametrize("failures", [False, True])
def test_equal_facts_give_equal_verdicts(failures: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(RUNS):
        world = World(seed, failures)
        monkeypatch.setattr("ctl.jobs.fit.PASSES", world.draw.choice((1, 15)))
        count = world.draw.randrange(2, 8)
        for number in range(count):
            world.later(world.draw.uniform(0, 60), partial(world.come, number))
        if failures:
            for _ in range(world.draw.randrange(1, 6)):
                world.later(world.draw.uniform(0, 60), world.fail)
        world.run(60)
        world.mend()
        deadline = world.now + 3 * LEASE + 3 * sum(job.work + 2 * TURN_S for job in world.jobs.values())
        while world.jobs and world.now < deadline:
            world.run(world.now + 10)
        assert not world.jobs, (seed, world.jobs, [node.queue.rows(node.wall) for node in world.nodes.values()])
        if not failures:
            assert world.worst <= DIFFER_S, (seed, world.worst)
            assert world.longest <= 2 * TURN_S * count, (seed, world.longest)
