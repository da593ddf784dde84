# SPDX-License-Identifier: GPL-2.0-or-later
"""The rules in the engine of model ccs against the project's own in Python, on random cases.

Set_Quantum and Set_Memory against ctl/node, the events' state machine against ctl/cluster/machine.py, insert_RQ
against tests/reference. The tests fail if a rule changes on one side alone.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import Any

import pytest

from ctl import policy
from ctl.cluster.events import Event, Kind
from ctl.cluster.machine import Machine
from ctl.contract import State
from ctl.node import set_memory
from ctl.node.overload import PAGING_S
from ctl.node.set_quantum import MIN_QUANTUM_MS, mpl_bound, quanta
from ctl.sim.ccs.model import MODEL
from ctl.sim.ccs.simulation import Simulation
from ctl.sim.native import CHECKED, load
from tests.reference.insert_rq import CAUSES
from tests.unit.sim.sim_decisions import problem

CASES = int(os.environ.get("COSCHED_SIM_CASES", "300"))
JOBS = 8
LEASE = 9.0
STATES = (State.FREE, State.SLOWED, State.STOPPED)


def test_quanta_are_those_of_set_quantum() -> None:
    engine = load("ccs", CHECKED)
    draw = random.Random(1)
    for _ in range(20 * CASES):
        quantum_ms, weight = draw.randint(1, 1000), draw.uniform(1 / 64, 1)
        share, on, user = draw.choice((0.0, 1.0, draw.random())), draw.random() < 0.8, draw.random() < 0.5
        said = quanta(quantum_ms, weight, share, on=on, local_user=user)

        def found(parallel: bool, state: int, args: tuple[Any, ...] = (quantum_ms, weight, share, on, user)) -> float:
            q, w, s, enabled, local = args
            return float(engine.lib.sim_set_quantum(q * 1_000_000, w, s, enabled, local, parallel, state)) / 1e6

        assert found(False, 0) == pytest.approx(said.local, abs=1e-6)
        assert found(True, 0) == pytest.approx(said.parallel, abs=1e-6)
        assert found(True, 1) == pytest.approx(said.slowed if on else quantum_ms, abs=1e-6)
        assert found(True, 2) == 0
    assert quanta(1, 1, 0, on=True, local_user=True).parallel == MIN_QUANTUM_MS


def test_the_bound_of_a_node_is_mpl_bound() -> None:
    for now in ("C(0)", "C(.15)", "C(.25)"):
        for mpl in (1, 2, 3, 4, 7):
            with Simulation("ccs", MODEL.complete({"now": now, "mpl": mpl}), 1) as simulation:
                for node in range(16):
                    view = simulation.contract(node)
                    assert view.mpl == mpl_bound(mpl, view.weight)


def _epoch(draw: random.Random) -> set_memory.Epoch:
    jobs = tuple(
        set_memory.Job(str(k), draw.randint(0, 40), draw.randint(0, 20), 0.0, elsewhere=draw.random() < 0.15)
        for k in range(JOBS)
        if draw.random() < 0.6
    )
    paged = draw.choice((0.0, 0.0, PAGING_S - 0.1, PAGING_S, 100.0))
    return set_memory.Epoch(draw.random() < 0.8, paged, draw.randint(0, 150), jobs, free=draw.randint(0, 25))


def test_who_is_stopped_and_goes_on_is_what_set_memory_says() -> None:
    engine = load("ccs", CHECKED)
    stopped = 0
    for case in range(CASES):
        draw = random.Random(case)
        walk = [_epoch(draw)]
        while len(walk) < 40:  # mostly as before, with what changes in an epoch
            last = walk[-1]
            if draw.random() < 0.1:
                walk.append(_epoch(draw))
            else:
                walk.append(replace(last, paged_s=draw.choice((0.0, 0.0, 100.0)), local_user=draw.random() < 0.95))
        given = engine.ffi.new("struct memory_epoch[]", len(walk))
        for out, epoch in zip(given, walk, strict=True):
            out.local_user, out.swapping, out.pool = epoch.local_user, epoch.swapping, epoch.pool
            assert epoch.free is not None
            out.free = epoch.free
            for job in epoch.jobs:
                its = out.jobs[int(job.jid)]
                its.held, its.res, its.need, its.elsewhere = 1, job.resident, job.need, job.elsewhere
        stops = engine.ffi.new("uint32_t[]", JOBS * len(walk))
        assert engine.lib.sim_set_memory(given, len(walk), stops) == 0
        state = set_memory.State()
        for i, epoch in enumerate(walk):
            jobs = tuple(replace(job, stopped=job.elsewhere or state.stopped(job.jid)) for job in epoch.jobs)
            state = set_memory.decide(state, replace(epoch, jobs=jobs))
            order = {k: stops[JOBS * i + k] for k in range(JOBS) if stops[JOBS * i + k]}
            found = [str(k) for k in sorted(order, key=lambda k, order=order: order[k])]  # type: ignore[misc]
            assert found == [stop.jid for stop in state.stops], (case, i, epoch)
            stopped += len(found) > 1
    assert stopped > CASES


def _do(draw: random.Random, now: float, seqs: dict[tuple[int, int], int]) -> dict[str, Any]:
    """One thing that happens to a node."""
    what = draw.choice(("HOLD", "HOLD", "RELEASE", "USER", "WANTS", "WANTS", "RECEIVE", "RECEIVE", "RECEIVE", "TICK"))
    op: dict[str, Any] = {"now": round(now * 1e9), "what": what, "job": draw.randrange(JOBS)}
    if what == "USER":
        op["local"] = draw.random() < 0.5
    elif what == "WANTS":
        op["wants"] = sum(1 << k for k in range(JOBS) if draw.random() < 0.3)
    elif what == "RECEIVE":
        node = draw.randint(1, 3)
        seq = seqs.get((node, op["job"]), 0) + draw.choice((1, 1, 1, 0, -1))  # sometimes old news
        seqs[node, op["job"]] = max(seq, 1)
        op |= {"node": node, "seq": max(seq, 1), "local": draw.random() < 0.5, "stop": draw.random() < 0.4}
    return op


def _tell(machine: Machine, op: dict[str, Any], now: float) -> None:
    """The same, to the project's machine."""
    jid = str(op["job"])
    if op["what"] == "HOLD":
        machine.hold(jid, now)
    elif op["what"] == "RELEASE":
        machine.release(jid, now)
    elif op["what"] == "USER":
        machine.local_user("keyboard" if op["local"] else "", now)
    elif op["what"] == "WANTS":
        machine.stops([(str(k), "memory") for k in range(JOBS) if op["wants"] >> k & 1], now)
    elif op["what"] == "RECEIVE":
        kind = Kind.STOP if op["stop"] else Kind.NO_LOCAL
        node = f"n{op['node']}"
        machine.receive(Event(node, 1, op["seq"], jid, kind, op["local"], op["stop"], LEASE), now)
    else:
        machine.tick(now)


def test_what_a_node_does_and_says_is_what_the_projects_machine_does_and_says() -> None:
    engine = load("ccs", CHECKED)
    seen = set()
    for case in range(CASES):
        draw, now, seqs = random.Random(case), 1.0, dict[tuple[int, int], int]()
        # in the model nodes do not start anew; the machine's first word of a node is that, so it is said before
        ops: list[dict[str, Any]] = [{"now": 10**9, "what": "HOLD", "job": 0}]
        for node in (1, 2, 3):
            first = {"now": 10**9, "what": "RECEIVE", "job": 0, "node": node, "seq": 1, "local": False, "stop": False}
            ops.append(first)
            seqs[node, 0] = 1
        for _ in range(120):
            now += draw.choice((1 / 128, 0.5, 1.0, 4.0))  # exact in both clocks
            ops.append(_do(draw, now, seqs))
        given = engine.ffi.new("struct contract_op[]", len(ops))
        for out, op in zip(given, ops, strict=True):
            for name, value in op.items():
                setattr(out, name, getattr(engine.lib, f"OP_{value}") if name == "what" else value)
        states = engine.ffi.new("uint32_t[]", JOBS * len(ops))
        room = 20_000
        said = engine.ffi.new("struct contract_said[]", room)
        told = engine.lib.sim_contract(given, len(ops), round(LEASE * 1e9), states, said, room)
        assert 0 < told < room
        heard: dict[int, list[tuple[int, bool, bool]]] = {}
        for i in range(told):
            heard.setdefault(said[i].op, []).append((said[i].job, bool(said[i].local), bool(said[i].stop)))
        machine = Machine("n0", 1, LEASE)
        for i, op in enumerate(ops):
            _tell(machine, op, op["now"] / 1e9)
            events = [(int(e.jid), e.local, e.stop) for e in machine.events()]
            assert sorted(heard.get(i, [])) == sorted(events), (case, i, op)
            for k in range(JOBS):
                decision = machine.decision(str(k))
                found = states[JOBS * i + k]
                assert (None if found > 2 else STATES[found]) == (decision.state if decision else None), (case, i, k)
                seen.add(found)
    assert len(seen) == 4


CROWDED = {
    "now": "C(.25)", "users": "internet", "workload": "COM_H", "locals": 12, "work_scale": 20, "gap_scale": 3,
    "mpl": 6, "mpl_of": "node", "jobs": 400, "mit_s": 0.5, "mnol": 2, "mnod": 3, "memory_scale": 1.5, "touch_ms": 20,
}  # fmt: skip


@pytest.mark.parametrize("name", MODEL.policies)
def test_every_decision_is_the_references(name: str) -> None:
    rule = policy.find_policy(name).rule
    decided, overtook, overloaded, credited, most_faults = 0, 0, 0, 0, 0
    values = MODEL.complete(CROWDED | {"credit": "on" if name in ("ccs", "rr") else "off"})
    with Simulation(name, values, 11, kind=CHECKED) as simulation:
        while decided < 20 * CASES:
            assert not simulation.advance(events=10_000)
            log, n = simulation.decisions()
            for d in log[0:n]:
                assert (wrong := problem(d, rule)) is None, wrong
                overtook += d.passed > 0
                overloaded += d.env.overloaded
                most_faults = max(most_faults, d.h.flt)
                credited += CAUSES[d.env.cause] == "credit"
            decided += n
    assert 0.02 * decided < overloaded < 0.98 * decided
    assert (credited > 0) == (values["credit"] == "on")
    assert overtook > 0 or rule == "fifo"
    assert 5 < most_faults <= 1.08 * 1000 / float(values["fault_ms"]), "FLT: of about a second, of one disk"
