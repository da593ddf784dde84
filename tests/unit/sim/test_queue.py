# SPDX-License-Identifier: GPL-2.0-or-later
"""The simulator's ready queues against the papers in plain Python: the engine decides as the reference.

COSCHED_SIM_DECISIONS=1000000 decides so many (a minute), the default is a sample.
"""

from __future__ import annotations

import os

import pytest

from ctl import policy
from ctl.sim.csm.model import MODEL
from ctl.sim.csm.simulation import Simulation
from ctl.sim.native import CHECKED
from tests.unit.sim.sim_decisions import decided, problem

POLICIES = MODEL.policies
EACH = int(os.environ.get("COSCHED_SIM_DECISIONS", "24000")) // len(POLICIES)
CROWDED = {
    "nodes": 16, "jobs": 100_000, "memory": 8000, "mest": 2000, "mit_s": 1.2, "local_share": 0.9, "tc_local_s": 20,
    "tc_small_s": 40, "tc_large_s": 60, "mfreq_ms": 60, "mnol": 2, "mnod": 3,
}  # fmt: skip


@pytest.mark.parametrize("name", POLICIES)
def test_every_decision_is_the_references(name: str) -> None:
    rule = policy.find_policy(name).rule
    decided, overtook, preempted, overloaded = 0, 0, 0, 0
    with Simulation(name, MODEL.complete(CROWDED), 11, kind=CHECKED) as simulation:
        while decided < EACH:
            assert not simulation.advance(events=10_000)
            log, n = simulation.decisions()
            for d in log[0 : min(n, EACH - decided)]:
                assert (wrong := problem(d, rule)) is None, wrong
                overtook += d.passed > 0
                preempted += d.preempt
                overloaded += d.env.overloaded
            decided += n
    assert 0.1 * decided < overloaded < decided
    if name != "rr":
        assert preempted > 0
        assert overtook > 0


def test_nobody_is_overtaken_more_than_mno_times() -> None:
    """The engine asserts it, too; here it is seen to reach the bound and to stop there."""
    for name in ("pred", "csm", "csm-bounded", "csm-first", "ccs"):
        with Simulation(name, MODEL.complete(CROWDED), 12, kind=CHECKED) as simulation:
            simulation.advance(events=300_000)
            de = list(simulation.stats().de)
        assert de[2] > 0 and de[3] > 0 and not any(de[4:])  # mnol 2, mnod 3


ALONE = CROWDED | {"nodes": 1, "mix": "two", "pdt": 0.5, "mit_s": 12, "memory": 3000}


@pytest.mark.parametrize("name", ["csm", "csm-bounded", "csm-first", "ccs"])
def test_what_a_decision_leaves_is_what_the_next_one_finds(name: str) -> None:
    """On one node: nobody else comes or goes but at the head, overtaken tasks are charged, fresh ones start at 0."""
    rule = policy.find_policy(name).rule
    left: list[tuple[int, int]] | None = None
    charged = displaced = 0
    with Simulation(name, MODEL.complete(ALONE), 13, kind=CHECKED) as simulation:
        simulation.advance(events=12_000)
        log, n = simulation.decisions()
        assert n > 5000
        for d in log[0:n]:
            found = [(d.queue[i].flags, d.queue[i].de) for i in range(d.nr)]
            if left is not None:
                assert found == left[len(left) - len(found) :]
            assert d.h.de == 0
            said = decided(d, rule)
            left = [(flags, de + (i in said.overtaken)) for i, (flags, de) in enumerate(found)]
            if said.preempt:
                left.insert(said.position, (d.running.flags, d.running.de + said.charged_running))
            left.insert(said.position, (d.h.flags, 0))
            charged += len(said.overtaken)
            displaced += said.preempt
    assert charged > 100 and displaced > 100


def test_overload_is_that_of_equation_4() -> None:
    """All that are here ask for more than there is: never, and always but for the moments of a lone small task."""
    for memory, overloaded in ((2**31, 0), (1, 1)):
        with Simulation("csm", MODEL.complete(CROWDED | {"memory": memory}), 14) as simulation:
            simulation.advance(events=100_000)
            stats = simulation.stats()
            assert stats.parallel_insertions > 10
            assert stats.by_rec + stats.by_flt == overloaded * stats.parallel_insertions
            assert stats.by_mes == (1 - overloaded) * stats.parallel_insertions
