# SPDX-License-Identifier: GPL-2.0-or-later
"""insert_RQ in plain Python, from the papers' pseudo code and the readings of docs/readings.md.

Sources: CSM Algorithm 1 (pred, dyn, csm, csm-bounded, csm-first), CCS Algorithm 1 (ccs), Monito §3 Algorithm 2 (sdca)
and §2.2, §5.2, §5.3 (implicit, prio, dynamic), policy fit (order). RQ[0] is the running task, `queue[j]` is RQ[j+1];
the bottom is the end of the list. Nothing is changed in place: a decision names its changes, and `apply` carries them
out.

>>> A, B = Task(1, mes=3), Task(2, mes=1)
>>> insert_RQ([A, B], Task(3, parallel=True, mes=2), None, Env("pred", "wake"))
Decision(position=1, overtaken=(1,), preempt=False, charged_running=False, bounded=False)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

__all__ = [
    "CAUSES",
    "MES_ONE",
    "RULES",
    "Decision",
    "Env",
    "Task",
    "apply",
    "compares_obs",
    "decided_by",
    "insert_RQ",
    "mes_update",
    "passes_nobody",
    "rises_on_expiry",
]

RULES = (
    *("fifo", "pred", "dyn", "sdca", "dynamic", "csm", "csm-bounded", "csm-first", "ccs", "prio", "implicit"),
    "order",
)
CAUSES = ("wake", "expire", "fork", "message", "credit")

MES_ONE = 1 << 10  # mes and P are whole numbers of 1/1024


class Task(NamedTuple):
    """The inputs of insert_RQ about a task, by the papers' names."""

    tid: int
    parallel: bool = False  # CCS: UID = PARAL; CSM: mes != 0 (B-CSM-7)
    credit: bool = False  # local, waits on sleeper credit (B-CCS-31)
    de: int = 0  # overtakes suffered since it reached RQ
    mes: int = 0  # CSM eq. 2, in 1/1024
    com: int = 0  # messages queued now, received and sent
    rec: int = 0  # messages queued now, received (Monito: MBQ)
    flt: int = 0  # page faults of the last second
    cpu_ns: int = 0  # CPU time used so far
    waiting: bool = False  # spins for a message that does not come: Monito §2.2 would have it block
    starved: bool = False  # prio, order: waits for so long that nobody may pass it (B-MO-14)
    place: int = 0  # order: of its job in the queue of jobs
    passed: bool = False  # in this window of gangs (window.py)
    turn: bool = False  # its job's


class Env(NamedTuple):
    """The other inputs of a decision."""

    rule: str
    cause: str
    overloaded: bool = False  # N_k.mem > M
    mnol: int = 2
    mnod: int = 2
    share_ns: int = 0  # Monito §5.3
    walk_max: int = 64  # tasks one insertion may pass
    top_denied: bool = False  # the bound on an endless run of tops bit: a top becomes a tail


class Decision(NamedTuple):
    """The place of the task, and the tasks that are charged. Indexes are those of the queue before the insertion."""

    position: int  # 0: ahead of all that is queued
    overtaken: tuple[int, ...]  # queue indexes whose de grew, in the order they were passed
    preempt: bool  # the running task is displaced
    charged_running: bool  # and its de grew
    bounded: bool  # walk_max or top_denied changed the outcome


def starv_cond(env: Env, q: Task) -> bool:
    """CSM Alg. 1 l.22-26. CCS and Monito have one maximum for all: mnol = mnod (B-CSM-10, B-MO-1)."""
    return q.de < (env.mnod if q.parallel else env.mnol)


def _more_mes(_env: Env, q: Task, h: Task) -> bool:
    return q.mes < h.mes  # CSM Alg. 1 l.19


def _more_received(_env: Env, q: Task, h: Task) -> bool:
    return h.rec > q.rec  # Monito §3: "has more pending messages in the Message Buffer Queue"


def _csm(env: Env, q: Task, h: Task) -> bool:
    return q.flt > h.flt if env.overloaded else q.mes < h.mes  # CSM Alg. 1 l.15-21


def _csm_bounded(env: Env, q: Task, h: Task) -> bool:
    """Dynamic mode rises like the others, held by STARV_COND only (B-CSM-5)."""
    dynamic_mode = env.overloaded and h.rec != 0
    return dynamic_mode or _csm(env, q, h)


def _csm_first(env: Env, q: Task, h: Task) -> bool:
    """Alg. 1 with l.17 before l.5: under overload, fewer faults lead up; among equals, more received messages."""
    if not env.overloaded:
        return q.mes < h.mes
    return (h.flt, -h.rec) < (q.flt, -q.rec)  # B-CSM-6


def _ccs(env: Env, q: Task, h: Task) -> bool:
    return q.flt > h.flt if env.overloaded else q.com < h.com  # CCS Alg. 1


def _rank(t: Task) -> int:
    """The order when distributed tasks always have the highest priority (Monito §5.2).

    First ready tasks of jobs, then local tasks on credit, then the others; a waiting task would block.
    """
    if t.parallel and not t.waiting:
        return 2
    return 1 if t.credit and not t.parallel else 0


def _place(t: Task) -> float:
    """The place of a task's job in the queue of jobs, the first 0; a waiting task would block."""
    return float("inf") if t.waiting else t.place


_SCHED_COND: dict[str, Callable[[Env, Task, Task], bool]] = {
    "pred": _more_mes,
    "sdca": _more_received,
    "csm": _csm,
    "csm-bounded": _csm_bounded,
    "csm-first": _csm_first,
    "ccs": _ccs,
}


def _may_overtake(env: Env, q: Task, h: Task) -> bool:
    if env.rule == "prio":  # no MNO: only time ends it
        return _rank(q) < _rank(h) and not q.starved
    if env.rule == "order":  # nor here; and nobody passes a local task
        return q.parallel and not q.starved and _place(h) < _place(q)
    return starv_cond(env, q) and _SCHED_COND[env.rule](env, q, h)


def _received(env: Env, h: Task) -> bool:
    """Is this insertion the receipt of a message, in Monito's sense? A message counts until it is read."""
    return env.cause in ("wake", "message") and h.rec != 0


def _goes_on_top(env: Env, h: Task, running: Task | None) -> bool:
    """Is h led to RQ[0] without looking at anybody's de?"""
    if env.rule == "dyn":
        return h.rec != 0  # CSM §5.1: Alg. 1 l.5 without the memory constraint
    if env.rule == "csm":
        return h.rec != 0 and env.overloaded  # CSM Alg. 1 l.5
    if env.rule == "implicit":  # Monito §2.2: the message wakes whoever blocked for it
        return _received(env, h)
    if env.rule == "dynamic":  # Monito §5.3, e being the task in execution
        return _received(env, h) and running is not None and h.cpu_ns + env.share_ns < running.cpu_ns
    return False


def _walks(env: Env, h: Task) -> bool:
    """Whether h, if not led to the top, looks at the tasks ahead."""
    if env.rule == "sdca":
        return _received(env, h)  # all else: "insert_RQ_bottom" (Alg. 2 l.3, Alg. 1 l.6)
    return env.rule in ("pred", "csm", "csm-bounded", "csm-first", "ccs", "prio", "order")


def insert_RQ(
    queue: Sequence[Task], task: Task, running: Task | None, env: Env, *, start: int | None = None
) -> Decision:
    """Decide where a task goes that reached the ready queue.

    queue: the others, head first. running: RQ[0], None if the CPU runs nothing of ours: then nothing can be
    displaced. start: for the cause "message", how many are ahead of the task: it rises from there or stays.
    """
    if env.cause == "credit":
        if env.rule == "prio":
            return _walk(queue, task, running, env)
        return _insert_on_credit(queue, running)
    if start is None:
        start = len(queue)
    stay = Decision(start, (), preempt=False, charged_running=False, bounded=False)
    if not task.parallel or task.waiting:
        return stay  # CSM Alg. 1 l.4, B-CCS-1
    if _goes_on_top(env, task, running):
        if env.top_denied:
            return stay._replace(bounded=True)
        return Decision(0, (), preempt=running is not None, charged_running=False, bounded=False)
    if _walks(env, task):
        return _walk(queue[:start], task, running, env)
    return stay


def _insert_on_credit(queue: Sequence[Task], running: Task | None) -> Decision:
    """A local task that slept more than it ran goes behind its like, ahead of all others; no task is charged."""
    like = [j for j, q in enumerate(queue) if q.credit]
    displaces = running is not None and not running.credit
    return Decision(like[-1] + 1 if like else 0, (), displaces, charged_running=False, bounded=False)


def _walk(ahead: Sequence[Task], h: Task, running: Task | None, env: Env) -> Decision:
    """CSM Alg. 1 l.7-12, behind the task that stops the walk (B-CSM-2); RQ[0] is last (B-CSM-3, B-CCS-3)."""
    charges = env.rule not in ("prio", "order")  # de is no bound there
    for j in range(len(ahead) - 1, -1, -1):
        passed = range(len(ahead) - 1, j, -1)
        overtaken = tuple(passed) if charges else ()
        if not _may_overtake(env, ahead[j], h):
            return Decision(j + 1, overtaken, preempt=False, charged_running=False, bounded=False)
        if len(passed) == env.walk_max:
            return Decision(j + 1, overtaken, preempt=False, charged_running=False, bounded=True)
    passes = running is not None and _may_overtake(env, running, h)
    overtaken = tuple(range(len(ahead) - 1, -1, -1)) if charges else ()
    return Decision(0, overtaken, preempt=passes, charged_running=passes and charges, bounded=False)


def apply(queue: Sequence[Task], task: Task, decision: Decision) -> list[Task]:
    """The ready queue after the insertion, the running task apart."""
    after = [q._replace(de=q.de + 1) if j in decision.overtaken else q for j, q in enumerate(queue)]
    after.insert(decision.position, task)
    return after


def decided_by(env: Env, h: Task) -> str | None:
    """The mode that decided about a parallel task (CSM §4.2): predictive, dynamic or csm; None: the rule has none."""
    if env.rule in ("fifo", "prio", "order"):
        return None
    if env.rule in ("dyn", "sdca", "dynamic", "implicit"):
        return "dynamic"
    if env.rule == "pred" or not env.overloaded:
        return "predictive"
    return "dynamic" if env.rule not in ("ccs", "csm-first") and h.rec != 0 else "csm"  # these have no Dynamic mode


def rises_on_expiry(rule: str) -> bool:
    """Can a task whose quantum ended come ahead of anybody under this rule? CSM and CCS reinsert it like any other."""
    env, task = Env(rule, "expire", overloaded=True), Task(0, parallel=True, rec=1)
    return _walks(env, task) or _goes_on_top(env, task, None)


def compares_obs(env: Env) -> bool:
    """Does the rule compare messages or faults of queued tasks now? Their mes it always knows."""
    if env.rule in ("csm", "csm-bounded", "csm-first"):
        return env.overloaded
    return env.rule in ("sdca", "ccs")


def passes_nobody(env: Env, h: Task) -> bool:
    """Is it certain that h passes no queued task, whoever is queued? Rules that go by time are not asked."""
    if env.rule in ("prio", "order") or env.cause == "credit":
        return False
    condition = _SCHED_COND.get(env.rule)
    return condition is None or not condition(env, Task(0, parallel=True, flt=(1 << 32) - 1), h)


def mes_update(mes: int, com: int, p: int) -> int:
    """CSM eq. 2, once per insertion (B-CSM-8): P*mes + (1-P)*COM. mes and p in 1/1024, rounded down.

    mes has 32 bits, so COM counts as at most 2^22 - 1.
    """
    com = min(com, (1 << 32) // MES_ONE - 1)
    weight = Fraction(p, MES_ONE)
    exact = weight * Fraction(mes, MES_ONE) + (1 - weight) * com
    return int(exact * MES_ONE)
