# SPDX-License-Identifier: GPL-2.0-or-later
"""Load sharing: the workloads, the engine as a whole (checked builds, seeds, pauses), experiments and claims."""

from __future__ import annotations

import math
import sys
import types
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from ctl.errors import USAGE, CoschedError
from ctl.sim import claims, pool
from ctl.sim.experiment import runs as runs_of
from ctl.sim.loadshare.model import KNOWN, UNKNOWN, run
from ctl.sim.loadshare.programs import SETS, TRACES
from ctl.sim.loadshare.simulation import Simulation, from_log, workload
from ctl.sim.native import CHECKED, PLAIN, load
from ctl.sim.registry import CLAIMS, find_experiment
from ctl.sim.store import Store

# --- workloads ---


def test_a_synthetic_month_is_table_1s() -> None:
    engine = load("loadshare")
    jobs, n = workload(engine, KNOWN.complete({"trace": "july"}), 4, 0)
    assert n == 8639
    assert math.fsum(j.cpu for j in jobs) / n / 1e9 * 800 == pytest.approx(5_121_149, rel=1e-6)
    assert math.fsum(j.request for j in jobs) / n / 1024 == pytest.approx(552, rel=1e-4)
    assert all(a.arrives <= b.arrives for a, b in pairwise(jobs))
    assert {j.node for j in jobs} == set(range(32))
    assert all(j.node == j.arrives // 86_400_000_000_000 for j in jobs)
    hours = [j.arrives / 3.6e12 % 24 for j in jobs]
    by_day = sum(8 <= hour < 18 for hour in hours) / n
    assert by_day == pytest.approx(30 / 44, abs=0.02)
    jobs, n = workload(engine, KNOWN.complete({"jobs": 200_000}), 4, 0)
    for values, cv in (([j.cpu for j in jobs], 2), ([j.request for j in jobs], 2)):
        mean = math.fsum(values) / n
        assert math.sqrt(math.fsum((v / mean - 1) ** 2 for v in values) / n) == pytest.approx(cv, rel=0.05)


@pytest.mark.parametrize("name", TRACES)
def test_arrivals_are_those_of_the_printed_function(name: str) -> None:
    trace = TRACES[name]
    jobs, n = workload(load("loadshare"), UNKNOWN.complete({"trace": name}), 5, 0)
    times = [j.arrives / 1e9 for j in jobs]
    assert n == trace.jobs and times == sorted(times) and times[0] > 0 and times[-1] <= trace.end_s
    many, n = workload(load("loadshare"), UNKNOWN.complete({"trace": name, "jobs": 50_000}), 5, 0)
    steps = 20_000
    density = [
        math.exp(-((math.log((i + 0.5) / steps * trace.end_s / trace.unit_s) - trace.mu) ** 2) / (2 * trace.sigma**2))
        for i in range(steps)
    ]
    total, below, i, worst = math.fsum(density), 0.0, 0, 0.0
    for rank, job in enumerate(many):
        while i < steps and (i + 1) / steps * trace.end_s <= job.arrives / 1e9:
            below += density[i]
            i += 1
        worst = max(worst, abs(below / total - rank / n))
    assert worst < 1.63 / math.sqrt(n) + 1e-3  # Kolmogorov-Smirnov, 1 %


def test_every_program_comes_alike_often_or_makes_as_much_work() -> None:
    programs = list(SETS["seven"].values())
    for mix, expected in (("uniform", [1 / 7] * 7), ("work", [1 / p.life_s for p in programs])):
        jobs, n = workload(load("loadshare"), UNKNOWN.complete({"mix": mix, "jobs": 100_000}), 5, 0)
        for program, share in zip(programs, expected, strict=True):
            found = sum(j.cpu == round(program.cpu_s * 1e9) for j in jobs) / n
            assert found == pytest.approx(share / math.fsum(expected), abs=0.006)


class LogJob(NamedTuple):
    """What a reader of SWF files gives of a job."""

    submit_s: float
    run_s: float | None
    processors: int | None
    used_memory_kb: float | None
    requested_memory_kb: float | None
    cpu_s: float | None


def test_a_parallel_log_becomes_sequential_by_the_day(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        LogJob(86400 * 3 + 50, 100, 32, 2048, 4096, 60),
        LogJob(86400 * 4, 100, 2, 2048, None, None),
        LogJob(86400 * 4, None, 2, 2048, None, None),
        LogJob(86400 * 5, 100, 2, 2048, None, 1),  # of a day after the last node's
    ]
    reader = types.ModuleType("ctl.sim.workloads.swf")
    reader.read = lambda path: types.SimpleNamespace(jobs=rows)  # type: ignore[attr-defined]
    package = types.ModuleType("ctl.sim.workloads")
    package.swf = reader  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ctl.sim.workloads", package)
    monkeypatch.setitem(sys.modules, "ctl.sim.workloads.swf", reader)
    jobs = from_log("x.swf", 2, 3)
    assert [(j.arrives_s, j.node, j.cpu_s, j.request_mb) for j in jobs] == [(50, 0, 1920, 128), (86400, 1, 200, 4)]
    values = KNOWN.complete({"trace": "x.swf", "first_day": 3, "nodes": 2})
    assert run("cpu", values, 1)["done"] == 2


# --- the engine ---


@pytest.mark.parametrize("trace", ["june", "july"])
@pytest.mark.parametrize("policy", ["cpu", "mem", "cpu-mem-hp", "cpu-mem-ht"])
def test_the_checked_engine_finds_nothing_wrong_with_known_demands(policy: str, trace: str) -> None:
    for changes in ({}, {"include_arrival": "yes"}, {"sigma": 0.02, "all_refuse": "place"}):
        found = run(policy, KNOWN.complete({"trace": trace, "jobs": 1500, **changes}), 2, kind=CHECKED)
        assert found["done"] == 1500


@pytest.mark.parametrize("policy", UNKNOWN.policies)
def test_the_checked_engine_finds_nothing_wrong_with_unknown_demands(policy: str) -> None:
    for changes in ({}, {"target": "literal", "bus": "none", "rate": "literal", "mt": 15}, {"programs": "spec"}):
        values = UNKNOWN.complete({"trace": "trace2", "jobs": 200, "nodes": 12, "mix": "work", **changes})
        found = run(policy, values, 2, kind=CHECKED)
        assert found["done"] + found["killed"] == 200
        assert (found["killed"] > 0) <= (policy == "none")


@pytest.mark.parametrize(("model", "policy"), [(KNOWN, "cpu-mem-ht"), (UNKNOWN, "combined")])
def test_a_seed_is_a_run(model: Any, policy: str) -> None:
    """Twice, unoptimised, and checked: the same to the last bit. Another seed is another run."""
    values = model.complete({"jobs": 300})
    once, again, plain, checked = (run(policy, values, 9, kind=kind) for kind in ("", "", PLAIN, CHECKED))
    assert once == again == plain == checked
    assert once["end_s"] != run(policy, values, 10)["end_s"]


@pytest.mark.parametrize("model", [KNOWN, UNKNOWN])
def test_another_seed_is_another_workload(model: Any) -> None:
    """In all that is drawn: arrivals, nodes, CPU times and memory."""
    drawn = []
    for seed in (1, 2):
        jobs, _ = workload(load("loadshare"), model.complete({"jobs": 50}), seed, 0)
        drawn.append([[getattr(j, field) for j in jobs] for field in ("arrives", "node", "cpu", "high")])
    assert all(a != b for a, b in zip(*drawn, strict=True))


def test_a_seed_is_the_same_run_on_every_machine() -> None:
    """These numbers were made on x86-64. If they differ elsewhere, results of other machines cannot be compared."""
    known = run("cpu-mem-hp", KNOWN.complete({}), 9)
    unknown = run("combined", UNKNOWN.complete({}), 9)
    assert [(r["events"], r["holds"], r["end_s"]) for r in (known, unknown)] == EXPECTED


EXPECTED = [(17515, 3970, 53668105.253474005), (422801, 343, 18385.902681039)]


def test_a_pause_changes_nothing() -> None:
    values = UNKNOWN.complete({"jobs": 200})
    ends = []
    for step in (None, 7.0):
        with Simulation("combined", values, 9) as simulation:
            at = 0.0
            while not simulation.advance(until_s=None if step is None else (at := at + step)):
                pass
            ends.append([r.ended for r in simulation.records()])
    assert ends[0] == ends[1]


def test_policies_meet_the_same_jobs() -> None:
    for model, policies in ((KNOWN, ("cpu", "mem")), (UNKNOWN, ("age", "combined"))):
        values = model.complete({"jobs": 300})
        met = []
        for policy in policies:
            with Simulation(policy, values, 4) as simulation:
                assert simulation.advance()
                jobs = zip(simulation.given, simulation.records(), strict=True)
                met.append([(r.arrived, j.cpu, j.high, j.node) for j, r in jobs])
        assert met[0] == met[1]


def test_every_claim_of_load_sharing_is_a_row_once_and_every_figure_an_experiment() -> None:
    rows = [claim for id_, claim in CLAIMS.items() if id_.startswith("LS-")]
    assert [claim.id for claim in rows] == [f"LS-{n}" for n in range(1, 48)]
    for claim in rows:
        assert (claim.test is None) == (not claim.experiments)
        for name in claim.experiments:
            find_experiment(name)
    assert {claim.id for claim in rows if claim.test is None} == {"LS-11", "LS-12", "LS-23", "LS-47"}
    for n in range(1, 12):
        find_experiment(f"loadshare-fig{n}")


def test_figures_that_show_the_same_runs_share_them() -> None:
    def keys(name: str) -> set[Any]:
        return {run.key for runs in runs_of(find_experiment(f"loadshare-{name}")).values() for run in runs}

    assert keys("fig2") < keys("fig1")
    assert keys("fig5") == keys("fig6") and keys("fig9") == keys("fig10")
    assert len(keys("fig1")) == 4 * 4 * 10 * 10


@pytest.mark.parametrize("id_", ["LS-8", "LS-16", "LS-19", "LS-25", "LS-27", "LS-44"])
def test_a_claim_is_judged_by_its_runs(id_: str) -> None:
    """With few, small runs: the verdict is one, and names the other readings."""
    store = Store(":memory:")
    override = {"loadshare": {"jobs": 60}, "loadshare-unknown": {"jobs": 40}}
    pool.make(claims.runs([id_], 2, override), store, workers=1)
    (verdict,) = claims.judge(store, [id_], 2, override)
    assert verdict.verdict in (claims.REPRODUCED, claims.NOT_REPRODUCED)
    assert verdict.measured.count("[") == {"LS-8": 3, "LS-25": 4, "LS-27": 3, "LS-44": 2}.get(id_, 0)


@pytest.mark.parametrize(
    ("model", "given", "says"),
    [
        (KNOWN, {"sigma": -1}, "parameter sigma cannot be -1: allowed is a number, 0 to 1000 faults/MI"),
        (KNOWN, {"trace": "april"}, "parameter trace cannot be 'april': allowed is may or june or july or august, or"),
        (KNOWN, {"mt": 5}, "model loadshare has no parameter 'mt'"),
        (UNKNOWN, {"mt": -200}, "parameter mt cannot be -200: allowed is a number, -100 to 1000 %"),
        (UNKNOWN, {"ct": 0}, "parameter ct cannot be 0: allowed is a whole number, 1 to 1e+06 jobs"),
        (UNKNOWN, {"group": "alone", "program": "gcc"}, "parameter program cannot be 'gcc' with programs=seven"),
    ],
)
def test_what_a_parameter_may_not_be_is_refused(model: Any, given: dict[str, object], says: str) -> None:
    with pytest.raises(CoschedError) as refused:
        model.complete(given)
    assert says in str(refused.value)
    assert refused.value.status == USAGE


def test_a_load_that_takes_longer_than_the_clock_is_refused() -> None:
    with pytest.raises(CoschedError, match="more than the nodes bear: a job would take longer"):
        run("none", KNOWN.complete({}), 1)
