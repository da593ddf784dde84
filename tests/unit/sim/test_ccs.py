# SPDX-License-Identifier: GPL-2.0-or-later
"""Model ccs against what does not depend on the paper: queueing theory, cases computed by hand, the same seed again.

Seeds are fixed, so these pass or fail for good. Every run of the engine ends with Little's law and the conservation
of work checked to the nanosecond (check_sums in run.h); the checked build looks at every node after every event.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from ctl.errors import USAGE, CoschedError
from ctl.sim.ccs.inputs import NOWS
from ctl.sim.ccs.model import MODEL, run
from ctl.sim.ccs.simulation import PAGES_MB, Job, Simulation, nodes_of
from ctl.sim.native import CHECKED, PLAIN
from ctl.sim.registry import CLAIMS

ALONE = {"nodes": 1, "now": "C(0)", "locals": 0, "size_from": 1, "size_to": 1, "switch_us": 0, "base_mb": 0,
         "memory_scale": 1e-6, "workload": "COM_L"}  # fmt: skip
MEAN_S = (40 + 160 + 240 + 290 + 1440) / 5


def _one_node(load_: float, jobs: int, **changes: object) -> tuple[float, float, float, float]:
    """Tasks alone on one node: mean service, mean of its square, part of time busy, mean response; s."""
    scale = 2e-4
    given = {"jobs": jobs, "work_scale": scale, "mit_s": scale * MEAN_S / load_, "mpl": 64, "mpl_of": "node"}
    with Simulation("rr", MODEL.complete(ALONE | given | changes), 1) as simulation:
        assert simulation.advance()
        records = simulation.records()
        service = [r.work / 1e9 for r in records]
        response = math.fsum((r.ended - r.arrived) / 1e9 for r in records) / jobs
        busy = simulation.stats().busy_parallel / (simulation.stats().now / 1e9)
    return math.fsum(service) / jobs, math.fsum(x * x for x in service) / jobs, busy, response


@pytest.mark.parametrize("load_", [0.3, 0.6])
def test_small_quanta_share_the_processor(load_: float) -> None:
    """M/G/1-PS: E[T] = E[S] / (1 - rho), for all programs."""
    service, _, busy, response = _one_node(load_, 80_000, quantum_ms=1)
    assert busy == pytest.approx(load_, rel=0.02)
    assert response == pytest.approx(service / (1 - busy), rel=0.01)


def test_one_at_a_time_is_first_come_first_served() -> None:
    """M/G/1: Pollaczek-Khinchine, with an MPL of 1."""
    service, square, busy, response = _one_node(0.5, 150_000, mpl=1)
    assert response == pytest.approx(service + busy / service * square / 2 / (1 - busy), rel=0.01)


CROWDED = {"users": "internet", "locals": 12, "work_scale": 0.03, "workload": "COM_H", "mpl_of": "node",
           "memory_scale": 3.0, "mit_s": 1.0, "stay_short_min": 0.2, "stay_long_min": 1.0, "idle_s": 5.0}  # fmt: skip


@pytest.mark.parametrize("name", MODEL.policies)
def test_the_checked_engine_finds_nothing_wrong(name: str) -> None:
    """Idle CPUs beside ready tasks, lost tasks, torn queues, stopped tasks that run, memory that does not add up."""
    for changes in (
        {},
        {"loss": 0.1, "jitter_ms": 500.0, "lease_s": 3.0, "now": "C(.25)"},
        {"touch_ms": 0.0, "credit": "on", "top": "next", "enter": "free"},
        {"governor": "on", "sample_s": 0.5, "mpl": 6, "cpu_max": 1.2, "calm": 1, "workload": "COM_M"},
    ):
        result = run(name, MODEL.complete(CROWDED | changes), 5, kind=CHECKED)
        assert result["arrivals"] == 48
        assert result["faults"] > 100 and result["blocks"] > 100 and result["sojourns"] > 0
        assert ("governor" in changes) == (result["kills"] > 0)
        assert (name in ("poly", "ccs")) == (result["stops"] > 0) == (result["withheld"] > 0)
        assert (name == "ccs") == (result["heard"] > 0)
        assert (name == "ccs" and "loss" in changes) == (result["lost"] > 0)
        assert (name == "implicit") == (result["spun_s"] > 0)
        equal = result["epoch_slow_ms"] == pytest.approx(result["epoch_fast_ms"], rel=1 / 512)  # 1/W in 1/1024
        assert (name in ("zhang", "ccs")) == equal, "eq. 3 and 4: MPL times quantum"
        assert result["resumes"] <= result["stops"]


@pytest.mark.parametrize("name", ["implicit", "ccs"])
def test_a_seed_is_a_run(name: str) -> None:
    """Twice, unoptimised, and checked: the same to the last bit. Another seed is another run."""
    values = MODEL.complete(CROWDED | {"loss": 0.1, "jitter_ms": 50.0})
    once, again, plain, checked = (run(name, values, 9, kind=kind) for kind in ("", "", PLAIN, CHECKED))
    assert once == again == plain == checked
    assert once["end_s"] != run(name, values, 10)["end_s"]


def test_a_pause_changes_nothing() -> None:
    values = MODEL.complete(CROWDED)
    with Simulation("ccs", values, 9) as simulation:
        at = 0.0
        while not simulation.advance(until_s=at):
            simulation.stats()
            at += 7
        paused = [(r.began, r.ended, r.cpu, r.faults) for r in simulation.records()]
    with Simulation("ccs", values, 9) as simulation:
        assert simulation.advance()
        assert paused == [(r.began, r.ended, r.cpu, r.faults) for r in simulation.records()]


def test_policies_meet_the_same_jobs_and_users() -> None:
    met = []
    for name in ("rr", "ccs"):
        with Simulation(name, MODEL.complete({"work_scale": 0.1}), 4) as simulation:
            users = [(v.job, v.vir, v.wrk) for k in range(16) for v in _views(simulation, k)]
            assert simulation.advance()
            met.append((users, [(r.arrived, r.work, r.program, r.size, r.vir) for r in simulation.records()]))
    assert met[0] == met[1]
    assert len(met[0][0]) == 8


def _views(simulation: Simulation, node: int) -> list[Any]:
    views = simulation.engine.ffi.new("struct sim_view[]", 64)
    n = simulation.engine.lib.sim_node_tasks(simulation._sim, node, views, 64)
    return list(views[0:n])


def test_nodes_are_those_of_table_1() -> None:
    for name, kinds in NOWS.items():
        nodes = nodes_of(MODEL.complete({"now": name}))
        heterogeneity = sum(1 - weight for weight, _ in nodes) / len(nodes)  # eq. 2
        assert heterogeneity == pytest.approx(float(name[2:-1]), abs=1e-9)
        assert len(nodes) == sum(kind.of_16 for kind in kinds) == 16


@pytest.mark.parametrize(("now", "node", "weight"), [("C(0)", 3, 1.0), ("C(.15)", 12, 0.7), ("C(.25)", 12, 0.5)])
def test_a_job_alone_takes_as_much_longer_as_its_node_is_slower(now: str, node: int, weight: float) -> None:
    job = Job(1.0, 70.0, 1000, 2, node, gap_ms=10.0, delay_ms=0.0)
    with Simulation("dyn", MODEL.complete({"now": now, "locals": 0, "switch_us": 0}), 1, [job]) as simulation:
        assert simulation.advance()
        record = simulation.records()[0]
    assert (record.ended - record.began) / 1e9 == pytest.approx(70 / weight, rel=1e-6)
    assert record.cpu / 1e9 == pytest.approx(140 / weight, rel=1e-6)
    assert record.all_run / record.any_run == pytest.approx(1, rel=1e-6), "its two tasks always run together"


def test_messages_take_their_time() -> None:
    """Two tasks in step: after each message both wait for the other's: a job is its work and its messages' delays."""
    job = Job(0.0, 20.0, 1000, 2, 0, gap_ms=40.0, delay_ms=60.0)
    with Simulation("dyn", MODEL.complete({"locals": 0, "switch_us": 0, "now": "C(0)"}), 3, [job]) as simulation:
        assert simulation.advance()
        record, messages = simulation.records()[0], simulation.stats().messages
    steps = messages / 2  # the last events, about the end, are still under way
    assert (record.ended - record.began) / 1e9 == pytest.approx(20 + steps * 0.06, rel=1e-7)


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("share_l", [0.25, 0.5, 1.0])
def test_the_share_of_a_busy_local_task_is_one_in_one_plus_m_l(m: int, share_l: float) -> None:
    """B-CCS-15: beside m parallel tasks that never wait, for any L."""
    values = MODEL.complete({"nodes": 1, "now": "C(0)", "locals": 1, "users": "busy", "share_l": share_l, "mpl": 3,
                             "size_from": 1, "size_to": 1, "stay_short_min": 1e5, "stay_long_min": 1e5})  # fmt: skip
    jobs = [Job(0.0, 1e6, 100, 1, 0) for _ in range(m)]
    with Simulation("ccs", values, 1, jobs) as simulation:
        simulation.advance(until_s=5)
        before = {(v.local, v.job): v.cpu_s for v in simulation.node(0)}
        simulation.advance(until_s=305)
        local = next(v.cpu_s for v in simulation.node(0) if v.local) - before[True, 0]
    assert local / 300 == pytest.approx(1 / (1 + m * share_l), abs=0.005)


@pytest.mark.parametrize("m", [0, 1, 3])
@pytest.mark.parametrize("share_l", [0.25, 1.0])
def test_a_system_call_waits_for_the_quanta_of_those_ahead(m: int, share_l: float) -> None:
    """Alone not at all; beside m tasks that never wait at most for an epoch's end and the next epoch's m quanta."""
    values = MODEL.complete({"nodes": 1, "now": "C(0)", "locals": 1, "users": "shell", "share_l": share_l,
                             "switch_us": 0, "size_from": 1, "size_to": 1, "stay_short_min": 1e5,
                             "stay_long_min": 1e5})  # fmt: skip
    jobs = [Job(0.0 if m else 1e5, 1e6, 100, 1, 0) for _ in range(m or 1)]
    with Simulation("ccs", values, 1, jobs) as simulation:
        simulation.advance(until_s=600)
        stats = simulation.stats()
        assert stats.calls > 500
        assert stats.scl_max <= 2 * m * share_l * 0.210 + 1e-9
        assert stats.scl_sum / stats.calls >= 0.3 * m * share_l * 0.210


def test_sleepers_go_ahead_where_credit_is_on() -> None:
    found = {}
    for credit in ("off", "on"):
        found[credit] = run("rr", MODEL.complete({"work_scale": 0.2, "credit": credit, "users": "shell"}), 1)
    assert found["on"]["credits"] > 1000 > found["off"]["credits"] == 0
    assert found["on"]["scl_ms"] < 0.6 * found["off"]["scl_ms"]


FIG3 = {"trial": "fig3", "nodes": 5, "now": "C(0)", "locals": 2, "users": "busy", "place": "first", "share_l": 0.2,
        "stay_short_min": 1e5, "stay_long_min": 1e5}  # fmt: skip


@pytest.mark.parametrize(("changes", "part"), [({}, 5 / 6), ({"events": "off"}, 0.5), ({"loss": 1.0}, 0.5),
                                              ({"loss": 0.2, "jitter_ms": 100.0}, 5 / 6)])  # fmt: skip
def test_figure_3(changes: dict[str, object], part: float) -> None:
    """Job_2 has what Job_1 leaves on N3 and N4 if, and only if, events arrive; some are enough (B-CCS-12)."""
    found = run("ccs", MODEL.complete(FIG3 | changes), 1)
    assert found["job2_N3"] == pytest.approx(part, abs=0.01)
    assert found["job1_N3"] == pytest.approx(1 - part, abs=0.01)
    assert found["job1_N1"] == pytest.approx(1 / 6, abs=0.01)
    assert found["job2_N5"] == pytest.approx(1, abs=0.01)


def test_a_stopped_job_does_not_run_and_goes_on_when_the_user_has_gone() -> None:
    """One node of four has a user and swaps: events stop the job on all of them. Then the user's time is over."""
    values = MODEL.complete({"nodes": 4, "now": "C(0)", "locals": 4, "users": "statistic", "place": "first",
                             "stay_short_min": 1e5, "stay_long_min": 1e5, "size_to": 4, "share_l": 0.25})  # fmt: skip
    jobs = [Job(0.0, 1e6, mb * PAGES_MB, 4, 0) for mb in (240, 300)]
    with Simulation("ccs", values, 2, jobs) as simulation:
        while not simulation.stats().stops:
            simulation.advance(until_s=simulation.stats().now / 1e9 + 0.1)
        simulation.advance(until_s=simulation.stats().now / 1e9 + 1.5)
        states = [{v.job: v.state for v in simulation.node(k) if not v.local} for k in range(4)]
        stopped = {job for state in states for job, s in state.items() if s == 2}
        assert stopped and all(state == states[0] for state in states), "one word holds on every node"
        cpu = [v.cpu_s for k in range(4) for v in simulation.node(k) if v.job in stopped and not v.local]
        resumes = simulation.stats().resumes
        simulation.advance(until_s=simulation.stats().now / 1e9 + 0.2)
        if simulation.stats().resumes == resumes:
            assert cpu == [v.cpu_s for k in range(4) for v in simulation.node(k) if v.job in stopped and not v.local]
    short = MODEL.complete({**values, "users": "nobody", "locals": 0})
    with Simulation("ccs", short, 2, jobs) as simulation:
        simulation.advance(until_s=120)
        assert simulation.stats().stops == 0, "without a user nobody is stopped"


THREE = [Job(0.0, 1e6, mb * PAGES_MB, 1, 0) for mb in (100, 240, 300)]


@pytest.mark.parametrize(("name", "loses"), [("ccs", False), ("rr", True)])
def test_who_loses_pages(name: str, loses: bool) -> None:
    """Jobs over their pool take pages from each other, stopped ones first, never from a user; under LRU all lose."""
    values = MODEL.complete({"nodes": 1, "now": "C(0)", "locals": 1, "users": "internet", "size_from": 1, "size_to": 1,
                             "stay_short_min": 1e5, "stay_long_min": 1e5, "share_l": 0.25, "mpl": 3})  # fmt: skip
    fell, stopped_lost, seen = False, False, dict[int, int]()
    with Simulation(name, values, 3, THREE) as simulation:
        for step in range(1, 1200):
            simulation.advance(until_s=step / 20)
            for view in simulation.node(0):
                before = seen.get(view.job + 100 * view.local, 0)
                fell |= view.local and view.res < before
                stopped_lost |= view.state == 2 and view.res < before
                seen[view.job + 100 * view.local] = view.res
        assert simulation.stats().faults > 300
    assert (fell, stopped_lost) == (loses, not loses)


@pytest.mark.parametrize("more", [0, 1])
def test_overload_is_one_page_more_than_there_is(more: int) -> None:
    """FLT decides where tasks ask for more than there is, COM elsewhere."""
    values = MODEL.complete({"nodes": 1, "now": "C(0)", "locals": 0, "size_from": 1, "size_to": 1, "memory": "off"})
    jobs = [Job(0.0, 1e6, pages, 1, 0) for pages in (100_000, 512 * PAGES_MB - 100_000 + more)]
    with Simulation("ccs", values, 1, jobs) as simulation:
        simulation.advance(until_s=10)
        before = simulation.stats().by_mes, simulation.stats().by_flt
        simulation.advance(until_s=60)
        after = simulation.stats().by_mes, simulation.stats().by_flt
    assert after[more] > before[more] + 100
    assert after[1 - more] == before[1 - more]


def test_flt_is_of_the_last_second() -> None:
    """Two jobs whose working sets fit in, though they do not: they fault until those are there, and then no more."""
    values = MODEL.complete({"nodes": 1, "now": "C(0)", "locals": 0, "size_from": 1, "size_to": 1, "memory": "off",
                             "wrk_sd": 0, "enter": "free", "cluster": 128})  # fmt: skip
    jobs = [Job(0.0, 1e6, 300 * PAGES_MB, 1, 0) for _ in range(2)]
    with Simulation("ccs", values, 1, jobs, kind=CHECKED) as simulation:
        simulation.advance(until_s=5)
        log, n = simulation.decisions()
        assert 3 < max(d.h.flt for d in log[0:n]) < simulation.stats().faults
        simulation.advance(until_s=100)
        faults = simulation.stats().faults
        simulation.decisions()
        simulation.advance(until_s=130)
        log, n = simulation.decisions()
        assert n > 20 and simulation.stats().faults == faults
        assert all(d.env.overloaded and d.h.flt == 0 for d in log[0:n])


def test_what_the_governor_kills_is_done_again() -> None:
    values = MODEL.complete({"work_scale": 0.05, "governor": "on", "sample_s": 1.0, "mpl": 6, "cpu_max": 1.2, "calm": 2,
                             "now": "C(0)"})  # fmt: skip
    result = run("dyn", values, 3)
    with Simulation("dyn", values, 3) as simulation:
        simulation.advance()
        records = simulation.records()
    assert result["kills"] == sum(r.kills for r in records) > 0
    assert all(r.ended for r in records)
    assert result["busy_parallel_s"] > sum(r.work for r in records) / 1e9
    assert result["starts"] == len(records) + result["kills"]


def test_local_memory_is_never_less_than_a_user_expects() -> None:
    """CCS-26: M_Local >= M (1 - L), eq. 5."""
    for now in NOWS:
        for share_l in (0.0, 0.25, 0.33, 0.5, 1.0):
            with Simulation("ccs", MODEL.complete({"now": now, "share_l": share_l}), 1) as simulation:
                for node in range(16):
                    view = simulation.contract(node)
                    assert view.m_local + view.m_paral == view.frames
                    assert view.m_local >= view.frames * (1 - share_l) - 1e-6


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"mpl": 0}, "parameter mpl cannot be 0: allowed is a whole number, 1 to 64 tasks"),
        ({"loss": 1.5}, "parameter loss cannot be 1.5: allowed is a number, 0 to 1"),
        ({"now": "C(1)"}, "parameter now cannot be 'C(1)': allowed is C(0) or C(.15) or C(.25)"),
        ({"locals": 17}, "parameter locals cannot be 17: allowed is 0 to 16"),
        ({"users": "nobody"}, "parameter locals cannot be 8 with users=nobody: allowed is 0 users"),
        ({"size_to": 32}, "parameter size_to cannot be 32: allowed is 4 (size_from) to 16 (nodes) tasks"),
        ({"size_from": 3}, "parameter size_from cannot be 3: allowed is a power of 2"),
        ({"trial": "fig3"}, "parameter nodes cannot be 16 in trial fig3: allowed is 5"),
        ({"quantum": "yes"}, "parameter quantum cannot be 'yes': allowed is policy or on or off"),
    ],
)
def test_what_a_parameter_may_not_be_is_refused_by_name_range_and_unit(given: dict[str, object], says: str) -> None:
    with pytest.raises(CoschedError) as refused:
        MODEL.complete(given)
    assert says in str(refused.value)
    assert refused.value.status == USAGE


def test_every_claim_has_a_row() -> None:
    assert [claim for claim in CLAIMS if claim.startswith("CCS-")] == [f"CCS-{n}" for n in range(1, 44)]
