# SPDX-License-Identifier: GPL-2.0-or-later
"""The papers' promises about insert_RQ, shown on the native build: bounds on overtaking, waiting and work."""

from __future__ import annotations

import random

import pytest
from hypothesis import given

from tests.examples import examples
from tests.reference.insert_rq import CAUSES, RULES, Env, Task, apply
from tests.reference.ready_queue import ReadyQueue

from . import native
from .cases import bulk, cases
from .native import Case

CHARGED = (
    "pred",
    "sdca",
    "csm-bounded",
    "csm-first",
    "ccs",
)  # whoever is passed is charged: no rule that leads to the top
COSCHEDULING = tuple(cause for cause in CAUSES if cause != "credit")


def _env(rule: str, overloaded: bool = False, **knobs: int) -> Env:
    return Env(rule, "wake", overloaded, **knobs)  # type: ignore[arg-type]


@examples(300)
@given(cases())
def test_order_of_the_others_is_kept_and_de_grows_by_one_at_most(case: Case) -> None:
    decision = native.real().answers([case])[0].decision
    after = apply(case.queue, case.task, decision)
    others = after[: decision.position] + after[decision.position + 1 :]
    assert [q._replace(de=0) for q in others] == [q._replace(de=0) for q in case.queue]
    for before, now in zip(case.queue, others, strict=True):
        limit = case.env.mnod if before.parallel else case.env.mnol
        assert now.de in (before.de, before.de + 1)
        assert now.de <= max(before.de, limit)
    assert len(decision.overtaken) <= case.env.walk_max


def test_nobody_is_passed_who_may_not_be() -> None:
    """On every walk exactly the tasks between the old and the new place are charged."""
    asked = [case for case in bulk(20_000, seed=2) if case.env.cause != "credit"]
    walked = 0
    for case, answer in zip(asked, native.real().answers(asked), strict=True):
        position, overtaken = answer.decision.position, answer.decision.overtaken
        if overtaken:
            assert overtaken == tuple(range(case.start - 1, position - 1, -1))
            walked += 1
    assert walked > 1000


@pytest.mark.parametrize("overloaded", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_fifo_when_nothing_distinguishes(rule: str, overloaded: bool) -> None:
    """Equal tasks keep the order of their arrival; received messages apart, which alone lead up in some rules."""
    for case in bulk(200, seed=3):
        like = case.task._replace(rec=0, de=0)
        for cause in COSCHEDULING:
            decision = native.decide([like] * 3, like, like, Env(rule, cause, overloaded), 3)
            assert (decision.position, decision.overtaken, decision.preempt) == (3, (), False)


@pytest.mark.parametrize("overloaded", [False, True])
@pytest.mark.parametrize("rule", CHARGED)
def test_de_never_above_mno_and_looks_are_amortised(rule: str, overloaded: bool) -> None:
    """One insertion looks at MNO + 1 tasks on average, for any length of the queue."""
    reached = set()
    for seed, (mnol, mnod) in enumerate([(1, 1), (1, 3), (2, 2), (3, 1)] * 3):
        rng, cpu, env = random.Random(seed), ReadyQueue(native.decide), _env(rule, overloaded, mnol=mnol, mnod=mnod)
        for task in (case.task for case in bulk(200, seed)):
            what = rng.random()
            if what < 0.25 and len(cpu.queue) > 3:
                cpu.dispatch()
            elif what < 0.5 and cpu.queue:
                cpu.message(rng.randrange(len(cpu.queue)), env, task)
            else:
                cpu.insert(task, env)
            for q in (*cpu.queue, *([cpu.running] if cpu.running else [])):
                assert q.de <= (mnod if q.parallel else mnol)
                reached.add((q.parallel, q.de))
            assert cpu.looks <= (max(mnol, mnod) + 1) * cpu.insertions
            assert cpu.overtakes <= max(mnol, mnod) * cpu.insertions
    assert {(True, 3), (False, 3)} <= reached, "nobody came near the bound"


def _flood(rule: str, overloaded: bool, mnol: int, ahead: int, limit: int) -> int | None:
    """The number of tasks that run before a local task that arrives behind `ahead` others, while messages pour in.

    Three arrivals with messages follow each running task, which is the worst case for a rule. None: not within the
    limit.
    """
    rng = random.Random(ahead * 100 + mnol)
    env = _env(rule, overloaded, mnol=mnol)
    cpu = ReadyQueue(native.decide)

    def driven(tid: int) -> Task:
        return Task(tid, True, mes=rng.randint(5, 9) << 10, com=rng.randint(5, 9), rec=rng.randint(1, 9))

    for tid in range(ahead + 1):
        cpu.insert(driven(2 + tid), env)
        if not cpu.running:
            cpu.dispatch()
    cpu.insert(Task(1, flt=9), env)  # local, behind `ahead` and the running one
    for ran in range(1, limit + 1):
        for tid in range(3):
            cpu.insert(driven(1000 * ran + tid), env)
        cpu.dispatch()
        if cpu.running and cpu.running.tid == 1:
            return ran
    return None


@pytest.mark.parametrize("overloaded", [False, True])
@pytest.mark.parametrize("rule", CHARGED)
def test_starvation_bound(rule: str, overloaded: bool) -> None:
    """A local task waits for the running task, the tasks ahead and MNOL passing tasks; no flood of messages adds to
    this.

    A task that displaces the running task has passed the local task first, so it counts among the MNOL tasks.
    """
    for mnol in (1, 2, 5):
        for ahead in (0, 1, 10, 50):
            bound = 1 + ahead + mnol
            waited = _flood(rule, overloaded, mnol, ahead, limit=bound)
            assert waited is not None and waited <= bound, f"{rule}, MNOL {mnol}, {ahead} ahead"


def test_starvation_bound_is_tight() -> None:
    """The flood does pass the local task MNOL times: the bound above is not slack that hides a fault."""
    assert _flood("pred", False, mnol=2, ahead=0, limit=100) == 3


@pytest.mark.parametrize(("rule", "overloaded"), [("dyn", False), ("csm", True)])
def test_top_has_no_bound(rule: str, overloaded: bool) -> None:
    """The papers' Dynamic mode as printed starves a local task (B-CSM-5); csm-bounded is the cure."""
    assert _flood(rule, overloaded, mnol=2, ahead=0, limit=200) is None


def _passed_under(rule: str, passed: Task, ahead: int, starved_after: int, arrivals: int) -> int:
    """The number of tasks that run before one that may be passed and counts as starved after so many tasks."""
    cpu, env, ran = ReadyQueue(native.decide), _env(rule), 0
    for tid in range(ahead + 1):
        cpu.insert(Task(2 + tid, True), env)
        if not cpu.running:
            cpu.dispatch()
    cpu.insert(passed, env)
    while cpu.running and cpu.running.tid != 1:
        for tid in range(arrivals):
            cpu.insert(Task(1000 * (ran + 1) + tid, True), env)
        cpu.dispatch()
        ran += 1
        if ran == starved_after:
            cpu.queue = [q._replace(starved=True) if q.tid == 1 else q for q in cpu.queue]
        assert ran < 10_000
    return ran


@pytest.mark.parametrize(("rule", "passed"), [("prio", Task(1)), ("order", Task(1, True, place=1))])
def test_prio_and_order_are_bounded_by_time_alone(rule: str, passed: Task) -> None:
    """A task that has been queued for too long runs after the tasks that are ahead of it then, and no others
    (B-MO-14)."""
    for ahead in (0, 1, 10):
        for starved_after in (1, 5, 20):
            for arrivals in (1, 2):
                first = 1 + ahead + arrivals * starved_after  # who is ahead of it, or has been, when it is starved
                assert _passed_under(rule, passed, ahead, starved_after, arrivals) == first
