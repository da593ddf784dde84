# SPDX-License-Identifier: GPL-2.0-or-later
"""Two to four nodes and their jobs in virtual time, with failures, and the properties that hold whatever happens.

A job begins as `ctl run` begins it: it asks on its first node, then a rank on each other node asks there, while the
first already holds memory. So two jobs may each hold a node that the other needs. Some jobs come as those of Slurm do,
on all their nodes at once, without asking. A job computes while it runs on all its nodes, and grows meanwhile.

`Broken` tells which property does not hold:
    no deadlock, none stopped for ever   once nothing fails any more, every job ends within so many turns
    no livelock                          no job is stopped and started more than a few times in a turn, and no second
                                         has more than some thousand steps (virtual_time.py)
    what runs together fits              on no node do jobs that do not fit run for longer than 3 s, which is 3 looks
    each node decides alone              a node that hears nobody runs at least one of its jobs after a lease
    nodes agree                          a job that runs on one of its nodes and not on another does so no longer than a
                                         lease; without failures, no longer than 0.1 s and the way of a message
    on hold                              without failures, a job on hold runs nowhere; released, it ends as all do
    who is stopped gives way             a job that its owner has stopped is not alone in memory for longer than a few
                                         seconds while another one waits that has begun on the same nodes or on fewer
    nothing is left                      after an agent was killed, stopped or unloaded nothing is frozen or limited
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ctl.cluster.events import LEASE
from ctl.contract import Wish
from ctl.errors import CoschedError
from tests.unit.together.carrier import Broker
from tests.unit.together.holds import Holds
from tests.unit.together.node import MIB, TOTAL, Node, stand_ins
from tests.unit.together.virtual_time import Loop

__all__ = ["Broken", "World", "failing"]

_TICK: Final = 0.1  # seconds
_GROWTH: Final = 100 * MIB  # bytes a second
_LOOK: Final = 1.0  # seconds between two looks of an agent
_SLACK: Final = 3 * _LOOK  # seconds: a look here, a message late, a look there
_DIFFER: Final = 0.35  # seconds, without failures: a stop is carried out within 0.1 s, and is on its way for a moment
_ASK: Final = 0.5  # seconds between two questions of `ctl run`
_BEFORE: Final = 60.0  # seconds in which jobs come and things fail
_SETTLED: Final = 2 * LEASE  # seconds after the last failure, until all is forgotten


class Broken(AssertionError):
    """A property does not hold."""


@dataclass
class Job:
    """A job and its life."""

    jid: str
    needs: dict[str, int]  # bytes, by node; on the first, `ctl run` was called
    work: float  # seconds
    declared: bool
    asks: bool
    grows: bool
    here: list[str] = field(default_factory=list)  # nodes with its processes
    done: float = 0.0
    lost: bool = False  # a node of its was lost
    ran: float = 0.0  # when it last ran wherever it is, or was on hold
    on_hold: float | None = None  # since when

    def claim(self, node: Node, size: int) -> int:
        """What it is counted with on a node, where it has so many bytes."""
        return max(size, node.kernel.declared(self.jid))


class World:
    """The whole of a run, by its seed."""

    def __init__(self, seed: int, failures: bool) -> None:
        self.seed, self.failures = seed, failures
        self.draw = random.Random(seed)
        random.seed(seed)
        self.loop = Loop()  # type: ignore[abstract]  # agents use no more of it
        self.broker = Broker(self.loop, self.draw, loss=self.draw.choice((0, 0.01)) if failures else 0.0)
        skew = self.draw.choice((0.0, 0.1, 5.0)) if failures else 0.0
        self.turn_s = self.draw.choice((0, 4, 10))
        names = [f"n{i}" for i in range(self.draw.randrange(2, 5))]
        knobs = {"turn_s": self.turn_s, "sensors": "off"}
        self.nodes = {name: Node(self.loop, self.broker, name, self.draw.uniform(-skew, skew), knobs) for name in names}
        self.jobs: dict[str, Job] = {}
        self.quiet_since = 0.0  # when something last failed, or was mended
        self.said: list[str] = []  # what happened, for people
        self._wrong: dict[tuple[str, str], float] = {}  # what is wrong, and since when
        self._turn = float(self.turn_s)  # the longest so far: turns grow with the exchange of memory
        self._changes, self._count = 0, self.draw.randrange(3, 10)  # jobs
        self.ending = self.over = False
        for node in self.nodes.values():
            self.later(self.draw.uniform(0, 2), node.load)
        self.later(_TICK, self._tick)
        self.later(_LOOK, self._look_at_turns)

    def later(self, seconds: float, what: Callable[..., object], *args: object) -> None:
        self.loop.call_later(seconds, what, *args)

    def say(self, text: str) -> None:
        self.said.append(f"{self.loop.now:7.2f} {text}")

    # a run

    def run(self) -> None:
        """All of it. Raises Broken, Livelock, or what an agent raised."""
        for number in range(self._count):
            self.later(self.draw.uniform(2, _BEFORE * 0.8), self._come, number)
        if self.failures:
            for _ in range(self.draw.randrange(1, 7)):
                self.later(self.draw.uniform(3, _BEFORE), self._fail)
        self._holds = Holds(self, _BEFORE)
        for _ in range(self.draw.choice((0, 0, 1, 3))):
            self.later(self.draw.uniform(3, _BEFORE), self._suspend)
        self.loop.run_until(_BEFORE)
        self._mend()
        if self.draw.random() < 0.3:
            self.loop.run_until(self.loop.now + self.draw.uniform(0, LEASE))
        else:
            self._await_ends()
        self._unload()

    def _await_ends(self) -> None:
        began, jobs = self.loop.now, list(self.jobs.values())
        turn = max(self._turn, LEASE)
        deadline = began + 3 * LEASE + 3 * sum(job.work + 2 * turn + 5 for job in jobs)
        self.loop.run_until(began + _SETTLED)
        settled, changes = self.loop.now, self._all_changes()
        while self.jobs and self.loop.now < deadline:
            self.loop.run_until(self.loop.now + 5)
        if self.jobs:
            rows = {name: node.contract and node.contract.fitting.report() for name, node in self.nodes.items()}
            raise Broken(f"stopped for ever: {list(self.jobs.values())} {rows}")
        turns = (self.loop.now - settled) / self.turn_s if self.turn_s else 0
        most = 4 * (turns + 2 + len(jobs)) * sum(len(job.needs) for job in jobs)
        if self._all_changes() - changes > most:
            raise Broken(f"{self._all_changes() - changes} stops and starts in {turns:.0f} turns, at most {most:.0f}")

    def _all_changes(self) -> int:
        held = [held for node in self.nodes.values() for held in node.kernel.held.values()]
        return self._changes + sum(one.changes for one in held)

    def _unload(self) -> None:
        """The end: each agent is unloaded, killed or stopped, one after the other."""
        self.ending = True
        for node in self.nodes.values():
            how = self.draw.choice((node.unload, node.unload, node.kill, node.stop))
            how()
            self.loop.run_until(self.loop.now + self.draw.choice((0.0, 0.05, 5.0)) + 0.4)
            self._nothing_left(node)

    def end(self) -> None:
        """Nothing of the run stays."""
        self.over = True
        self.jobs.clear()
        self.loop.end()

    # jobs

    def _come(self, number: int) -> None:
        nodes = self.draw.sample(sorted(self.nodes), self.draw.randrange(1, len(self.nodes) + 1))
        nodes = nodes[: self.draw.choice((2, 4))]
        needs = {node: self.draw.randrange(50, 900) * MIB for node in nodes}
        asks, declared, grows = self.draw.random() < 0.8, self.draw.random() < 0.7, self.draw.random() < 0.5
        job = Job(f"j{number}", needs, self.draw.choice((5, 20, 90)), declared, asks, grows)
        self.jobs[job.jid], job.ran = job, self.loop.now
        self.say(f"{job}")
        for name in nodes if not asks else nodes[:1]:
            self._ask(job, name, False)

    def _ask(self, job: Job, name: str, again: bool) -> None:
        """`ctl run` on one node, until the job may begin there."""
        if job.jid not in self.jobs or job.lost:
            return
        node = self.nodes[name]
        why: str | None = "" if not job.asks else None
        if job.asks:
            need = job.needs[name] if job.declared else 0
            try:
                why = node.ask(Wish(job.jid, "eve", need=need, again=again))
            except CoschedError as error:
                raise Broken(f"job {job.jid} is refused: {error}") from None
        if why != "":
            self.later(_ASK if why else 2.0, self._ask, job, name, bool(why))
            return
        job.here.append(name)
        declared = job.needs[name] if job.asks and job.declared else 0
        node.enter(job.jid, 1 * MIB if job.grows or job.asks else job.needs[name], declared)
        self.say(f"{job.jid} begins on {name}")
        if job.asks and len(job.here) == 1:
            for other in list(job.needs)[1:]:
                self.later(self.draw.uniform(0.1, 1.5), self._ask, job, other, False)

    def _suspend(self) -> None:
        """The owner of a job stops it, on all its nodes or on one, and continues it later."""
        begun = [job for job in self.jobs.values() if job.here]
        if begun:
            job = self.draw.choice(begun)
            names = self.draw.choice((job.here, job.here[:1]))
            self.say(f"{job.jid} is stopped by its owner on {names}")
            for node in [self.nodes[name] for name in names if name in self.nodes]:
                node.suspend(job.jid, True)
            self.later(self.draw.uniform(1, _BEFORE), self._continue, job)

    def _continue(self, job: Job) -> None:
        if job.jid in self.jobs:
            self.say(f"{job.jid} is continued by its owner")
            for node in [node for node in self._of(job) if job.jid in node.jobs]:
                node.suspend(job.jid, False)

    def _suspended(self, job: Job) -> bool:
        return any(node.suspends(job.jid) for node in self._of(job))

    def _over(self, job: Job, why: str) -> None:
        """A job has ended, or is aborted."""
        if self.jobs.pop(job.jid, None) is not None:
            self.say(f"{job.jid} {why}")
            for node in [self.nodes[name] for name in job.here if name in self.nodes]:
                self._changes += node.kernel.held[job.jid].changes
                node.leave(job.jid)

    # failures

    def _fail(self) -> None:
        """Something breaks, or is mended."""
        node = self.draw.choice(list(self.nodes.values()))
        kinds = (
            *(self._kill, self._stop, self._lose, self._cut, self._broker, self._store, self._clock, self._local),
            *(self._interrupt, self._reload),
        )
        kind = self.draw.choice(kinds)
        self.quiet_since = node.troubled = self.loop.now
        self.say(f"{kind.__name__} {node.name}")
        kind(node)

    def _kill(self, node: Node) -> None:
        """The agent is killed; somebody loads it again."""
        node.kill()
        self._nothing_left(node)
        self.later(self.draw.uniform(0.5, 15), self._load, node)

    def _reload(self, node: Node) -> None:
        """The agent is unloaded; somebody loads it again."""
        node.unload()
        self.later(0.1, self._after_unload, node)
        self.later(self.draw.uniform(3, 15), self._load, node)

    def _after_unload(self, node: Node) -> None:
        if node.contract is None:
            self._nothing_left(node)

    def _load(self, node: Node) -> None:
        self._touch(node)
        if node.process is None and not self.ending:
            node.load()

    def _stop(self, node: Node) -> None:
        """The agent is stopped for a while; the broker may have given it up meanwhile."""
        node.stop()
        self._nothing_left(node)
        seconds = self.draw.choice((0.5, 3, 2 * LEASE))
        if seconds > LEASE:
            for connection in self.broker.of(node.name):
                self.later(LEASE, connection.end, 0.0)
        self.later(seconds, self._go_on, node)

    def _go_on(self, node: Node) -> None:
        self._touch(node)
        if not self.ending:
            node.go_on()

    def _lose(self, node: Node) -> None:
        """The machine is lost with its jobs' ranks; their launchers abort the rest, and the machine comes back."""
        node.kill()
        for job in [job for job in self.jobs.values() if node.name in job.needs]:
            job.lost = True
            if node.name in job.here:
                node.leave(job.jid)
                job.here.remove(node.name)
            self.later(self.draw.uniform(0.1, 20), self._over, job, "is aborted")
        if self.draw.random() < 0.5 and len(self.nodes) > 2:
            self.nodes.pop(node.name, None)  # for good
        else:
            self.later(self.draw.uniform(5, 30), self._load, node)

    def _cut(self, node: Node) -> None:
        """The network between a node and the broker."""
        if node.name in self.broker.cut:
            self.broker.cut.discard(node.name)
        else:
            self.broker.cut_off(node.name)
            self.later(self.draw.uniform(0.5, 30), self._join, node)

    def _join(self, node: Node) -> None:
        self._touch(node)
        self.broker.cut.discard(node.name)

    def _broker(self, _node: Node) -> None:
        """The broker."""
        if self.broker.up:
            self.broker.die(keep=self.draw.random() < 0.7)
            self.later(self.draw.uniform(0.5, 20), self._broker_back)

    def _broker_back(self) -> None:
        self._touch(*self.nodes.values())
        self.broker.up = True

    def _store(self, _node: Node) -> None:
        """The store has no leader for a while, or the network is slow."""
        if self.draw.random() < 0.5:
            self.broker.stores = False
        else:
            self.broker.slow = self.draw.choice((0.2, 1.0))
        self.later(self.draw.uniform(1, 15), self._store_back)

    def _store_back(self) -> None:
        self._touch(*self.nodes.values())
        self.broker.stores, self.broker.slow = True, 0.02

    def _clock(self, node: Node) -> None:
        """A node's clock is set."""
        node.skew = self.draw.uniform(-1, 1) * self.draw.choice((0, 5, 40, 4000))

    def _local(self, node: Node) -> None:
        """Local tasks take memory, or give it back."""
        node.kernel.local = self.draw.choice((100, 200, 500, 800)) * MIB

    def _interrupt(self, _node: Node) -> None:
        """A user interrupts `ctl run`."""
        if self.jobs:
            self._over(self.draw.choice(list(self.jobs.values())), "is interrupted")

    def _touch(self, *nodes: Node) -> None:
        self.quiet_since = self.loop.now
        for node in nodes:
            node.troubled = self.loop.now

    def _mend(self) -> None:
        """From now on nothing fails, and all clocks are within 0.1 s."""
        self.say("mended")
        self.broker.up = self.broker.stores = True
        self.broker.slow, self.broker.loss = 0.02, 0.0
        self.broker.cut.clear()
        for node in self.nodes.values():
            node.kernel.local = 100 * MIB
            node.skew = min(max(node.skew, -0.1), 0.1)
            if node.contract is None:
                self.later(0.0 if node.process is None else LEASE, self._load, node)
            node.go_on()
        self._touch(*self.nodes.values())

    def _nothing_left(self, node: Node) -> None:
        if left := node.left + node.kernel.left():
            raise Broken(f"left on {node.name}: {left}")

    # time

    def _look_at_turns(self) -> None:
        if self.over:
            return
        self.later(_LOOK, self._look_at_turns)
        self._turn = max([self._turn, *(node.turn_s for node in self.nodes.values())])

    def _tick(self) -> None:
        if self.over:
            return
        self.later(_TICK, self._tick)
        for job in list(self.jobs.values()):
            suspended = self._suspended(job)
            everywhere = bool(job.here) and all(node.runs(job.jid) for node in self._of(job))
            if suspended or job.on_hold is not None or everywhere:
                job.ran = self.loop.now
            if everywhere and not suspended and len(job.here) == len(job.needs) and not job.lost:
                job.done += _TICK
                for name, need in job.needs.items():
                    held = self.nodes[name].kernel.held[job.jid]
                    held.size = min(need, held.size + int(_GROWTH * _TICK))
                if job.done >= job.work:
                    self._over(job, "ends")
        self._check()

    def _of(self, job: Job) -> list[Node]:
        """The nodes that a job is on."""
        return [self.nodes[name] for name in job.here if name in self.nodes]

    def _check(self) -> None:
        now, wrong = self.loop.now, {}
        for name, node in self.nodes.items():
            running = [jid for jid in node.kernel.held if node.runs(jid) and jid in self.jobs]
            sizes = [self.jobs[jid].claim(node, node.kernel.held[jid].size) for jid in running]
            if len(running) > 1 and sum(sizes) > TOTAL - node.kernel.local and node.works:
                since = max(self._wrong.get(("fits not", name), now), node.troubled)
                wrong["fits not", name] = since
                if now - since > _SLACK:
                    raise Broken(f"{running} do not fit on {name}: {sizes}")
            may = [jid for jid in node.kernel.held if not node.has_on_hold(jid)]
            alone = node.works and not self.broker.of(name) and bool(may)
            if alone and not any(node.runs(jid) for jid in node.kernel.held):
                since = max(self._wrong.get(("waits alone", name), now), node.troubled)
                wrong["waits alone", name] = since
                if now - since > LEASE + 2 * _SLACK:  # it notices, and the lease ends
                    raise Broken(f"{name} hears nobody, and runs nothing since {since:.2f}")
        if wrong_hold := self._holds.wrong(_DIFFER):
            raise Broken(wrong_hold)
        for job in self.jobs.values():
            if job.on_hold is None and not self._suspended(job) and self._waits_for_suspended(job):
                since = max(self._wrong.get(("gives no way", job.jid), now), self.quiet_since)
                wrong["gives no way", job.jid] = since
                if now - since > (LEASE if self.failures else 0) + 2 * _SLACK:
                    raise Broken(f"job {job.jid} waits since {since:.2f} for one that its owner has stopped")
            differ = len({node.runs(job.jid) for node in self._of(job)}) > 1
            if differ and all(node.hears for node in self.nodes.values()):
                since = max(self._wrong.get(("differ", job.jid), now), self.quiet_since)
                wrong["differ", job.jid] = since
                if now - since > (LEASE + _SLACK if self.failures else _DIFFER):
                    raise Broken(f"job {job.jid} runs on a part of its nodes since {since:.2f}")
            waited = now - max(job.ran, self.quiet_since + _SETTLED if self.failures else 0.0)
            if self.turn_s and waited > 2 * self._turn * self._count + _SLACK and not self.ending:
                raise Broken(f"job {job.jid} waits since {job.ran:.2f}")
        self._wrong = wrong

    def _waits_for_suspended(self, job: Job) -> bool:
        """Whether a job is stopped on each of its nodes, and only jobs that their owners have stopped are in memory
        there."""
        nodes = self._of(job)
        here = {jid for node in nodes for jid in node.kernel.held if node.runs(jid)}
        others = [self.jobs[jid] for jid in here if jid in self.jobs]
        working = all(node.hears for node in self.nodes.values())
        return working and bool(others) and job.jid not in here and all(map(self._suspended, others))


def failing(seed: int, failures: bool) -> str | None:
    """What is broken with this seed, and how it came about; None: nothing."""
    world = World(seed, failures)
    with stand_ins(world.loop):
        try:
            world.run()
        except Exception as error:
            return "\n".join([*world.said, f"seed {seed}: {type(error).__name__}: {error}"])
        finally:
            world.end()
    return None
