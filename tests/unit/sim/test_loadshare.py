# SPDX-License-Identifier: GPL-2.0-or-later
"""Load sharing: the engine against queueing theory, a node played event by event in Python, and cases done by hand.

Seeds are fixed, so these pass or fail for good. Every run ends with Little's law and the conservation of work checked
to the nanosecond (check_sums in run.h).
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from typing import Any, NamedTuple

import pytest

from ctl.sim.loadshare.model import KNOWN, UNKNOWN, run
from ctl.sim.loadshare.programs import SETS
from ctl.sim.loadshare.simulation import Job, Simulation
from ctl.sim.native import CHECKED, load

GB = 1024.0  # MB


def _play(policy: str, jobs: list[Job], kind: str = "", **changes: object) -> list[Any]:
    """Records of jobs that are given."""
    model = UNKNOWN if "mt" in changes else KNOWN
    with Simulation(policy, model.complete(changes), 1, jobs, kind=kind) as simulation:
        assert simulation.advance()
        return [_copy(record) for record in simulation.records()]


class Record(NamedTuple):
    """struct sim_record, in seconds."""

    wall: float
    cpu: float
    queue: float
    paging: float
    migration: float
    node: int
    killed: int
    moves: int


def _copy(r: Any) -> Record:
    wall = (r.ended - r.arrived) / 1e9 if r.ended else 0.0
    return Record(wall, r.cpu / 1e9, r.queue / 1e9, r.paging / 1e9, r.migration / 1e9, r.node, r.killed, r.moves)


# --- queueing theory ---


@pytest.mark.parametrize(("load_", "cv"), [(0.3, 0.0), (0.5, 0.0), (0.5, 1.0), (0.7, 1.0)])
def test_round_robin_is_processor_sharing(load_: float, cv: float) -> None:
    """M/G/1-PS: E[T] = E[S] / (1 - rho) for every distribution; E[S] and rho are those of the jobs drawn."""
    draw = random.Random(7)
    jobs, at = [], 0.0
    for _ in range(150_000):
        at += draw.expovariate(load_)
        jobs.append(Job(at, 0, draw.expovariate(1.0) if cv else 1.0, 1.0))
    values = KNOWN.complete({"nodes": 1, "switch_ms": 0, "memory_mb": 1e6})
    with Simulation("none", values, 1, jobs) as simulation:
        assert simulation.advance()
        stats = simulation.stats()
        service, busy = stats.cpu / stats.done, stats.cpu * 1e9 / stats.now
    assert stats.wall / stats.done == pytest.approx(service / (1 - busy), rel=0.01)


@pytest.mark.parametrize("busy", [0.3, 0.5, 0.7])
def test_the_pager_is_a_fifo_server_with_constant_service(busy: float) -> None:
    """Its wait in the engine, that of M/D/1, and that of such a server played fault by fault."""
    service, rate = 0.01, busy / 0.01
    draw, at, free, waits = random.Random(3), 0.0, 0.0, []
    for _ in range(300_000):
        at += draw.expovariate(rate)
        waits.append(max(0.0, free - at))
        free = max(free, at) + service
    formula = busy * service / (2 * (1 - busy))
    assert math.fsum(waits) / len(waits) == pytest.approx(formula, rel=0.02)
    # eight jobs, memory oversized so that R_p is `rate`: solve 120 - 4 / (...) = rate for the quadratic
    b, c = 0.19, 0.034 - 4 / (120 - rate)
    oversize = (-b + math.sqrt(b * b - 4 * 0.31 * c)) / (2 * 0.31) * 100
    values = UNKNOWN.complete({"nodes": 1, "group": "equal", "count": 8, "oversize": oversize, "swap_mb": 1e6})
    with Simulation("none", values, 1) as simulation:
        simulation.advance(until_s=1e-3)
        tasks = simulation.tasks(0)
    assert math.fsum(t.faults_s for t in tasks) == pytest.approx(rate, rel=1e-3)
    for task in tasks:
        assert task.paging_share / task.faults_s == pytest.approx(service + formula, rel=5e-3)


# --- a node with known demands, played event by event ---


def _played(jobs: list[Job], memory_mb: float, sigma: float) -> list[tuple[float, float]]:
    """Wall and paging time of each job: round robin, FIFO pager, a fault after every 1/rate of a job's CPU time.

    Every quantum, switch and fault is an event; LoadShare §2.2.1 as it reads.
    """
    quantum, switch, fault_s, mips = 0.01, 0.0001, 0.01, 800.0
    left = [job.cpu_s for job in jobs]
    to_fault = [1.0] * len(jobs)  # part of the gap between two faults that is left
    paging_since, paging, ended = [0.0] * len(jobs), [0.0] * len(jobs), [0.0] * len(jobs)
    events: list[tuple[float, int, str, int]] = []
    ready: deque[int] = deque()
    resident: set[int] = set()
    running, last, pager_free, number = -1, -1, 0.0, 0

    def later(at: float, what: str, j: int) -> None:
        nonlocal number
        number += 1
        heapq.heappush(events, (at, number, what, j))

    def gap() -> float:
        load_ = sum(jobs[j].high_mb for j in resident)
        return 1 / (sigma * load_ / memory_mb * mips) if sigma and load_ >= memory_mb else math.inf

    def dispatch(now: float) -> None:
        nonlocal running, last
        if running >= 0 or not ready:
            return
        running = ready.popleft()
        start = now + (switch if last != running and (len(resident) > 1 or last >= 0) else 0)
        last = running
        burst = min(quantum, left[running], to_fault[running] * gap() if gap() < math.inf else math.inf)
        left[running] -= burst
        if gap() < math.inf:
            to_fault[running] -= burst / gap()
        later(start + burst, "cpu", running)

    for j, job in enumerate(jobs):
        later(job.arrives_s, "arrive", j)
    while events:
        now, _, what, j = heapq.heappop(events)
        if what == "arrive":
            resident.add(j)
            ready.append(j)
        elif what == "page":
            paging[j] += now - paging_since[j]
            ready.append(j)
        else:
            running = -1
            if left[j] <= 1e-12:
                resident.discard(j)
                ended[j] = now
                last = -1
            elif to_fault[j] <= 1e-9:
                to_fault[j] = 1.0
                paging_since[j] = now
                pager_free = max(pager_free, now) + fault_s
                later(pager_free, "page", j)
            else:
                ready.append(j)
        if not (events and events[0][2] == "arrive"):  # those of time 0 come together
            dispatch(now)
    return [(ended[j] - job.arrives_s, paging[j]) for j, job in enumerate(jobs)]


@pytest.mark.parametrize(
    ("sigma", "mb", "cpu_s", "wall_within", "paging_within"),
    [
        (0.0, 300, (1.0, 2.0, 3.0), 0.01, 0.01),  # nobody pages
        (4.0, 200, (2.0, 2.0, 5.0), 0.01, 0.01),  # memory is enough
        (4.0, 400, (0.5, 1.0, 1.5), 0.01, 0.01),  # all three together page
        (10.0, 700, (0.3, 0.5, 0.4), 0.01, 0.01),
        (2.0, 1500, (0.4,), 0.01, 0.01),  # one alone that is larger than memory
        (0.1, 500, (20.0, 15.0, 30.0), 0.01, 0.01),  # the CPU is slower than the pager
        # gaps of several quanta, which the paper has not: jobs that fault together leave the CPU idle, stretches do not
        (0.03, 600, (8.0, 15.0), 0.07, 0.5),
    ],
)
def test_a_stretch_is_what_its_events_come_to(
    sigma: float, mb: float, cpu_s: tuple[float, ...], wall_within: float, paging_within: float
) -> None:
    jobs = [Job(0.0, 0, cpu, mb) for cpu in cpu_s]
    played = _played(jobs, GB, sigma)
    found = _play("none", jobs, CHECKED, nodes=1, sigma=sigma)
    for job, (wall, paging), r in zip(jobs, played, found, strict=True):
        assert r.wall == pytest.approx(wall, rel=wall_within, abs=0.03)
        assert r.paging == pytest.approx(paging, rel=paging_within, abs=0.05)
        assert r.cpu == job.cpu_s
        assert r.cpu + r.queue + r.paging == pytest.approx(r.wall, abs=1e-8)


# --- by hand ---


def test_a_job_that_its_node_refuses_runs_on_the_emptiest_one() -> None:
    jobs = [Job(0.0, 0, 100.0, 1.0), Job(0.0, 0, 100.0, 1.0), Job(0.0, 1, 100.0, 1.0), Job(10.0, 0, 5.0, 1.0)]
    found = _play("cpu", jobs, nodes=3, ct=2, switch_ms=0)
    assert (found[3].node, found[3].wall, found[3].migration) == (2, 5.05, 0.05)


def test_what_is_sent_to_a_node_counts_at_once_and_what_ends_there_when_it_is_told() -> None:
    """Three jobs for a full node 0 within one period: to 1, to 2, and the third finds all at their threshold.

    The second goes to 2 while the first is still under way. Node 1's job ends at 1.25; node 0 learns of it at 2, and
    what it held goes there.
    """
    jobs = [Job(0.0, 0, 100.0, 1.0), Job(0.1, 0, 1.1, 1.0), Job(0.12, 0, 50.0, 1.0), Job(0.3, 0, 7.0, 1.0)]
    found = _play("cpu", jobs, nodes=3, ct=1, switch_ms=0)
    assert [r.node for r in found] == [0, 1, 2, 1]
    assert found[1].wall == pytest.approx(1.15)
    assert found[3].queue == pytest.approx(2.0 - 0.3)
    assert found[3].wall == pytest.approx(1.7 + 0.05 + 7.0)


def test_load_information_is_as_old_as_its_last_renewal() -> None:
    """Node 1 is free from 1.25 s on: for a job that the full node 0 gets at 1.5 s, at 2 s; for one at 2.1 s, at once.

    Node 2 is taken locally at 2.05 s: for the last job it is still free, and has two then.
    """
    jobs = [Job(0.0, 0, 100.0, 1.0), Job(0.1, 1, 1.15, 1.0), Job(1.5, 0, 50.0, 1.0)]
    assert _play("cpu", jobs, nodes=2, ct=1)[2].queue == pytest.approx(0.5)
    assert _play("cpu", [*jobs[:2], Job(2.1, 0, 50.0, 1.0)], nodes=2, ct=1)[2].queue == 0
    jobs = [Job(0.0, 0, 100.0, 1.0), Job(0.1, 1, 100.0, 1.0), Job(2.05, 2, 50.0, 1.0), Job(2.1, 0, 50.0, 1.0)]
    assert [r.node for r in _play("cpu", jobs, nodes=3, ct=1)] == [0, 1, 2, 2]


def test_a_held_job_starts_at_once_when_a_job_of_its_own_node_ends() -> None:
    found = _play("cpu", [Job(0.0, 0, 3.3, 1.0), Job(0.1, 0, 1.0, 1.0)], nodes=1, ct=1)
    assert (found[1].queue, found[1].wall) == (pytest.approx(3.2), pytest.approx(4.2))


def test_high_throughput_takes_what_high_performance_refuses() -> None:
    """One job of 1.1 GB on each of two nodes. L is 1 and gamma 1.1, as U is what was requested: below CT 4."""
    jobs = [Job(0.0, k, 100.0, 1.1 * GB, 1.1 * GB) for k in (0, 1)] + [Job(1.0, 0, 1.0, 1.0, 1.0)]
    shares: dict[str, Any] = {"nodes": 2, "sigma": 0}
    high = _play("cpu-mem-hp", jobs, **shares)
    through = _play("cpu-mem-ht", jobs, **shares)
    assert high[2].queue > 90 and through[2].queue < 2
    # four times the declared memory: the index is 1 * 4.4 there, and it refuses too
    jobs = [job._replace(request_mb=4 * job.request_mb) for job in jobs]
    assert _play("cpu-mem-ht", jobs, **shares)[2].queue > 90


def test_the_arriving_job_counts_where_that_is_asked_for() -> None:
    jobs = [Job(0.0, 0, 100.0, 600.0), Job(1.0, 0, 10.0, 600.0)]
    assert _play("cpu-mem-hp", jobs, nodes=2)[1].node == 0
    assert _play("cpu-mem-hp", jobs, nodes=2, include_arrival="yes")[1].node == 1


def test_a_migration_takes_r_and_the_working_set_over_the_network() -> None:
    """Two jobs of 100 MB on 121 MB: at MT 0 the larger one leaves after a second's delay."""
    jobs = [Job(0.0, 0, 500.0, 100.0), Job(0.5, 0, 500.0, 10.0, 0, 0, 0), Job(0.75, 0, 500.0, 101.0)]
    found = _play("worksize", jobs, nodes=2, mt=0, network_mbps=10)
    assert [r.moves for r in found] == [0, 0, 1]
    assert found[2].migration == pytest.approx(0.1 + 101 * 8192 * 1024 / 10e6)
    assert found[2].node == 1 and found[2].queue < 1


@pytest.mark.parametrize(("mt", "left_at"), [(-1.0, 0.75), (0.0, 1.75), (0.5, 0.75), (10.0, None), (15.0, None)])
def test_when_a_migration_begins_depends_on_mt(mt: float, left_at: float | None) -> None:
    """Q_o is 12.3 % from 0.75 s on: at MT -1 at once, at 0 after the delay, at 0.5 as it is above 5.5, at 10 not."""
    jobs = [Job(0.0, 0, 50.0, 60.0), Job(0.75, 0, 50.0, 76.0)]
    values = UNKNOWN.complete({"nodes": 2, "mt": mt, "network_mbps": 1e6})
    with Simulation("worksize", values, 1, jobs) as simulation:
        for tick in range(1, 400):
            simulation.advance(until_s=0.01 * tick + 1e-6)
            if simulation.stats().moves:
                assert left_at is not None and 0.01 * tick == pytest.approx(left_at, abs=0.0101)
                return
    assert left_at is None


def test_only_one_migration_at_a_time_is_on_a_shared_bus() -> None:
    jobs = [Job(0.0, k, 3000.0, mb) for k in (0, 1) for mb in (70.0, 71.0)]
    both: dict[str, object] = {"nodes": 4, "mt": 0, "network_mbps": 10}
    times = {}
    for bus in ("shared", "none"):
        with Simulation("worksize", UNKNOWN.complete(both | {"bus": bus}), 1, jobs) as simulation:
            simulation.advance(until_s=30)
            times[bus] = simulation.stats().moves
            simulation.advance(until_s=130)
            assert simulation.stats().moves == 2
    assert times == {"shared": 1, "none": 2}


def test_the_newest_is_killed_when_swap_is_full() -> None:
    jobs = [Job(float(k), 0, 1000.0, 90.0) for k in range(3)]
    assert [r.killed for r in _play("none", jobs, nodes=1, mt=0)] == [0, 0, 1]


def test_blocking_keeps_jobs_out_while_the_node_thrashes() -> None:
    jobs = [Job(float(k), 0, 10.0, 110.0) for k in range(3)]
    found = _play("blocking", jobs, nodes=1, mt=0)
    assert found[2].queue >= found[0].wall - 2 > 10


def test_memory_grows_with_cpu_time_and_other_jobs_fault_for_it() -> None:
    """It passes the memory that is left at a known point of its life; before that nobody pages."""
    growing = Job(0.0, 0, 100.0, 120.0, 0, 0.0, 100.0)
    values = UNKNOWN.complete({"nodes": 1})
    with Simulation("none", values, 1, [growing, Job(0.0, 0, 100.0, 60.0)]) as simulation:
        quiet = 2 * 100 * 61 / 120 * 10.1 / 10  # both run at half speed until it has 61 MB
        simulation.advance(until_s=quiet * 0.97)
        assert sum(t.faults_s for t in simulation.tasks(0)) == 0
        simulation.advance(until_s=quiet * 1.07)
        tasks = simulation.tasks(0)
        assert sum(t.faults_s for t in tasks) > 1
        assert tasks[0].ws / 1024 == pytest.approx(61, rel=0.08)


@pytest.mark.parametrize("name", SETS["seven"])
def test_a_program_alone_takes_its_dedicated_lifetime(name: str) -> None:
    values = UNKNOWN.complete({"nodes": 1, "group": "alone", "program": name})
    found = run("none", values, 1, kind=CHECKED)
    assert found["slowdown"] == pytest.approx(1, abs=1e-6)
    assert (found["paging_s"], found["response_s"]) == (0, pytest.approx(SETS["seven"][name].life_s))


@pytest.mark.parametrize(
    ("oversize", "rate"), [(-0.7, 0.0), (-0.1, 0.0), (0.0, 0.0), (1e-9, 2.353), (0.0534, 31.2), (0.65, 106.1)]
)
def test_the_fault_rate_is_eq_3_1(oversize: float, rate: float) -> None:
    engine = load("loadshare")
    from ctl.sim.loadshare.simulation import fill

    params = fill(engine, "none", UNKNOWN.complete({}))
    assert engine.lib.sim_fault_rate(params, oversize, 0) == pytest.approx(rate, abs=0.06)
    params.rate = engine.lib.RATE_SUM
    assert engine.lib.sim_fault_rate(params, -0.5, 3541) == pytest.approx(0.061 * 3541 - 174.98)
    params.rate = engine.lib.RATE_LITERAL
    assert engine.lib.sim_fault_rate(params, 0.65, 3541) == pytest.approx(-54.98 + 216.001 - 13.94, abs=0.1)
