# SPDX-License-Identifier: GPL-2.0-or-later
"""Who leaves the ready queue in a window of gangs (docs/design.md, Gangs), in plain Python.

>>> hog, rank = Task(1), Task(2, parallel=True)
>>> first_of([hog, rank], Window(jobs=True), Env("csm", "window"))
(1, (0,))
>>> first_of([hog, rank], Window(jobs=False), Env("csm", "window"))
(0, ())
>>> turn = Task(3, parallel=True, turn=True)
>>> first_of([hog, rank, turn], Window(jobs=True, turns=True), Env("csm", "window"))
(2, (0, 1))
>>> first_of([rank, turn], Window(jobs=False, turns=True), Env("csm", "window"))
(1, (0,))
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from .insert_rq import Env, Task

__all__ = ["LOOKS", "Rank", "Window", "first_of", "rank"]

LOOKS = 16  # tasks of a queue that are asked


class Window(NamedTuple):
    """A window: of jobs or of local tasks, and whether one of several jobs has the turn (Task.turn: this task's)."""

    jobs: bool
    turns: bool = False


class Rank(IntEnum):
    """The highest goes first; the last goes nowhere ahead of others."""

    LAST = 0
    FILL = 1
    FIRST = 2


def rank(q: Task, window: Window, env: Env) -> Rank:
    """First is a task whose window and turn it is and that waits for no message; a local one on credit; one that was
    passed MNO times. Where jobs take turns, the others fill the jobs' window, and who has the turn that of local tasks.
    """
    if q.de >= (env.mnod if q.parallel else env.mnol) and not q.passed:
        return Rank.FIRST
    if not q.parallel:
        return Rank.LAST if window.jobs and not q.credit else Rank.FIRST
    if q.waiting:
        return Rank.LAST
    if not window.turns:
        return Rank.FIRST if window.jobs else Rank.LAST
    return Rank(window.jobs + q.turn)


def first_of(queue: Sequence[Task], window: Window, env: Env) -> tuple[int, tuple[int, ...]]:
    """The index of the task that leaves, the first of the highest rank, -1 if all are last; and the indexes of those
    that are charged: they are ahead of it, and were not charged in this window yet."""
    ranks = [rank(q, window, env) for q in queue[:LOOKS]]
    if not any(ranks):
        return -1, ()
    place = ranks.index(max(ranks))
    return place, tuple(j for j in range(place) if not queue[j].passed)
