# SPDX-License-Identifier: GPL-2.0-or-later
"""Who leaves the ready queue in a window of gangs (docs/design.md, Gangs), in plain Python.

>>> hog, rank = Task(1), Task(2, parallel=True)
>>> first_of([hog, rank], True, Env("csm", "window")), first_of([hog, rank], False, Env("csm", "window"))
((1, (0,)), (0, ()))
"""

from __future__ import annotations

from collections.abc import Sequence

from .insert_rq import Env, Task

__all__ = ["LOOKS", "first_of", "goes_first"]

LOOKS = 16  # tasks of a queue that are asked


def goes_first(q: Task, jobs_window: bool, env: Env) -> bool:
    """A task whose window it is and that waits for no message; a local one on credit; one that was passed MNO times."""
    own = jobs_window and not q.waiting if q.parallel else not jobs_window or q.credit
    return own or (q.de >= (env.mnod if q.parallel else env.mnol) and not q.passed)


def first_of(queue: Sequence[Task], jobs_window: bool, env: Env) -> tuple[int, tuple[int, ...]]:
    """The index of the task that leaves, -1 if none goes first; and the indexes of those that are charged: they are
    ahead of it, and were not charged in this window yet."""
    for place, q in enumerate(queue[:LOOKS]):
        if goes_first(q, jobs_window, env):
            return place, tuple(j for j in range(place) if not queue[j].passed)
    return -1, ()
