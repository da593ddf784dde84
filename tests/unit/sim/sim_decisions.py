# SPDX-License-Identifier: GPL-2.0-or-later
"""A decision logged by a simulator's engine, compared with the papers in plain Python."""

from __future__ import annotations

from typing import Any

from tests.reference.insert_rq import CAUSES, Decision, Env, Task, insert_RQ

__all__ = ["decided", "problem"]


def _task(t: Any, tid: int) -> Task:
    parallel, credit = bool(t.flags & 1), bool(t.flags & 2)
    return Task(tid, parallel=parallel, credit=credit, de=t.de, mes=t.mes, com=t.com, rec=t.rec, flt=t.flt)


def _situation(d: Any, rule: str) -> tuple[list[Task], Task, Task | None, Env]:
    queue = [_task(d.queue[i], i) for i in range(d.nr)]
    running = _task(d.running, -1) if d.has_running else None
    env = Env(rule, CAUSES[d.env.cause], bool(d.env.overloaded), d.env.mnol, d.env.mnod, walk_max=1000)
    return queue, _task(d.h, 99), running, env


def decided(d: Any, rule: str) -> Decision:
    """The reference's decision in the situation of a struct sim_decision."""
    return insert_RQ(*_situation(d, rule))


def problem(d: Any, rule: str) -> str | None:
    """The engine's differences from the reference in this struct sim_decision, if any."""
    queue, task, running, env = _situation(d, rule)
    said = insert_RQ(queue, task, running, env)
    # the reference names who is charged: nobody is by a task that goes to the top, or by sleeper credit
    charged = said.overtaken or not (said.position == 0 or env.cause == "credit")
    overtaken = tuple(range(d.nr - 1, d.position - 1, -1)) if charged else ()
    did = Decision(d.position, overtaken, bool(d.preempt), bool(d.charged_running), bounded=False)
    return None if did == said else f"{did} instead of {said} for {task} into {queue}, running {running}, {env}"
