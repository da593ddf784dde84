# SPDX-License-Identifier: GPL-2.0-or-later
"""bpf/insert_rq.h against the papers in plain Python, on random queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.reference.insert_rq import (
    CAUSES,
    MES_ONE,
    RULES,
    Env,
    Task,
    compares_obs,
    decided_by,
    insert_RQ,
    mes_update,
    passes_nobody,
    rises_on_expiry,
)

from . import native
from .cases import bulk, cases
from .native import Answer, Case

BULK = 100_000


def expected(case: Case) -> Answer:
    """The reference's answer."""
    decision = insert_RQ(case.queue, case.task, case.running, case.env, start=case.start)
    told = rises_on_expiry(case.env.rule), compares_obs(case.env), passes_nobody(case.env, case.task)
    return Answer(decision, decided_by(case.env, case.task), *told)


def differences(asked: Sequence[Case], answers: Sequence[Answer]) -> list[str]:
    """The differences of the native side's answers from the reference, in words."""
    return [
        f"{case}\n  native    {answer}\n  reference {expected(case)}"
        for case, answer in zip(asked, answers, strict=True)
        if answer != expected(case)
    ]


def test_bulk() -> None:
    asked = bulk(BULK, seed=1)
    found = differences(asked, native.real().answers(asked))
    assert not found, f"{len(found)} of {BULK} differ, the first:\n{found[0]}"


def test_bulk_reaches_every_corner() -> None:
    """Each rule and cause decides often; walks pass, stop, preempt and are bounded often enough to matter."""
    seen: Counter[tuple[str, ...]] = Counter()
    for case in bulk(30_000, seed=1):
        decision = expected(case).decision
        seen[case.env.rule, case.env.cause] += 1
        if decision.overtaken:
            seen[case.env.rule, "walked"] += 1
            seen[case.env.rule, "walked", str(case.env.overloaded)] += 1
        if case.env.rule in ("prio", "order"):
            free = expected(case._replace(queue=tuple(q._replace(starved=False) for q in case.queue))).decision
            seen[case.env.rule, "rose"] += decision.position < case.start
            seen[case.env.rule, "held"] += decision.position > free.position
            seen[case.env.rule, "preempt"] += decision.preempt
        for outcome in ("preempt", "charged_running", "bounded"):
            seen[outcome, case.env.cause] += getattr(decision, outcome)
    assert min(seen[rule, cause] for rule in RULES for cause in CAUSES) > 300
    walkers = ("pred", "csm", "csm-bounded", "csm-first", "ccs")
    assert min(seen[rule, "walked", o] for rule in walkers for o in ("True", "False")) > 100
    assert seen["sdca", "walked"] > 100
    assert min(seen[rule, outcome] for rule in ("prio", "order") for outcome in ("rose", "held", "preempt")) > 30
    assert min(seen["charged_running", c] for c in CAUSES if c != "credit") > 100
    assert min(seen["bounded", c] for c in CAUSES if c != "credit") > 30
    assert seen["preempt", "credit"] > 300


@examples(150)
@given(st.lists(cases(), min_size=1, max_size=30))
def test_any(asked: list[Case]) -> None:
    found = differences(asked, native.real().answers(asked))
    assert not found, found[0]


@pytest.mark.parametrize("rule", RULES)
@examples(40)
@given(data=st.data())
def test_rule(rule: str, data: st.DataObject) -> None:
    asked = data.draw(st.lists(cases(rules=(rule,)), min_size=1, max_size=10))
    found = differences(asked, native.real().answers(asked))
    assert not found, found[0]


@examples(500)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**23) | st.integers(0, 2**32 - 1), st.integers(0, MES_ONE))
def test_mes_update(mes: int, com: int, p: int) -> None:
    assert native.mes_update(mes, com, p) == mes_update(mes, com, p)


def test_mes_update_by_hand() -> None:
    one = MES_ONE
    assert mes_update(0, 10, 0) == 10 * one  # P = 0: COM itself
    assert mes_update(7 * one, 10, one) == 7 * one  # P = 1: the past only
    assert mes_update(4 * one, 2, one // 2) == 3 * one
    assert mes_update(0, 1 << 22, 0) == mes_update(0, (1 << 32) - 1, 0) == ((1 << 22) - 1) * one  # it does not wrap
    assert mes_update(3, 0, one // 2) == 1  # rounded down: goes to 0 in the end (B-CSM-7)


L = Task


def P(tid: int, **values: int) -> Task:
    return Task(tid, True, **values)  # type: ignore[arg-type]  # mypy thinks of credit, which is for local tasks


@pytest.mark.parametrize(
    ("queue", "task", "running", "env", "after", "preempt"),
    [
        # the header's own example: passes D, stops at C whose de is exhausted
        (
            [P(2, mes=4), P(3, mes=1, de=2), L(4, de=1)],
            P(5, mes=3),
            P(1, mes=5),
            Env("pred", "wake"),
            [2, 3, 5, 4],
            False,
        ),
        ([P(2), L(3)], P(9, mes=1), P(1), Env("pred", "wake"), [9, 2, 3], True),
        ([P(2), L(3)], P(9, mes=1), P(1, de=2), Env("pred", "wake"), [9, 2, 3], False),
        ([P(2), L(3)], L(9, mes=1), P(1), Env("pred", "wake"), [2, 3, 9], False),
        ([P(2, de=2), L(3, de=2)], P(9, rec=1), P(1, de=2), Env("dyn", "wake"), [9, 2, 3], True),
        ([P(2)], P(9), P(1), Env("dyn", "wake"), [2, 9], False),
        ([P(2, rec=1), L(3)], P(9, rec=2), None, Env("sdca", "wake"), [9, 2, 3], False),
        ([P(2, rec=1), L(3)], P(9, rec=2), P(1), Env("sdca", "expire"), [2, 3, 9], False),
        ([P(2)], P(9, rec=1, cpu_ns=9), P(1, cpu_ns=20), Env("dynamic", "wake", share_ns=10), [9, 2], True),
        ([P(2)], P(9, rec=1, cpu_ns=10), P(1, cpu_ns=20), Env("dynamic", "wake", share_ns=10), [2, 9], False),
        ([P(2, de=2)], P(9, rec=1, flt=9), P(1, de=2), Env("csm", "wake", True), [9, 2], True),
        ([P(2, flt=5), P(3, flt=6)], P(9, flt=5), P(1), Env("csm", "wake", True), [2, 9, 3], False),
        (
            [P(2, de=2), P(3, flt=6)],
            P(9, rec=1, flt=9),
            P(1),
            Env("csm-bounded", "wake", True),
            [2, 9, 3],
            False,
        ),
        # csm-first: a thrashing task stays, whatever it received; messages decide between tasks with equal faults
        ([P(2, flt=5), P(3, flt=6)], P(9, rec=9, flt=9), P(1), Env("csm-first", "wake", True), [2, 3, 9], False),
        ([P(2, flt=5), P(3, flt=6)], P(9, rec=1, flt=5), P(1), Env("csm-first", "wake", True), [9, 2, 3], False),
        ([P(2), P(3, rec=1)], P(9, rec=1), P(1), Env("csm-first", "wake", True), [2, 3, 9], False),
        ([P(2), P(3)], P(9, rec=1), P(1), Env("csm-first", "wake", True), [9, 2, 3], True),
        ([P(2), P(3, rec=9)], P(9, mes=1), P(1), Env("csm-first", "wake"), [9, 2, 3], True),
        ([P(2, com=5), P(3, com=6)], P(9, com=6, mes=9), P(1), Env("ccs", "wake"), [2, 3, 9], False),
        ([P(2, flt=5), L(3, flt=6)], P(9, rec=9, flt=5), P(1), Env("ccs", "wake", True), [2, 9, 3], False),
        (
            [L(2), P(3), L(4, credit=True), P(5)],
            L(9),
            P(1, de=9),
            Env("csm", "credit"),
            [2, 3, 4, 9, 5],
            True,
        ),
        ([P(2), L(3)], L(9), L(1, credit=True), Env("fifo", "credit"), [9, 2, 3], False),
        # prio: behind tasks of jobs, ahead of local tasks with any de, which does not grow
        ([P(2), L(3, de=9), L(4)], P(9), P(1), Env("prio", "wake"), [2, 9, 3, 4], False),
        ([L(3, credit=True), L(4)], P(9), L(1, de=9, credit=True), Env("prio", "expire"), [9, 3, 4], True),
        ([L(3), P(4, waiting=True)], P(9), P(1, waiting=True), Env("prio", "message"), [9, 3, 4], True),
        ([L(3), L(4, starved=True), L(5)], P(9), L(1), Env("prio", "wake"), [3, 4, 9, 5], False),
        ([L(3)], P(9, waiting=True), L(1), Env("prio", "expire"), [3, 9], False),
        ([P(2), L(3, credit=True), L(4)], L(9, credit=True), L(1), Env("prio", "credit"), [2, 3, 9, 4], False),
        ([L(4)], L(9, credit=True), L(1), Env("prio", "credit"), [9, 4], True),
        ([L(4)], L(9, credit=True), P(1), Env("prio", "credit"), [9, 4], False),
        # order: by the place of the job, behind its like, whatever de; nobody passes a local task, and time bounds it
        ([P(2), P(3, place=1, de=9), P(4, place=2)], P(9, place=1), P(1), Env("order", "wake"), [2, 3, 9, 4], False),
        ([P(3, place=1)], P(9), P(1, place=1, de=9), Env("order", "wake"), [9, 3], True),
        ([P(3, place=1)], P(9), L(1), Env("order", "expire"), [9, 3], False),
        ([P(2, place=2), L(3), P(4, place=2)], P(9), P(1), Env("order", "wake"), [2, 3, 9, 4], False),
        ([P(2, place=2), P(3, place=2, starved=True)], P(9), P(1), Env("order", "wake"), [2, 3, 9], False),
        ([P(2, waiting=True)], P(9, place=255), P(1, waiting=True), Env("order", "message"), [9, 2], True),
        ([P(2, place=2)], P(9, waiting=True), P(1), Env("order", "expire"), [2, 9], False),
        ([P(2), L(3)], L(9, credit=True), P(1), Env("order", "credit"), [9, 2, 3], True),
        # implicit: a message leads up only a task that slept or waited
        ([P(2, de=9)], P(9, rec=1), P(1), Env("implicit", "wake"), [9, 2], True),
        ([P(2)], P(9, rec=1), P(1), Env("implicit", "expire"), [2, 9], False),
        ([P(2)], P(9), P(1), Env("implicit", "wake"), [2, 9], False),
        (
            [P(n) for n in range(2, 7)],
            P(9, mes=1),
            P(1),
            Env("pred", "wake", walk_max=2),
            [2, 3, 4, 9, 5, 6],
            False,
        ),
    ],
)
def test_by_hand(
    queue: list[Task], task: Task, running: Task | None, env: Env, after: list[int], preempt: bool
) -> None:
    """Worked examples, so that the reference itself is held by something."""
    decision = insert_RQ(queue, task, running, env)
    order = [q.tid for q in queue]
    order.insert(decision.position, task.tid)
    assert (order, decision.preempt) == (after, preempt)
    assert native.decide(queue, task, running, env, len(queue)) == decision


def test_message_rises_from_its_place_and_never_falls() -> None:
    queue = [P(2, rec=1), L(3), P(4, rec=9)]
    assert insert_RQ(queue, P(9, rec=2), None, Env("sdca", "message"), start=2).position == 0
    assert insert_RQ(queue, P(9), None, Env("sdca", "message"), start=2).position == 2
    assert insert_RQ(queue, P(9, rec=1), P(1), Env("dyn", "message"), start=2).position == 0
    assert insert_RQ(queue, P(9, rec=1), P(1), Env("fifo", "message"), start=1).position == 1
