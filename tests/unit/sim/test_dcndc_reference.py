# SPDX-License-Identifier: GPL-2.0-or-later
"""Model dcndc against Monito's node in plain Python: Algorithms 1 and 2 with tests/reference deciding, task by task."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ctl import policy
from ctl.sim.dcndc.model import MODEL
from ctl.sim.dcndc.simulation import Simulation, Task
from ctl.sim.native import CHECKED
from tests.reference.insert_rq import CAUSES, Decision, Env, apply, insert_RQ
from tests.reference.insert_rq import Task as Queued

NEVER = 2**63


class Node:
    """One CPU; its tasks are numbers into lists. Nothing of it is fast."""

    def __init__(self, name: str, values: dict[str, Any], tasks: list[Task]) -> None:
        self.rule, self.tasks = policy.find_policy(name).rule, tasks
        self.wait = values["receive"] == "wait" or name == "implicit"
        self.wakes_on_top = values["wake"] == "top" or name != "implicit"
        self.head = values["displaced"] == "head"
        self.slice = round(values["slice"] * values["mst"] * 10**9)
        self.spin = round(values["spin"] * 10**9) if name == "implicit" else 0
        self.share, self.mno = round(values["share"] * 10**9), values["mno"]
        n = len(tasks)
        self.now, self.running, self.queue = 0, -1, list[int]()
        self.cpu, self.done, self.polled, self.left = [0] * n, [0] * n, [0] * n, [self.slice] * n
        self.mbq, self.read, self.de = [0] * n, [0] * n, [0] * n
        self.waits, self.flag, self.ended = [False] * n, [False] * n, [0] * n
        self.come = [False] * n
        self.taken = [0, 0]
        self.seen = [0, 0]
        self.fresh: dict[int, int] = {}
        self.messages = sorted((t.arrives + at, i, k) for i, t in enumerate(tasks) for k, at in enumerate(t.offsets))

    def _view(self, i: int) -> Queued:
        return Queued(
            i, self.tasks[i].parallel, de=self.de[i], rec=self.mbq[i], cpu_ns=self.cpu[i], waiting=self.flag[i]
        )

    def _place(self, i: int, cause: str, start: int) -> bool:
        """insert_RQ as the reference has it, and what Algorithm 1 does with whom it displaces."""
        env = Env(self.rule, cause, mnol=self.mno, mnod=self.mno, share_ns=self.share, walk_max=10**6)
        queue = [self._view(q) for q in self.queue]
        running = self._view(self.running) if self.running >= 0 else None
        said = insert_RQ(queue, self._view(i), running, env, start=start)
        if not self.wakes_on_top:  # who waited for a message is led to no other place than it has
            said = Decision(start, (), preempt=False, charged_running=False, bounded=False)
        after = apply(queue, self._view(i), said)
        self.queue = [q.tid for q in after]
        for q in after:
            self.de[q.tid] = q.de
        if said.preempt:
            e, self.running = self.running, -1
            if self.head:
                self.de[e] += said.charged_running
                self.flag[e] = self.waits[e]
                self.queue.insert(1, e)
            else:
                self._to_bottom(e)
        return said.preempt

    def _to_bottom(self, i: int) -> None:
        self.left[i], self.flag[i], self.de[i] = self.slice, self.waits[i], 0
        self._place(i, "expire", len(self.queue))

    def _receive(self, i: int) -> None:
        self.mbq[i] -= 1
        self.read[i] += 1
        self.waits[i] = self.flag[i] = False

    def _dispatch(self) -> None:
        self.running = -1
        if not self.queue:
            return
        i = self.running = self.queue[0]
        self.seen[0] += sum(self.mbq[q] > 0 for q in self.queue)
        self.taken[0] += self.mbq[i] > 0
        self.taken[1] += self.fresh.get(i, 0)
        self.fresh = {}
        del self.queue[0]
        if not self.wait:
            self.mbq[i] = 0
        elif self.waits[i] and self.mbq[i]:
            self._receive(i)

    def _next_of_cpu(self) -> tuple[int, str]:
        i = self.running
        if i < 0:
            return NEVER, ""
        if self.waits[i]:
            events = [(self.spin - self.polled[i], 0, "block"), (self.left[i], 1, "expire")]
        else:
            task = self.tasks[i]
            events = [(task.service - self.done[i], 1, "end"), (self.left[i], 2, "expire")]
            if self.wait and self.read[i] < len(task.points):
                events.append((task.points[self.read[i]] - self.done[i], 0, "receive"))
        due, _, what = min(events)
        return self.now + due, what

    def _on_message(self, i: int) -> None:
        if self.ended[i]:
            return
        self.mbq[i] += 1
        if i == self.running:
            if not self.wait:
                self.mbq[i] = 0
            elif self.waits[i]:
                self._receive(i)
            return
        self.seen[1] += 1
        self.fresh[i] = self.fresh.get(i, 0) + 1
        waited, self.flag[i] = self.flag[i], False
        if i not in self.queue:
            self.de[i] = 0
            preempts = self._place(i, "wake", len(self.queue))
        elif self.rule == "fifo" or (self.rule == "implicit" and not waited):
            return
        else:
            start = self.queue.index(i)
            del self.queue[start]
            preempts = self._place(i, "message", start)
        if preempts or self.running < 0:
            self._dispatch()

    def _on_cpu(self, what: str) -> None:
        i = self.running
        if what == "receive" and self.mbq[i]:
            self._receive(i)
        elif what == "receive" and self.spin:
            self.waits[i], self.polled[i] = True, 0
        elif what in ("receive", "block"):
            self.waits[i], self.left[i] = True, self.slice
            self._dispatch()
        else:
            self.running = -1
            if what == "end":
                self.ended[i] = self.now
            else:
                self._to_bottom(i)
            self._dispatch()

    def run(self) -> None:
        """To the last task's end. At equal times an arrival, then a message, then the CPU."""
        arrivals = list(range(len(self.tasks)))
        while not all(self.ended):
            arrival = self.tasks[arrivals[0]].arrives if arrivals else NEVER
            message = self.messages[0][0] if self.messages else NEVER
            cpu, what = self._next_of_cpu()
            at = min(arrival, message, cpu)
            if (i := self.running) >= 0:
                ran = at - self.now
                self.cpu[i] += ran
                self.left[i] -= ran
                times = self.polled if self.waits[i] else self.done
                times[i] += ran
            self.now = at
            if at == arrival:
                i = arrivals.pop(0)
                self.come[i] = True
                self._place(i, "fork", len(self.queue))
                if self.running < 0:
                    self._dispatch()
            elif at == message:
                self._on_message(self.messages.pop(0)[1])
            else:
                self._on_cpu(what)


def _tasks(choose: random.Random, n: int) -> list[Task]:
    """Whole tens of ns, so that events often fall on the same time."""
    tasks, at = [], 0
    for _ in range(n):
        at += choose.randint(0, 12) * 10
        service = choose.randint(1, 20) * 10
        k = choose.choice((0, 0, 1, 2, 5))
        offsets = tuple(choose.randint(0, 40) * 10 for _ in range(k))
        points = tuple(sorted(choose.randrange(0, service, 5) for _ in range(k)))
        tasks.append(Task(at, service, k > 0, offsets, points))
    return tasks


@pytest.mark.parametrize("name", MODEL.policies)
@pytest.mark.parametrize("seed", range(40))
def test_every_end_and_every_opportunity_is_the_references(name: str, seed: int) -> None:
    choose = random.Random(seed)
    values: dict[str, Any] = MODEL.complete({
        "mst": 0.001, "slice": 40e-6, "spin": choose.choice((0, 2e-8, 1e-7)), "share": choose.choice((0, 2e-8)),
        "mno": choose.choice((0, 1, 2, 5)), "receive": choose.choice(("wait", "wait", "async")),
        "wake": choose.choice(("top", "bottom")), "displaced": choose.choice(("bottom", "head")),
    })  # fmt: skip
    tasks = sorted(_tasks(choose, 40))
    node = Node(name, values, tasks)
    assert node.slice == 40
    node.run()
    with Simulation(name, values, 1, tasks, kind=CHECKED) as simulation:
        assert simulation.advance()
        assert [r.ended for r in simulation.records()] == node.ended, values
        s = simulation.stats()
        assert [s.at_dispatch, s.at_arrival] == node.seen
        assert [s.taken_at_dispatch, s.taken_at_arrival] == node.taken
        if name != "rr":
            assert s.insertions > 0


def _queued(t: Any, tid: int) -> Queued:
    return Queued(tid, bool(t.flags & 1), de=t.de, rec=t.rec, cpu_ns=t.cpu_ns, waiting=bool(t.flags & 4))


@pytest.mark.parametrize("name", MODEL.policies)
def test_every_decision_is_the_references(name: str) -> None:
    rule, decided, overtook, preempted, from_within = policy.find_policy(name).rule, 0, 0, 0, 0
    given = {"nst": 10**8, "mit": 0.92, "pdt": 0.7, "mm": 16, "slice": 0.3, "spin": 0.2}
    with Simulation(name, MODEL.complete(given), 11, kind=CHECKED) as simulation:
        while decided < 6000:
            assert not simulation.advance(events=2000)
            log, n = simulation.decisions()
            for d in log[0:n]:
                queue = [_queued(d.queue[i], i) for i in range(d.nr)]
                running = _queued(d.running, -1) if d.has_running else None
                env = Env(rule, CAUSES[d.env.cause], mnol=2, mnod=2, share_ns=d.env.share_ns, walk_max=1000)
                said = insert_RQ(queue, _queued(d.h, 99), running, env, start=d.start)
                overtaken = () if said.position == 0 and not said.overtaken else range(d.start - 1, d.position - 1, -1)
                did = (d.position, tuple(overtaken), bool(d.preempt), bool(d.charged_running))
                assert did == (said.position, said.overtaken, said.preempt, said.charged_running), (queue, env)
                overtook += d.passed > 0
                preempted += d.preempt
                from_within += CAUSES[d.env.cause] == "message" and d.passed > 0
            decided += n
    assert (overtook > 0) == (preempted > 0) == (name != "rr")
    assert (from_within > 0) == (name in ("sdca", "dynamic", "implicit"))
