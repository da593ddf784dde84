# SPDX-License-Identifier: GPL-2.0-or-later
"""The policies' choices against the paper's rules in plain Python, on random states."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any, NamedTuple

import pytest

from ctl.sim.loadshare.model import KNOWN, UNKNOWN
from ctl.sim.loadshare.simulation import fill
from ctl.sim.native import load

RAM = 1024
STATES = 20_000


class Node(NamedTuple):
    """What is known of a node: L_j, ML_j, U_j (KB)."""

    jobs: int
    load: int
    request: int


# --- known demands, LoadShare §2.1 ---


def _index(policy: str, ct: int, node: Node, load_: int) -> Fraction:
    """The load index; `load_` is what the arriving job adds to ML_j where it counts (B-LS-2)."""
    ml = node.load + (load_ if node.jobs else 0)
    if policy == "mem":
        return Fraction(ml)
    if policy == "cpu" or ml < RAM:
        return Fraction(node.jobs)
    if policy == "cpu-mem-hp":
        return Fraction(ct)
    return node.jobs * Fraction(node.request, RAM)


def _placed(policy: str, ct: int, nodes: list[Node], here: int, load_: int, place: bool) -> int:
    """Local below the threshold, else the most lightly loaded of the others below it; -1: held."""
    if policy == "none":
        return here
    threshold = RAM if policy == "mem" else ct
    index = [_index(policy, ct, node, load_) for node in nodes]
    if index[here] < threshold:
        return here
    others = sorted((index[k], k) for k in range(len(nodes)) if k != here)
    if others and others[0][0] < threshold:
        return others[0][1]
    return others[0][1] if others and place and policy in ("cpu", "mem") else -1


# --- unknown demands, §3.3 ---


def _oversize(load_: int) -> Fraction:
    return Fraction(load_ - RAM, RAM)


def _most_free(ct: int, nodes: list[Node], here: int) -> int:
    free = [(-(RAM - node.load), k) for k, node in enumerate(nodes) if k != here and node.jobs < ct]
    return min((load_, k) for load_, k in free)[1] if free else -1


def _submitted(policy: str, ct: int, mt: Fraction, block: Fraction, nodes: list[Node], here: int) -> int:
    if policy == "none":
        return here
    if policy == "blocking":
        return here if _oversize(nodes[here].load) < block else -1
    if _oversize(nodes[here].load) < mt and nodes[here].jobs < ct:
        return here
    k = _most_free(ct, nodes, here)
    return k if k >= 0 and _oversize(nodes[k].load) < mt else -1


def _migrated(ct: int, mt: Fraction, literal: bool, nodes: list[Node], here: int, ws: int) -> int:
    k = _most_free(ct, nodes, here)
    if k < 0:
        return -1
    fits = RAM - nodes[k].load > ws
    if literal:
        return k if fits or _oversize(nodes[k].load) < mt else -1
    return k if fits and _oversize(nodes[k].load + ws) < mt else -1


class Running(NamedTuple):
    """A job of the node: WS(i) KB, Age(i) ns, R_p(i), N_io(i)."""

    ws: int
    age: int
    rate: float
    ios: float


def _weight(jobs: list[Running], i: int) -> Fraction:
    """Eq. 3.5 without its 1/4. Equal weights here may be unequal in floating point: either job will do."""
    most = [max(job[k] for job in jobs) for k in range(4)]
    return sum((Fraction(jobs[i][k]) / Fraction(most[k]) for k in range(4) if most[k]), Fraction(0))


def _identified(policy: str, jobs: list[Running], r_ns: int, kb_ns: int) -> int:
    if policy == "age":
        jobs_ = [(job.age, -i) for i, job in enumerate(jobs) if job.age > r_ns + job.ws * kb_ns]
        return -max(jobs_)[1] if jobs_ else -1
    keys = {
        "pf-rate": [Fraction(job.rate) for job in jobs],
        "worksize": [Fraction(job.ws) for job in jobs],
        "combined": [_weight(jobs, i) for i in range(len(jobs))],
    }[policy]
    return keys.index(max(keys)) if jobs else -1


# --- the comparison ---


def _random_nodes(draw: random.Random) -> list[Node]:
    """Few distinct values, many at the thresholds, so that ties and borders are common."""
    nodes = []
    for _ in range(draw.randint(1, 6)):
        jobs = draw.choice((0, 0, 1, 2, 3, 4, 5, 9))
        memory = draw.choice((256, 512, 820, RAM - 1, RAM, RAM + 1, 1400, 2600)) if jobs else 0
        nodes.append(Node(jobs, memory, memory * draw.choice((1, 2, 3))))
    return nodes


def _views(engine: Any, nodes: list[Node]) -> Any:
    views = engine.ffi.new("struct sim_view[]", len(nodes))
    for view, node in zip(views, nodes, strict=True):
        view.jobs, view.load, view.request = node
    return views


@pytest.mark.parametrize("policy", KNOWN.policies)
def test_where_jobs_of_known_demands_go(policy: str) -> None:
    engine, draw = load("loadshare"), random.Random(policy)
    for arrival in ("no", "yes"):
        for place in ("hold", "place"):
            values = KNOWN.complete({"include_arrival": arrival, "all_refuse": place, "memory_mb": 1})
            params = fill(engine, policy, values)
            assert params.memory == RAM
            seen = set()
            for _ in range(STATES // 4):
                nodes, load_ = _random_nodes(draw), draw.choice((1, 200, 600))
                here = draw.randrange(len(nodes))
                params.nodes, params.ct = len(nodes), draw.choice((1, 3, 4))
                found = engine.lib.sim_choose(params, _views(engine, nodes), here, load_)
                counted = load_ if arrival == "yes" else 0
                assert found == _placed(policy, params.ct, nodes, here, counted, place == "place"), (nodes, here)
                seen.add("held" if found < 0 else "here" if found == here else "elsewhere")
            if policy != "none":
                assert seen == {"held", "here", "elsewhere"}


@pytest.mark.parametrize("policy", UNKNOWN.policies)
def test_where_jobs_of_unknown_demands_go(policy: str) -> None:
    engine, draw = load("loadshare"), random.Random(policy)
    params = fill(engine, policy, UNKNOWN.complete({"memory_mb": 1}))
    targets = set()
    for _ in range(STATES):
        nodes, ws = _random_nodes(draw), draw.choice((100, 204, 512, 767, 768))
        here = draw.randrange(len(nodes))
        mt, block = Fraction(draw.choice((-25, 0, 25)), 100), Fraction(1, 2)
        params.nodes, params.ct, params.mt, params.block_at = len(nodes), draw.choice((1, 3, 4)), float(mt), 0.5
        params.literal_target = draw.randrange(2)
        views = _views(engine, nodes)
        expected = _submitted(policy, params.ct, mt, block, nodes, here)
        assert engine.lib.sim_choose(params, views, here, ws) == expected, (nodes, here, mt)
        target = engine.lib.sim_target(params, views, here, ws)
        assert target == _migrated(params.ct, mt, bool(params.literal_target), nodes, here, ws), (nodes, here, mt, ws)
        targets.add((bool(params.literal_target), target >= 0))
    assert len(targets) == 4


@pytest.mark.parametrize("policy", ["pf-rate", pytest.param("worksize", marks=pytest.mark.long), "age", "combined"])
def test_which_job_is_migrated(policy: str) -> None:
    engine, draw = load("loadshare"), random.Random(policy)
    params = fill(engine, policy, UNKNOWN.complete({}))
    params.remote_ns, params.kb_ns = 100, 2
    chosen = set()
    for _ in range(STATES):
        jobs = [
            Running(
                draw.choice((0, 64, 128, 1024)), draw.choice((0, 100, 300, 400, 2000, 4096)),
                draw.choice((0.0, 0.0, 2.0, 8.0)), draw.choice((0.0, 0.0, 4.0, 16.0)),
            )
            for _ in range(draw.randint(0, 5))
        ]  # fmt: skip
        tasks = engine.ffi.new("struct sim_task[]", max(len(jobs), 1))
        for task, job in zip(tasks, jobs, strict=False):
            task.ws, task.age_ns, task.faults_s, task.ios = job
        expected = _identified(policy, jobs, 100, 2)
        found = engine.lib.sim_identify(params, tasks, len(jobs))
        assert found == expected or (policy == "combined" and _weight(jobs, found) == _weight(jobs, expected))
        chosen.add(expected)
    assert {-1, 0, 1, 2, 3} <= chosen
