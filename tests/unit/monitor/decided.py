# SPDX-License-Identifier: GPL-2.0-or-later
"""Decision records for the tests of this room: written by hand, or at random."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ctl.kernel import trace
from ctl.kernel.layout import CAUSE_NAMES, RULE_NAMES, constant
from tests.unit.kernel.test_trace import record, task

__all__ = ["decided", "raw", "records"]


def raw(ns: int, cause: str, tid: int, queue: tuple[int, ...] = (), running: int | None = None, **fields: Any) -> bytes:
    """The bytes of a record; tasks by thread id, odd ones of jobs."""
    flags = fields.pop("flags", 0) | (0 if running is None else constant("DEC_RUNNING"))
    return record(
        [_task(one) for one in queue],
        flags,
        ns=ns,
        cause=CAUSE_NAMES.index(cause),
        task=_task(tid),
        running=_task(running or 0),
        **{"position": len(queue), **fields},
    )


def decided(
    ns: int, cause: str, tid: int, queue: tuple[int, ...] = (), running: int | None = None, **fields: Any
) -> dict[str, Any]:
    """The same, decoded."""
    return trace.decode(raw(ns, cause, tid, queue, running, **fields))


def _task(tid: int) -> dict[str, Any]:
    return task(tid, flags=tid % 2 * constant("TASK_PARALLEL"), rec=tid % 3, com=tid % 5, mes=tid << 8)


@st.composite
def records(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Records of up to three CPUs in any order, that need not fit together."""
    number = draw(st.integers(0, 12))
    return [draw(_one()) for _ in range(number)]


@st.composite
def _one(draw: st.DrawFn) -> dict[str, Any]:
    queue = tuple(draw(st.lists(st.integers(1, 8), max_size=4, unique=True)))
    flags = draw(st.sets(st.sampled_from(("PREEMPT", "TRUNCATED", "BOUNDED", "OVERLOADED", "GAP"))))
    overtaken = draw(st.lists(st.integers(1, 8), max_size=3))
    return decided(
        draw(st.integers(0, 40)),
        draw(st.sampled_from(CAUSE_NAMES)),
        draw(st.integers(1, 8)),
        queue,
        draw(st.none() | st.integers(1, 8)),
        flags=sum(constant(f"DEC_{flag}") for flag in flags),
        cpu=draw(st.integers(0, 2)),
        rule=draw(st.integers(0, len(RULE_NAMES) - 1)),
        position=draw(st.integers(0, len(queue))),
        overtaken=overtaken,
        nr_overtaken=len(overtaken),
        seq=draw(st.integers(0, 2**32 - 1)),
    )
