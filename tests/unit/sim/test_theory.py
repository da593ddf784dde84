# SPDX-License-Identifier: GPL-2.0-or-later
"""The simulator against what does not depend on any paper: queueing theory, and the same seed on any machine.

Seeds are fixed, so these pass or fail for good. Every run of the engine ends with Little's law and the conservation
of work checked to the nanosecond (check_sums in run.h); here the tests lean on that.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from ctl.sim.csm.model import MODEL, run
from ctl.sim.csm.simulation import Job, Simulation, metrics
from ctl.sim.native import CHECKED, PLAIN, load

SERVICE = 1.0  # s
NEVER_ENDS = 1e7  # ms


def _node(load_: float, jobs: int, **changes: object) -> dict[str, Any]:
    """One node, local jobs alone, memory for all."""
    given = {
        "nodes": 1, "jobs": jobs, "local_share": 1, "tc_local_s": SERVICE, "mit_s": SERVICE / load_, "mest": 1,
        "memory": 2**31, "phase": 0,
    }  # fmt: skip
    return MODEL.complete(given | changes)


def _mean_response(values: dict[str, Any], seed: int) -> float:
    result = run("rr", values, seed)
    return float(result["tr_local"] / result["jobs_local"])


@pytest.mark.parametrize("load_", [0.3, 0.6])
def test_mm1_first_come_first_served(load_: float) -> None:
    values = _node(load_, 1_500_000, tc_cv=1.0, slice_ms=NEVER_ENDS)
    assert _mean_response(values, 1) == pytest.approx(SERVICE / (1 - load_), rel=0.01)


def test_mg1_first_come_first_served_is_pollaczek_khinchine() -> None:
    load_, cv = 0.5, 2.0
    expected = SERVICE * (1 + load_ * (1 + cv * cv) / 2 / (1 - load_))
    values = _node(load_, 2_000_000, tc_cv=cv, slice_ms=NEVER_ENDS)
    assert _mean_response(values, 2) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(("cv", "jobs", "slice_ms"), [(0.0, 100_000, 4), (1.0, 300_000, 20), (2.0, 300_000, 10)])
def test_processor_sharing_asks_only_for_the_mean(cv: float, jobs: int, slice_ms: float) -> None:
    """M/M/1-PS and M/G/1-PS: short slices share the processor, E[T] = E[S] / (1 - rho) for every distribution.

    E[S] and rho are those of the jobs drawn, which takes away most of the noise. Slices of 4 % of the service make
    E[T] 0.6 % too long at cv 2, of 1 % nothing that is seen.
    """
    result = run("rr", _node(0.5, jobs, tc_cv=cv, slice_ms=slice_ms), 3)
    service, busy = result["tc_local"] / jobs, result["busy_s"] / result["end_s"]
    assert (service, busy) == (pytest.approx(SERVICE, rel=0.02), pytest.approx(0.5, rel=0.02))
    assert result["tr_local"] / jobs == pytest.approx(service / (1 - busy), rel=0.01)


def test_the_checked_engine_finds_nothing_wrong() -> None:
    """Idle CPUs beside ready tasks, lost tasks, torn queues, memory that does not add up, de above MNO."""
    crowded = {
        "nodes": 16, "jobs": 400, "memory": 8000, "mest": 2000, "mit_s": 3, "local_share": 0.9, "tc_local_s": 5,
        "tc_small_s": 5, "tc_large_s": 10, "mfreq_ms": 60,
    }  # fmt: skip
    for name in ("rr", "pred", "dyn", "csm", "csm-bounded", "csm-first", "ccs"):
        result = run(name, MODEL.complete(crowded), 5, kind=CHECKED)
        assert result["arrivals"] == 400
        assert result["faults"] > 100
        assert result["blocks"] > 100


@pytest.mark.parametrize("name", ["rr", "csm"])
def test_a_seed_is_a_run(name: str) -> None:
    """Twice, unoptimised, and checked: the same to the last bit. Another seed is another run."""
    values = MODEL.complete({"jobs": 60, "local_share": 0.9, "tc_large_s": 100, "mit_s": 10})
    once, again, plain, checked = (run(name, values, 9, kind=kind) for kind in ("", "", PLAIN, CHECKED))
    assert once == again == plain == checked
    assert once["faults"] > 0
    assert once["end_s"] != run(name, values, 10)["end_s"]


def test_a_seed_is_the_same_run_on_every_machine() -> None:
    """These numbers were made on x86-64. If they differ elsewhere, results of other machines cannot be compared."""
    values = MODEL.complete({"jobs": 60, "local_share": 0.9, "tc_large_s": 100, "mit_s": 10})
    result = run("csm", values, 9)
    assert (result["events"], result["faults"], result["preempts"], result["end_s"]) == EXPECTED


EXPECTED = (449559, 1980, 10338, 4468.059498279)


def test_policies_meet_the_same_jobs() -> None:
    """Common random numbers: whatever the policy, the same jobs come at the same times and need the same."""
    values = MODEL.complete({"jobs": 200, "local_share": 0.9, "tc_large_s": 100, "mit_s": 10})
    met = []
    for name in ("rr", "csm"):
        with Simulation(name, values, 4) as simulation:
            assert simulation.advance()
            met.append([(r.arrived, r.tc, r.class_, r.size, r.vir) for r in simulation.records()])
    assert met[0] == met[1]


def test_a_pause_changes_nothing() -> None:
    values = MODEL.complete({"jobs": 60, "local_share": 0.9, "tc_large_s": 100, "mit_s": 10})
    with Simulation("csm", values, 9) as simulation:
        at = 0.0
        while not simulation.advance(until_s=at):
            at += 7
        paused = metrics(simulation.stats())
    assert paused == run("csm", values, 9)


def test_a_parallel_job_by_itself_takes_its_cpu_time() -> None:
    """And twice as long where each task's messages fall due by its own draws: why gaps=job is the default."""
    times = {}
    for gaps in ("job", "task"):
        job = Job(0.0, "large", 360.0, 18432, 32, 0)
        with Simulation("csm", MODEL.complete({"gaps": gaps}), 1, [job]) as simulation:
            simulation.advance()
            times[gaps] = next(iter(simulation.records())).slow / 360e9
    assert times["job"] == pytest.approx(1, abs=0.01)
    assert times["task"] > 1.8


def test_tasks_are_spread_by_memory() -> None:
    """A job goes to the nodes with the least N.mem (CSM §5.1): with jobs of n/4 nodes, four fill every node once."""
    jobs = [Job(float(k), "large", 1e5, 20000, 8) for k in range(4)]
    with Simulation("rr", MODEL.complete({}), 1, jobs) as simulation:
        simulation.advance(until_s=10)
        assert [len(simulation.node(k)) for k in range(32)] == [1] * 32
    uneven = [*(Job(0.0, "local", 1e5, 100 + k, 1, k) for k in range(32)), Job(1.0, "large", 1e5, 20000, 8)]
    with Simulation("rr", MODEL.complete({}), 1, uneven) as simulation:
        simulation.advance(until_s=10)
        assert [len(simulation.node(k)) for k in range(32)] == [2] * 8 + [1] * 24


def _mix(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def _draws(what: int, a: float, b: float, seed: int, n: int) -> list[float]:
    engine = load("csm")
    out = engine.ffi.new("double[]", n)
    engine.lib.sim_draw(what, a, b, seed, out, n)
    return list(out)


def test_exponential_is_the_logarithm_of_splitmix() -> None:
    """The engine's own logarithm against libm's, on the stream as its comment describes it."""
    stream = _mix(5 + 0x632BE59BD9B4E019)
    stream = _mix(stream ^ 0x9E3779B97F4A7C15)
    stream = _mix(stream)
    for drawn in _draws(0, 1.0, 0, 5, 20_000):
        stream = (stream + 0x9E3779B97F4A7C15) % 2**64
        expected = -math.log(((_mix(stream) >> 11) + 1) * 2.0**-53)
        assert drawn == pytest.approx(expected, rel=1e-14, abs=1e-14)


def test_moments_of_what_is_drawn() -> None:
    n = 400_000
    for what, a, b, mean, deviation in (
        (1, 0, 0, 0, 1),
        (2, 3.0, 2.0, 3, 6),
        (2, 3.0, 1.0, 3, 3),
        (3, 10, 0, 4.5, 2.8723),
    ):
        drawn = _draws(what, a, b, 7, n)
        found = math.fsum(drawn) / n
        spread = math.sqrt(math.fsum((x - found) ** 2 for x in drawn) / n)
        assert found == pytest.approx(mean, abs=4 * deviation / math.sqrt(n))
        assert spread == pytest.approx(deviation, rel=0.02)
    assert set(_draws(3, 10, 0, 7, 1000)) == set(range(10))


def test_a_message_for_a_task_that_has_ended_is_nobody_elses() -> None:
    """A task that starts where another one ended, with messages under way to that one, does not read them."""
    values = MODEL.complete({"latency_ms": 5000, "mfreq_ms": 1000})

    def response(arrives_s: float) -> list[float]:
        jobs = [Job(at, "small", 20.0, 100, 2, 0) for at in (0.0, arrives_s)]
        with Simulation("csm", values, 1, jobs) as simulation:
            assert simulation.advance()
            return [r.slow / 1e9 for r in simulation.records()]

    first, long_after = response(10_000.0)
    assert response(first + 0.001) == [first, long_after]
