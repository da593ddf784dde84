# SPDX-License-Identifier: GPL-2.0-or-later
"""A CPU with a ready queue, driven by the reference: insertions, dispatches, waiting times."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .insert_rq import Decision, Env, Task, apply, insert_RQ
from .window import Window, first_of

__all__ = ["Decider", "ReadyQueue"]

Decider = Callable[[Sequence[Task], Task, Task | None, Env, int], Decision]
"""insert_RQ in one build or another: queue, task, running, env, start."""


def _reference(queue: Sequence[Task], task: Task, running: Task | None, env: Env, start: int) -> Decision:
    return insert_RQ(queue, task, running, env, start=start)


class ReadyQueue:
    """One CPU: the running task and the queue behind it."""

    def __init__(self, decide: Decider = _reference) -> None:
        self.running: Task | None = None
        self.queue: list[Task] = []
        self.insertions = 0
        self.looks = 0  # tasks asked whether they may be overtaken
        self.overtakes = 0
        self._decide = decide

    def insert(self, task: Task, env: Env) -> Decision:
        """A fresh arrival: de starts at 0 (B-CSM-12)."""
        return self._place(task._replace(de=0), env, len(self.queue))

    def message(self, index: int, env: Env, task: Task) -> Decision:
        """A message arrives for queue[index], which is `task` from now on: it keeps its class and de, and may rise."""
        old = self.queue.pop(index)
        return self._place(task._replace(de=old.de, parallel=old.parallel), env._replace(cause="message"), index)

    def _place(self, task: Task, env: Env, start: int) -> Decision:
        decision = self._decide(self.queue, task, self.running, env, start)
        self.queue = apply(self.queue, task, decision)
        self.insertions += 1
        passed = len(decision.overtaken) + decision.charged_running
        self.overtakes += passed
        self.looks += passed + 1  # and at most one that stopped it
        if decision.preempt:
            self._displace(decision, env)
        return decision

    def _displace(self, decision: Decision, env: Env) -> None:
        """The displaced one goes behind h with its de (B-CSM-4), in SDCA to the bottom (B-MO-3); the head runs.

        That is h, but for one that came on credit behind others on credit.
        """
        assert self.running is not None
        displaced = self.running._replace(de=self.running.de + decision.charged_running)
        if env.rule == "sdca" and env.cause != "credit":
            self.queue.append(displaced._replace(de=0))
        else:
            self.queue.insert(decision.position + 1, displaced)
        self.running = self.queue.pop(0)

    def window(self, window: Window, env: Env) -> tuple[int, tuple[int, ...]]:
        """The running task leaves for good, and the first of the queue that goes first runs: where it was, who was
        charged; -1 if none goes first."""
        place, charged = first_of(self.queue, window, env)
        for j in charged:
            self.queue[j] = self.queue[j]._replace(de=self.queue[j].de + 1, passed=True)
        if place >= 0:
            self.running = self.queue.pop(place)
        self.overtakes += len(charged)
        return place, charged

    def turn(self) -> None:
        """The next window begins."""
        self.queue = [q._replace(passed=False) for q in self.queue]

    def dispatch(self) -> Task | None:
        """The running task leaves for good, the head of the queue runs. Returns the task that left."""
        left, self.running = self.running, self.queue.pop(0) if self.queue else None
        return left
