# SPDX-License-Identifier: GPL-2.0-or-later
"""Random insertions: hypothesis strategies, which shrink, and a seeded bulk, which is fast.

Values are few and small, so that equal neighbours, exhausted de and full walks are common; one is an extreme.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from hypothesis import strategies as st

from tests.reference.insert_rq import CAUSES, RULES, Env, Task

from .native import Case

__all__ = ["bulk", "cases", "tasks"]

_U32 = 2**32 - 1
_DE = (0, 0, 0, 1, 1, 2, 3)
_MES = (0, 1, 2, 2, 64, 1024, _U32)
_COUNT = (0, 0, 1, 1, 2, 3, _U32)
_REC = (0, 0, 0, 0, 1, 2, 3, _U32)  # mostly none, or the rules with a Dynamic mode do little else
_CPU = (0, 99, 100, 101, 200, 2**62)
_PLACE = (0, 0, 1, 1, 2, 254, 255)
_SHARE = (0, 1, 100)
_MNO = (1, 2, 2, 3)
_WALK_MAX = (1, 2, 3, 64, 64)
_LENGTHS = (0, 0, 1, 1, 2, 3, 4, 5, 6, 8, 12)
# parallel, credit, waiting, starved
_FLAGS = (
    (True, False, False, True),
    (True, False, False, False),
    (False, False, False, False),
    (False, True, False, False),
    (True, False, True, False),
    (False, False, False, True),
    (False, True, False, True),
)
_FLAG_WEIGHTS = (2, 14, 8, 2, 1, 1, 1)
_LONG = 100  # more than the default walk_max


def _task(
    parallel: bool, credit: bool, values: tuple[int, ...], waiting: bool = False, starved: bool = False
) -> Task:
    de, mes, com, rec, flt, cpu_ns, place = values
    return Task(0, parallel, credit and not parallel, de, mes, com, rec, flt, cpu_ns, waiting, starved, place)


_counts = st.sampled_from(sorted(set(_COUNT)))
_values = st.tuples(
    st.sampled_from(sorted(set(_DE))),
    st.sampled_from(_MES),
    _counts,
    st.sampled_from(_REC),
    _counts,
    st.sampled_from(_CPU),
    st.sampled_from(_PLACE),
)
tasks = st.builds(_task, st.booleans(), st.booleans(), _values, st.booleans(), st.booleans())


@st.composite
def cases(draw: st.DrawFn, rules: tuple[str, ...] = RULES, causes: tuple[str, ...] = CAUSES) -> Case:
    """Any one insertion under these rules, for these causes."""
    queue = tuple(draw(st.lists(tasks, max_size=8)))
    env = Env(
        rule=draw(st.sampled_from(rules)),
        cause=draw(st.sampled_from(causes)),
        overloaded=draw(st.booleans()),
        mnol=draw(st.sampled_from(sorted(set(_MNO)))),
        mnod=draw(st.sampled_from(sorted(set(_MNO)))),
        share_ns=draw(st.sampled_from(_SHARE)),
        walk_max=draw(st.sampled_from(sorted(set(_WALK_MAX)))),
    )
    start = draw(st.integers(0, len(queue))) if env.cause == "message" else len(queue)
    return _case(queue, draw(tasks), draw(st.none() | tasks), env, start)


def _case(queue: tuple[Task, ...], task: Task, running: Task | None, env: Env, start: int) -> Case:
    """Only local tasks have credit, so only they come for its cause."""
    if env.cause == "credit":
        task = task._replace(parallel=False, credit=True)
    return Case(queue, task, running, env, start)


def _random_tasks(rng: random.Random) -> Iterator[Task]:
    """Tasks without end; values are drawn by the thousand, because that is where the time goes."""
    while True:
        n = 4096
        flags = rng.choices(_FLAGS, _FLAG_WEIGHTS, k=n)
        columns = [rng.choices(pool, k=n) for pool in (_DE, _MES, _COUNT, _REC, _COUNT, _CPU, _PLACE)]
        for (parallel, credit, waiting, starved), *values in zip(flags, *columns, strict=True):
            yield _task(parallel, credit, tuple(values), waiting, starved)


def bulk(n: int, seed: int) -> list[Case]:
    """n random cases, the same for the same seed; one in a thousand has a long queue."""
    rng = random.Random(seed)
    task = _random_tasks(rng)
    made = []
    for i in range(n):
        length = _LONG if i % 1000 == 0 else rng.choice(_LENGTHS)
        queue = tuple(next(task) for _ in range(length))
        env = Env(
            rng.choice(RULES),
            rng.choice(CAUSES),
            rng.random() < 0.5,
            rng.choice(_MNO),
            rng.choice(_MNO),
            rng.choice(_SHARE),
            rng.choice(_WALK_MAX),
        )
        start = rng.randint(0, length) if env.cause == "message" else length
        h = next(task)
        if rng.random() < 0.6:  # one that has a claim: most do not, and would stay at the tail
            h = h._replace(parallel=True, credit=False, mes=3, com=3, rec=rng.choice((0, 3)), flt=0)
        if rng.random() < 0.05:
            h = h._replace(waiting=True)
        made.append(_case(queue, h, next(task) if rng.random() < 0.8 else None, env, start))
    return made
