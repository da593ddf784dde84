# SPDX-License-Identifier: GPL-2.0-or-later
"""Model parpar's decisions: the matrix, the controllers, memory, the queue, against ParPar §3.2 in plain Python."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from ctl.sim.native import CHECKED, load
from ctl.sim.params import Value
from ctl.sim.parpar.estimator import Kind
from ctl.sim.parpar.model import MODEL
from ctl.sim.parpar.simulation import ADMIT, GANG, Simulation
from ctl.sim.parpar.workload import Job

MB = 256  # pages


def job(arrives_s: float, cpu_s: float, size: int = 1, pages: int = 10 * MB, static: int | None = None) -> Job:
    return Job(arrives_s, cpu_s, size, pages, pages if static is None else static, Kind(0, size, 0))


class Reference:
    """The resource manager: placed jobs, waiting jobs, and jobs that may start (§3.2; B-PP-7 to B-PP-9)."""

    def __init__(self, admits: bool, values: Mapping[str, Value], jobs: list[Job]) -> None:
        self.admits, self.jobs, self.nodes = admits, jobs, int(values["nodes"])
        self.limit = float(values["node_mb"]) * float(values["c"]) * MB
        self.skip_limit, self.measured = int(values["skips"]), values["used"] == "measured"
        self.rows = int(values["rows"]) or 10**6
        self.queue: list[int] = []
        self.skips: dict[int, int] = {}
        self.placed: dict[int, tuple[int, int]] = {}  # job: row, first node
        self.ended: set[tuple[int, int]] = set()  # job, node

    def here(self, node: int) -> list[int]:
        """Jobs with a process on a node."""
        return [
            n for n, (_, first) in self.placed.items()
            if first <= node < first + self.jobs[n].size and (n, node) not in self.ended
        ]  # fmt: skip

    def used(self, node: int) -> int:
        def of(job: Job) -> int:
            return max(job.static, job.pages) if self.measured else job.static

        return sum(of(self.jobs[n]) for n in self.here(node))

    def place(self, number: int, alone: bool) -> tuple[int, int] | None:
        """(row, first node): the least loaded controller that has a free row and the memory."""
        size = self.jobs[number].size
        group = next(2**level for level in range(20) if 2**level >= size)
        choices = []
        for first in range(0, self.nodes, group):
            nodes = range(first, first + group)
            fits = all(self.used(k) + self.jobs[number].static <= self.limit for k in nodes)
            taken = {self.placed[n][0] for k in nodes for n in self.here(k)}
            row = next(row for row in range(10**6) if row not in taken)
            if row < self.rows and (fits or alone or not self.admits):
                choices.append((sum(len(self.here(k)) for k in nodes), first, row))
        return (min(choices)[2], min(choices)[1]) if choices else None

    def scan(self) -> list[tuple[int, int, int]]:
        """Who starts, in order: job, row, first node."""
        started: list[tuple[int, int, int]] = []
        while True:
            chosen = None
            for at, number in enumerate(self.queue):
                place = self.place(number, alone=not any(self.here(k) for k in range(self.nodes)))
                if place is not None:
                    chosen = at, number, place
                    break
                if self.skips[number] >= self.skip_limit:
                    break
            if chosen is None:
                return started
            at, number, place = chosen
            for ahead in self.queue[:at]:
                self.skips[ahead] += 1
            del self.queue[at]
            self.placed[number] = place
            started.append((number, *place))


def _random_case(seed: int) -> tuple[str, dict[str, Value], list[Job]]:
    r = random.Random(seed)
    given = {
        "nodes": r.choice((1, 2, 8, 16)), "c": r.choice((0.5, 1.0, 2.0)), "skips": r.choice((0, 1, 3, 15)),
        "rows": r.choice((0, 0, 2, 5)), "used": r.choice(("measured", "estimates")), "give_up": 0,
        "slot_s": r.choice((0.5, 2.0)), "fault_ms": 0.05, "theta": 2.0, "switch_ms": r.choice((0, 20)),
    }  # fmt: skip
    values = MODEL.complete(given)
    nodes = int(values["nodes"])
    at, jobs = 0.0, []
    for _ in range(120):
        at += r.expovariate(nodes / 8)
        pages = r.choice((1, 10, 30, 50)) * MB
        static = r.choice((pages, pages // 2, 2 * pages))
        jobs.append(job(at, r.expovariate(0.5), r.randint(1, nodes), pages, static))
    return r.choice((GANG, ADMIT)), values, jobs


@pytest.mark.parametrize("seed", range(60))
def test_the_resource_manager_decides_as_the_paper_says(seed: int) -> None:
    policy, values, jobs = _random_case(seed)
    reference = Reference(policy == ADMIT, values, jobs)
    with Simulation(policy, values, seed, jobs, kind=CHECKED) as simulation:
        assert simulation.advance()
        records, ops = simulation.records(), simulation.ops()
    what = load("parpar").ffi.typeof("enum sim_what").relements
    expected: list[tuple[int, int, int]] = []
    for op, number, row, node in ops:
        if op == what["OP_ARRIVE"]:
            reference.queue.append(number)
            reference.skips[number] = 0
        elif op == what["OP_END"]:
            reference.ended.add((number, node))
        elif op == what["OP_SCAN"]:
            assert not expected
            expected = reference.scan()
        else:
            assert (number, row, node) == expected.pop(0)
    assert not expected and not reference.queue
    assert [r.skips for r in records] == [reference.skips[n] for n in range(len(jobs))]
    assert max(r.skips for r in records) <= reference.skip_limit
    assert all(r.ended_s is not None for r in records)


def test_random_cases_meet_every_rule() -> None:
    """Barriers, jobs that start alone, queues, more rows than one: otherwise the cases above show little."""
    met: dict[str, int] = {"alone": 0, "barriers": 0, "most_rows": 0, "stolen": 0}
    for seed in range(60):
        policy, values, jobs = _random_case(seed)
        with Simulation(policy, values, seed, jobs) as simulation:
            assert simulation.advance()
            stats = simulation.stats()
            for name in met:
                met[name] = max(met[name], getattr(stats, name))
    assert all(n > 5 for n in met.values()), met


def _ends(policy: str, jobs: list[Job], **given: object) -> list[float]:
    values = MODEL.complete({"nodes": 1, **given})
    with Simulation(policy, values, 1, jobs, kind=CHECKED) as simulation:
        assert simulation.advance()
        return [r.ended_s or 0 for r in simulation.records()]


def test_rows_have_slots_in_turn() -> None:
    """By hand: A 0-1, B 1-1.5 ends, A 1.5-2.5, A to 3 ends; a job of another half of the machine is in A's row."""
    assert _ends(GANG, [job(0, 2.5), job(0, 0.5)]) == [3.0, 1.5]
    jobs = [job(0, 1.5), job(0, 3.0), job(0, 2.0, size=2)]
    assert _ends(GANG, jobs, nodes=2) == [2.5, 5.0, 4.0]


def test_what_comes_in_a_slot_is_seen_at_its_end() -> None:
    """A 0-1; B came at 0.2, its row is next: 1-1.25; A 1.25-2.25."""
    assert _ends(GANG, [job(0, 2.0), job(0.2, 0.25)]) == [2.25, 1.25]
    assert _ends(GANG, [job(7.3, 2.0)]) == [9.3]


def test_a_change_of_row_costs_its_time() -> None:
    """By hand: A 0-1, B 1.25-2, A 2.25-2.75 ends, B 3-3.75 ends."""
    assert _ends(GANG, [job(0, 1.5), job(0, 1.5)], switch_ms=250) == [2.75, 3.75]


def test_memory_admits_one_at_a_time() -> None:
    """Two of 30 MB on 55: the second starts when the first has ended; with twice the memory both are there."""
    two = [job(0, 2.0, pages=30 * MB), job(0, 2.0, pages=30 * MB)]
    assert _ends(ADMIT, two, free_mb=200) == [2.0, 4.0]
    assert _ends(ADMIT, two, free_mb=200, c=2) == [3.0, 4.0]


def test_a_job_too_large_runs_when_nothing_else_does() -> None:
    """70 MB on 55 (PP-22): behind one of 10 MB it waits, and one of 10 MB passes it once; then it is alone."""
    jobs = [job(0, 3.0), job(0, 1.0, pages=70 * MB), job(0, 1.0)]
    assert _ends(ADMIT, jobs, free_mb=200) == [4.0, 5.0, 2.0]
    assert _ends(ADMIT, jobs, free_mb=200, skips=0) == [3.0, 4.0, 5.0]


@pytest.mark.parametrize("c", [0.8, 1.0, 1.5, 2.0])
def test_eq_1_admits_so_many(c: float) -> None:
    """B-PP-4: 4, 5, 8 and 11 jobs of 10 MB on 55 MB x C."""
    values = MODEL.complete({"nodes": 2, "c": c})
    with Simulation(ADMIT, values, 1, [job(0, 60.0, size=2)] * 20) as simulation:
        simulation.advance(until_s=1)
        assert simulation.stats().starts == {0.8: 4, 1.0: 5, 1.5: 8, 2.0: 11}[c]


def test_a_job_goes_to_the_least_loaded_controller() -> None:
    """Sizes 3, 2, 1, 1 on 8 nodes: 3 takes nodes 0-3 (a group of four), 2 then 4-5, 1s the free ones left to right."""
    values: dict[str, Any] = MODEL.complete({"nodes": 8})
    with Simulation(GANG, values, 1, [job(0, 9, size) for size in (3, 2, 1, 1, 8)]) as simulation:
        simulation.advance(until_s=1)
        assert [(r.row, r.node) for r in simulation.records()] == [(0, 0), (0, 4), (0, 3), (0, 6), (1, 0)]


def test_what_is_measured_counts_where_it_is_more_than_estimated() -> None:
    """30 MB that were thought 10: with measurements the next 30 MB wait, by estimates alone they do not (B-PP-7)."""
    two = [job(0, 2.0, pages=30 * MB, static=10 * MB), job(0, 2.0, pages=30 * MB)]
    assert _ends(ADMIT, two, free_mb=200) == [2.0, 4.0]
    assert _ends(ADMIT, two, free_mb=200, used="estimates") == [3.0, 4.0]
