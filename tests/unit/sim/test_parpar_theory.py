# SPDX-License-Identifier: GPL-2.0-or-later
"""Model parpar against what does not depend on the paper: queueing theory, LRU page by page, the same run anywhere.

Seeds are fixed, so these pass or fail for good. Every run that ends has Little's law and the conservation of work
checked to the nanosecond (check_sums in engine.c); here the tests lean on that.
"""

from __future__ import annotations

import math
import random
from collections import OrderedDict
from collections.abc import Callable

import pytest

from ctl.sim.native import CHECKED, PLAIN
from ctl.sim.parpar import program
from ctl.sim.parpar.estimator import Kind
from ctl.sim.parpar.model import MODEL, run
from ctl.sim.parpar.simulation import ADMIT, GANG, Simulation, metrics
from ctl.sim.parpar.workload import Job, jobs_of
from ctl.sim.workloads.exact import _mix

KIND = Kind(0, 1, 0)


def _poisson(load: float, jobs: int, draw: Callable[[random.Random], float], seed: int) -> list[Job]:
    """Jobs of one process and mean service 1 s."""
    r, at, made = random.Random(seed), 0.0, []
    for _ in range(jobs):
        at += r.expovariate(load)
        made.append(Job(at, draw(r), 1, 1, 1, KIND))
    return made


def _mean_response(policy: str, jobs: list[Job], **given: object) -> float:
    values = MODEL.complete({"nodes": 1, "free_mb": 1e6, **given})
    with Simulation(policy, values, 1, jobs) as simulation:
        assert simulation.advance()
        return float(metrics(simulation)["response_s"])


_DRAWS: dict[str, tuple[Callable[[random.Random], float], float]] = {  # a service time of mean 1 s, and its square's
    "constant": (lambda _: 1.0, 1.0),
    "exponential": (lambda r: r.expovariate(1), 2.0),
    "hyper-exponential": (lambda r: r.expovariate(5 / 3 if r.random() < 5 / 6 else 1 / 3), 3.6),
}


_ALL = ["constant", *(pytest.param(name, marks=pytest.mark.long) for name in _DRAWS if name != "constant")]


@pytest.mark.parametrize("name", _ALL)
def test_short_slots_share_the_processor(name: str) -> None:
    """M/G/1-PS: E[T] = E[S] / (1 - rho) for every distribution, of the jobs drawn."""
    jobs = _poisson(0.5, 100_000, _DRAWS[name][0], 3)
    service, rho = (math.fsum(job.cpu_s for job in jobs) / of for of in (len(jobs), jobs[-1].arrives_s))
    found = _mean_response(GANG, jobs, slot_s=0.005)
    assert found == pytest.approx(service / (1 - rho), rel=0.01)


@pytest.mark.parametrize("name", _ALL)
def test_memory_for_one_is_first_come_first_served(name: str) -> None:
    """M/G/1: E[T] = E[S] + lambda E[S²] / (2 (1 - rho)), Pollaczek and Khinchine."""
    draw, square = _DRAWS[name]
    jobs = _poisson(0.5, 400_000, draw, 4)
    found = _mean_response(ADMIT, jobs, node_mb=1, c=1.5 / 256, slot_s=1e5)
    assert found == pytest.approx(1 + 0.5 * square / (2 * (1 - 0.5)), rel=0.01)


@pytest.mark.long
def test_half_the_machine_each_is_two_machines() -> None:
    """Jobs of one process on two nodes, memory for one each: M/M/2."""
    jobs = _poisson(1.0, 400_000, lambda r: r.expovariate(1), 5)
    found = _mean_response(ADMIT, jobs, nodes=2, node_mb=1, c=1.5 / 256, slot_s=1e-3, fault_ms=0)
    # Erlang C for 2 servers at rho 1/2: P(wait) = 1/3, E[W] = 1/3 / (2 - 1); what ends in a slot is seen at its end
    assert found == pytest.approx(1 + 1 / 3, rel=0.01)


# --- memory ---


class Walk:
    """F. 4 as walk.h has it, in plain Python: the same stream, libm's functions."""

    def __init__(self, theta: float, pages: int, k: int, number: int) -> None:
        stream = _mix(1 + 0x632BE59BD9B4E019)
        stream = _mix(stream ^ (number + 0x9E3779B97F4A7C15))
        self.stream = _mix(stream ^ 6 + 2)  # rank 0, DRAW_PAGE
        self.theta, self.range, self.per_page, self.at = theta, pages * 4096 // k, 4096 // k, 0.0

    def draw(self) -> int:
        self.stream = (self.stream + 0x9E3779B97F4A7C15) % 2**64
        return _mix(self.stream)

    def page(self) -> int:
        jump = (((self.draw() >> 11) + 1) * 2.0**-53) ** (-1 / self.theta)
        self.at = (self.at - jump if self.draw() & 1 else self.at + jump) % self.range
        return int(self.at) // self.per_page


class Memory:
    """Pages of all processes by their last touch: global LRU as it is meant."""

    def __init__(self, frames: int) -> None:
        self.frames, self.pages = frames, OrderedDict[tuple[int, int], None]()

    def touch(self, process: int, page: int) -> bool:
        """Whether it was there."""
        there = (process, page) in self.pages
        if there:
            self.pages.move_to_end((process, page))
        else:
            if len(self.pages) >= self.frames:
                self.pages.popitem(last=False)
            self.pages[process, page] = None
        return there


@pytest.mark.parametrize(("theta", "k"), [(1.0, 1024), (1.5, 1024), (2.0, 1024), (2.0, 4096)])
def test_miss_ratios_are_those_of_lru(theta: float, k: int) -> None:
    """Mattson's stack distances against a cache of each size, access by access."""
    pages, accesses = 64, 10_000
    found = program.miss_ratios(theta, k, pages / 256, accesses)
    assert (found[0], found[pages]) == (1, 0)
    for size in (1, 2, 7, 20, 45, 63):
        missed = 0
        for number in range(4):
            memory, walk = Memory(size), Walk(theta, pages, k, number)
            for page in range(pages):
                memory.touch(0, page)
            missed += sum(not memory.touch(0, walk.page()) for _ in range(accesses))
        assert found[size] * 4 * accesses == pytest.approx(missed, rel=1e-3, abs=3), size


def test_the_walk_renumbers_its_touches_and_covers_its_array() -> None:
    """More touches than the tree has times; and the walk comes everywhere, from both sides."""
    long, short = (program.miss_ratios(1.0, 1024, 0.25, n) for n in (400_000, 40_000))
    assert long[32] == pytest.approx(short[32], rel=0.05)
    assert program.coverage(1.0, 1024, 1.0, 1, 10) < 0.05
    assert program.coverage(1.0, 1024, 1.0, 1, 100_000) == 1


def _by_pages(theta: float, processes: int, pages: int, frames: int, accesses: int, per_slot_ms: float) -> float:
    """Time until all processes, a row each, have made their accesses (50 us each, 1 ms a fault), page by page."""
    memory, walks = Memory(frames), [Walk(theta, pages, 1024, 100 + n) for n in range(processes)]
    for n in range(processes):
        for page in range(pages):
            memory.touch(n, page)
    left, ready, now = [accesses] * processes, [0.0] * processes, 0.0
    while any(left):
        for n in range(processes):
            if not left[n]:
                continue
            at, end = max(now, ready[n]), now + per_slot_ms
            while at < end and left[n]:
                at += 0.05
                left[n] -= 1
                if not memory.touch(n, walks[n].page()):
                    at += 1.0
                    ready[n] = at
            now = min(at, end) if not left[n] else end
    return now / 1e3


@pytest.mark.parametrize("theta", [1.0, 1.5, 2.0])
@pytest.mark.parametrize(("processes", "frames"), [(3, 200), (4, 230), (6, 200), (6, 300)])
def test_paging_is_that_of_global_lru(theta: float, processes: int, frames: int) -> None:
    """The engine knows numbers of pages; page by page it takes about as long, from no paging at all to thrashing."""
    pages, accesses, slot_ms = 64, 20_000, 100.0
    given = {
        "trial": "static", "nodes": 1, "jobs": processes, "theta": theta, "accesses": accesses, "access_ns": 50_000,
        "job_mb": pages / 256, "free_mb": frames / 256, "slot_s": slot_ms / 1e3, "fault_ms": 1.0,
    }  # fmt: skip
    found = run(GANG, MODEL.complete(given), 1, kind=CHECKED)
    expected = _by_pages(theta, processes, pages, frames, accesses, slot_ms)
    assert found["time_s"] == pytest.approx(expected, rel=0.3)


def test_who_ran_least_recently_loses_its_pages() -> None:
    """By hand: 30 and 40 MB on 45: the second takes 25 of the first's; a third, of 10 MB, takes the first's last 5."""
    sizes = [30, 40, 10]
    jobs = [Job(float(k), 100.0, 1, mb * 256, mb * 256, KIND) for k, mb in enumerate(sizes)]
    with Simulation(GANG, MODEL.complete({"nodes": 1, "fault_ms": 0.0}), 1, jobs, kind=CHECKED) as simulation:
        simulation.advance(until_s=0)
        assert simulation.residents(0) == [30 * 256]
    values = MODEL.complete({"nodes": 1, "fault_ms": 1e4})  # a fault takes longer than a slot
    with Simulation(GANG, values, 1, jobs[:1], kind=CHECKED) as simulation:
        simulation.advance(until_s=50)
        assert simulation.residents(0) == [30 * 256] and simulation.stats().faults == 0
    with Simulation(GANG, values, 1, [job._replace(arrives_s=0) for job in jobs], kind=CHECKED) as simulation:
        simulation.advance(until_s=0)
        assert simulation.residents(0) == [0, 35 * 256, 10 * 256]


# --- the same run anywhere ---

_SMALL = {"jobs": 150, "load": 0.6, "theta": 1.5, "mean_run_s": 10}


@pytest.mark.parametrize("policy", [GANG, ADMIT])
def test_a_seed_is_a_run(policy: str) -> None:
    """Twice, unoptimised, and checked: the same to the last bit. Another seed is another run."""
    values = MODEL.complete(_SMALL)
    once, again, plain, checked = (run(policy, values, 9, kind=kind) for kind in ("", "", PLAIN, CHECKED))
    assert once == again == plain == checked
    assert once["faults"] > 0 and once["response_s"] > 0
    assert once["time_s"] != run(policy, values, 10)["time_s"]


def test_a_seed_is_the_same_run_on_every_machine() -> None:
    """These numbers were made on x86-64. If they differ elsewhere, results of other machines cannot be compared."""
    result = run(ADMIT, MODEL.complete(_SMALL), 9)
    assert (result["events"], result["faults"], result["slots"], result["time_s"], result["response_s"]) == EXPECTED


EXPECTED = (5016, 1455, 418, 518.605821556, 32.57706118969238)


def test_a_pause_changes_nothing() -> None:
    values = MODEL.complete(_SMALL)
    with Simulation(ADMIT, values, 9, jobs_of(values, 9)) as simulation:
        at = 0.0
        while not simulation.advance(until_s=at):
            at += 3.3
        paused = metrics(simulation)
    with Simulation(ADMIT, values, 9, jobs_of(values, 9)) as simulation:
        while not simulation.advance(events=1000):
            pass
        assert paused == metrics(simulation) == run(ADMIT, values, 9)


def test_a_load_is_the_papers_formula() -> None:
    """Mean run time x mean nodes / (mean interval x nodes), exactly, and the run times' mean."""
    for load in (0.3, 0.9):
        jobs = jobs_of(MODEL.complete({"load": load}), 5)
        run_s, size = (sum(of) / len(jobs) for of in ((j.cpu_s for j in jobs), (j.size for j in jobs)))
        interval = (jobs[-1].arrives_s - jobs[0].arrives_s) / (len(jobs) - 1)
        assert run_s == pytest.approx(60) and jobs[0].arrives_s == 0
        assert run_s * size / (interval * 16) == pytest.approx(load)


def test_a_saturated_run_is_given_up() -> None:
    values = MODEL.complete({"load": 5.0, "jobs": 400, "give_up": 50})
    result = run(GANG, values, 1)
    assert (result["saturated_percent"], result["response_s"]) == (100, None)
    assert 50 < result["most_jobs"] < 60
    assert run(GANG, values | {"give_up": 0, "fault_ms": 0.0}, 1)["saturated_percent"] == 0


def test_a_request_to_stop_ends_a_run() -> None:
    import threading

    stop = threading.Event()
    stop.set()
    with pytest.raises(KeyboardInterrupt):
        run(GANG, MODEL.complete({"trial": "static", "jobs": 50, "nodes": 2, "theta": 1.0}), 1, stop)
