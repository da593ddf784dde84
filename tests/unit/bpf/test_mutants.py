# SPDX-License-Identifier: GPL-2.0-or-later
"""Would test_insert_rq.py notice a fault in bpf/insert_rq.h? Shown on one fault at a time."""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
from collections import Counter
from collections.abc import Iterator

import pytest

from . import native
from .cases import bulk
from .mutants import mutants
from .native import Batch, Native
from .test_insert_rq import differences

_CASES = 20_000  # of the 10^5 that test_bulk compares: the same seed, so the same ones first
_CHUNK = 1_000

# A fault without effect: a walk that may pass no task ends at the tail where it began. Under dyn, dynamic, implicit and
# fifo sched_cond passes no task; under sdca a task without messages has more messages than no task. Anything else that
# slips through is a hole in the comparison.
EQUIVALENT = Counter(
    {("insert_plan", "return rule_has(env->rule, walks) ? PLAN_WALK : PLAN_TAIL;", "PLAN_TAIL -> PLAN_WALK"): 1}
)


def _chunks(build: Native) -> Iterator[tuple[Batch, bytes]]:
    asked = bulk(_CASES, seed=1)
    for first in range(0, _CASES, _CHUNK):
        batch = build.batch(asked[first : first + _CHUNK])
        yield batch, batch.raw(build.run)


def _caught(faulty: Native, chunks: list[tuple[Batch, bytes]]) -> bool:
    """Does the comparison with the reference fail? Asked where the answers differ from the real ones."""
    for batch, real in chunks:
        if batch.raw(faulty.run) != real:
            return bool(differences(batch.cases, batch.ask(faulty.run)))
    return False


def _caught_apart(faulty: Native, chunks: list[tuple[Batch, bytes]]) -> bool:
    """_caught in a process of its own: a fault may be a wild pointer, and a crash counts as caught."""
    child = os.fork()
    if not child:
        status = 2
        try:
            faulthandler.disable()  # a crash is an answer here, not news
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            status = 0 if _caught(faulty, chunks) else 1
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    if os.WIFSIGNALED(ended):
        assert os.WTERMSIG(ended) == signal.SIGSEGV
        return True
    assert os.WEXITSTATUS(ended) in (0, 1), "the comparison itself failed"
    return os.WEXITSTATUS(ended) == 0


@pytest.mark.long
def test_every_fault_is_caught() -> None:
    faults = list(mutants(native.INSERT_RQ_H.read_text()))
    real, *faulty = native.build([native.INSERT_RQ_H.read_text(), *(fault.header for fault in faults)])
    chunks = list(_chunks(real))
    missed = Counter(fault[:3] for fault, build in zip(faults, faulty, strict=True) if not _caught_apart(build, chunks))
    assert missed == EQUIVALENT


def test_faults_are_made_in_every_function_that_decides() -> None:
    made = Counter(fault.function for fault in mutants(native.INSERT_RQ_H.read_text()))
    assert set(made) == {
        "starv_cond",
        "prio_rank",
        "sched_cond",
        "insert_plan",
        "may_overtake",
        "passes_nobody",
        "charges",
        "credit_walks",
        "decided_by",
        "rises_on_expiry",
        "compares_obs",
        "top_cond",
        "rule_rows",
    }
    assert made["sched_cond"] >= 20 and made["insert_plan"] >= 30 and made["rule_rows"] >= 50


def test_comments_are_left_alone() -> None:
    header = "/* a < b */\nIRQ_INLINE int f(int a)\n{\n\t/* a < 0 */\n\treturn a < 1; /* a != 2 */\n}\n"
    assert [fault.change for fault in mutants(header)] == ["< -> <=", "< -> >"]
    assert next(iter(mutants(header))).header == header.replace("return a < 1", "return a <= 1")
