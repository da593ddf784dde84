# SPDX-License-Identifier: GPL-2.0-or-later
"""The rule of policy `fit`: which jobs run, whose memory fits together on all their nodes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ctl.jobs.fit import PASSES, Demand, fit

NODES = ("n1", "n2", "n3")
NEEDS = st.dictionaries(st.sampled_from(NODES), st.integers(0, 100), min_size=1)
JOBS = st.lists(st.tuples(NEEDS, st.booleans(), st.sampled_from((0, PASSES)), st.booleans()), max_size=8).map(
    lambda rows: [Demand(f"j{i}", *row) for i, row in enumerate(rows)]
)
CROWD = st.lists(st.tuples(st.integers(1, 90), st.booleans(), st.sampled_from((0, PASSES))), min_size=3).map(
    lambda rows: [Demand(f"j{i}", {"n1": need}, runs, passed) for i, (need, runs, passed) in enumerate(rows)]
)
ROOMS = st.fixed_dictionaries({node: st.integers(0, 150) for node in NODES})


@given(JOBS, ROOMS)
def test_every_job_runs_or_waits_with_a_reason(jobs: list[Demand], rooms: dict[str, int]) -> None:
    running, waits = fit(jobs, rooms)
    assert [job.jid for job in jobs if job.jid in running] == running
    assert sorted([*running, *(wait.jid for wait in waits)]) == sorted(job.jid for job in jobs)
    for wait in waits:
        assert wait.need > wait.free or wait.free == 0 or wait.behind in {other.jid for other in waits}
        assert wait.why()


@given(JOBS, ROOMS)
def test_no_node_is_overfull_unless_by_one_job_alone_or_by_request(jobs: list[Demand], rooms: dict[str, int]) -> None:
    running, _ = fit(jobs, rooms)
    for node in NODES:
        here = [job for job in jobs if job.jid in running and node in job.needs]
        without = [job for job in here if not job.now]
        if sum(job.needs[node] for job in here) > rooms[node] and len(without) > 1:
            # all but the first fitted beside those before them
            upto = [sum(job.needs[node] for job in here[: i + 1]) for i in range(len(here))]
            over = [here[i] for i, total in enumerate(upto) if total > rooms[node] and i and here[i].needs[node]]
            assert all(job.now or job.needs[node] == 0 for job in over)


def fits(job: Demand, rooms: dict[str, int]) -> bool:
    return all(need <= rooms[node] for node, need in job.needs.items())


@given(JOBS, ROOMS)
def test_the_first_job_that_fits_alone_runs_and_some_job_in_any_case(jobs: list[Demand], rooms: dict[str, int]) -> None:
    running, _ = fit(jobs, rooms)
    assert bool(running) == bool(jobs)
    if jobs and (fits(jobs[0], rooms) or jobs[0].runs or jobs[0].passed >= PASSES):
        assert jobs[0].jid in running


@given(JOBS, ROOMS)
def test_a_job_that_is_too_large_runs_alone(jobs: list[Demand], rooms: dict[str, int]) -> None:
    running, _ = fit(jobs, rooms)
    for job in jobs:
        if job.jid in running and not fits(job, rooms) and not job.now:
            others = [other for other in jobs if other.jid in running and other is not job and not other.now]
            short = {node for node, need in job.needs.items() if need > rooms[node]}
            assert all(short.isdisjoint(other.needs) for other in others)


@given(st.lists(st.tuples(NEEDS, st.integers(0, PASSES - 1)), min_size=1, max_size=8), ROOMS)
def test_where_none_fits_who_lacks_least_runs(rows: list[tuple[dict[str, int], int]], rooms: dict[str, int]) -> None:
    jobs = [Demand(f"j{i}", needs, passed=passed) for i, (needs, passed) in enumerate(rows)]
    jobs = [job for job in jobs if not fits(job, rooms)]
    lacks = [max(need - rooms[node] for node, need in job.needs.items()) for job in jobs]
    if jobs:
        assert jobs[lacks.index(min(lacks))].jid in fit(jobs, rooms)[0]


@given(CROWD)
def test_nobody_passes_a_job_that_was_passed_often_enough(jobs: list[Demand]) -> None:
    """PP-20."""
    running, waits = fit(jobs, {"n1": 100})
    short = {wait.jid for wait in waits if not wait.behind}
    full = [job.jid for job in jobs if job.passed >= PASSES and job.jid in short]
    if full:
        place = [job.jid for job in jobs].index(full[0])
        assert all(job.runs or job.now for job in jobs[place:] if job.jid in running)


@given(JOBS, ROOMS, st.integers(0, 7))
def test_earlier_jobs_do_not_depend_on_later_ones(jobs: list[Demand], rooms: dict[str, int], upto: int) -> None:
    """So a growing need stops jobs that came later, and never an earlier one: what runs may outgrow the room."""
    jobs = [job for job in jobs if fits(job, rooms)]
    before = {job.jid for job in jobs[:upto]}
    assert [jid for jid in fit(jobs, rooms)[0] if jid in before] == fit(jobs[:upto], rooms)[0]


@given(JOBS, ROOMS, st.sets(st.integers(0, 7)))
def test_who_was_stopped_by_his_owner_takes_nothing_from_others(
    jobs: list[Demand], rooms: dict[str, int], which: set[int]
) -> None:
    """Those that work run as if the others were not there; and the others run in what is left."""
    jobs = [replace(job, suspended=place in which) for place, job in enumerate(jobs)]
    working = [job for job in jobs if not job.suspended]
    running, waits = fit(jobs, rooms)
    assert [jid for jid in running if jid in {job.jid for job in working}] == fit(working, rooms)[0]
    assert {wait.jid for wait in waits if wait.suspended} == {job.jid for job in jobs if job.suspended} - {*running}
    free = {node: room - sum(job.needs.get(node, 0) for job in working if job.jid in running)
            for node, room in rooms.items()}  # fmt: skip
    taken = {node for job in working if job.jid in running for node in job.needs}
    for job in jobs:
        if job.suspended and job.jid in running and not taken.isdisjoint(job.needs):
            assert fits(job, free), (job, free)
