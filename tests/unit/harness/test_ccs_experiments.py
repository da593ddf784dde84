# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiments of CCS: their plan, their statistics, the verdicts on claims. No machine is booted."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ctl import policy
from ctl.policy import values as knob_values
from tests.experiments import ccs, ccs_report, ccs_stats
from tests.experiments import ccs_plan as plan
from tests.experiments.ccs_claims import CLAIMS, Results, check
from tests.experiments.ccs_jobs import together
from tests.experiments.ccs_plan import EXPERIMENTS, Case

PROGS = Path(__file__).resolve().parents[2] / "progs"
MODULES = EXPERIMENTS["ccs-modules"]

ALONE: dict[str, Any] = {
    "config": "alone",
    "repetition": 0,
    "commit": "c",
    "jobs": {"mg": {"seconds": 8.0, "cpu_s": 7.0}, "cg": {"seconds": 12.0, "cpu_s": 11.0}},
    "locals": {"shell": {"cycles": 40.0, "start_s": 0.5, "seconds": 8.0, "active_s": 3.2}},
}


def run(
    workload: str,
    config: str,
    repetition: int = 0,
    *,
    seconds: float | None = 8.0,
    slowdown: float = 1.0,
    p99: float = 5.0,
) -> dict[str, Any]:
    """A run with two jobs and one user."""
    user = {"profile": "shell", "cycles": 80.0, "start_s": 0.5, "seconds": 16.5 * slowdown - 0.5, "active_s": 6.4}
    job = {"together": 0.5, "mpi_cpu_s": 1.0}
    return {
        "workload": workload,
        "config": config,
        "repetition": repetition,
        "commit": "c",
        "makespan_s": 30.0,
        "jobs": [{"kernel": "mg", "seconds": seconds, **job}, {"kernel": "cg", "seconds": 12.0, **job}],
        "locals": [user],
        "latency": {"p50": 1.0, "p99": p99, "max": 9.0, "count": 320},
        "nodes": [{"pgmajfault": 10}, {"pgmajfault": 20}],
    }


def alone(*workloads: str) -> list[dict[str, Any]]:
    return [{**ALONE, "workload": workload} for workload in workloads]


# statistics


def test_the_interval_is_students() -> None:
    found = ccs_stats.mean([10.0, 12.0, 14.0, 16.0, 18.0])
    assert found is not None and found.value == 14.0 and found.runs == 5
    assert found.half == pytest.approx(2.776 * 3.1623 / 5**0.5, rel=1e-4)
    assert ccs_stats.mean([]) is None
    one = ccs_stats.mean([3.0])
    assert one is not None and one.half is None and str(one) == "3.00"


def test_ratios_are_of_the_same_repetition() -> None:
    found = ccs_stats.ratio({0: 4.0, 1: 30.0, 2: 5.0}, {0: 2.0, 1: 10.0, 3: 1.0})
    assert found is not None and (found.value, found.runs) == (2.5, 2)
    assert ccs_stats.ratio({0: 1.0}, {1: 1.0}) is None


def test_speedup_is_equation_7_and_slowdown_counts_cycles() -> None:
    figures = ccs_stats.figures(run("fits", "ccs", seconds=4.0, slowdown=2.0), ALONE)
    assert figures["speedup"] == pytest.approx((8 / 4 + 12 / 12) / 2)
    assert figures["slowdown"] == pytest.approx(2.0)
    assert figures["active"] == pytest.approx(1.0)
    assert (figures["faults"], figures["together"], figures["mpi_cpu_s"], figures["unfinished"]) == (30, 0.5, 2.0, 0)


def test_a_job_that_did_not_end_has_no_speedup() -> None:
    figures = ccs_stats.figures(run("fits", "ccs", seconds=None), ALONE)
    assert figures["speedup"] == pytest.approx(0.5) and figures["unfinished"] == 1


def test_a_run_without_users_has_no_slowdown() -> None:
    figures = ccs_stats.figures({**run("fits", "ccs"), "locals": [], "latency": {}}, ALONE)
    assert "slowdown" not in figures and "p99_ms" not in figures and "speedup" in figures


def test_completion_is_by_the_experiments_clock_and_counts_the_time_before_a_job_runs() -> None:
    jobs = [
        {"kernel": "mg", "opened_s": 0.0, "ended_s": 16.0, "seconds": 2.0, "together": None},
        {"kernel": "cg", "opened_s": 4.0, "ended_s": None, "seconds": None, "together": None},
    ]
    figures = ccs_stats.figures({**run("overload", "fit"), "jobs": jobs}, ALONE)
    assert (figures["completion"], figures["wait"]) == ((16 + 30) / 2, 26)
    assert figures["speedup"] == pytest.approx(8 / 16 / 2)
    assert "completion" not in ccs_stats.figures(run("overload", "ccs"), ALONE), "runs made before have no such times"


def test_the_least_possible_is_the_shortest_job_first_without_anything_else() -> None:
    times = {"opened_s": 0.0, "ended_s": 25.0, "seconds": 25.0, "together": None}
    jobs = [{"kernel": "cg", **times}, {"kernel": "mg", **times}]
    two = ccs_stats.figures({**run("overload", "fit"), "jobs": jobs}, ALONE)
    assert two["of_limit"] == pytest.approx(25 / ((3.5 + 9) / 2)), "a rank of mg has 3.5 s to do, one of cg 5.5"
    wide = [job | {"ranks": ranks} for job, ranks in zip(jobs, (4, 2), strict=True)]
    four = ccs_stats.figures({**run("overload", "fit"), "jobs": wide, "nodes": [{"pgmajfault": 0}] * 4}, ALONE)
    assert four["of_limit"] == pytest.approx(25 / ((1.75 + 7.25) / 2)), "mg 3.5 * 2 / 4, cg 5.5 * 4 / 4"
    assert "of_limit" not in ccs_stats.figures(run("overload", "ccs"), ALONE), "runs made before have no such times"


# ranks at once

RANKS = {"a": {"node1": [11], "node2": [21]}, "b": {"node1": [12], "node2": [22]}}


def test_together_counts_moments_of_the_same_job() -> None:
    first = [(4.0 * n, pid) for n, pid in enumerate((11, 11, 12, 12, 0, 11))]
    second = [(4.0 * n + 1.5, pid) for n, pid in enumerate((21, 22, 22, 99, 22, 0))]
    # a: node1 in 3 moments, node2 in 1, at once in 1; b: 2, 3, at once in 1
    assert together({"node1": first, "node2": second}, RANKS, 0, 100) == {"a": 0.5, "b": 0.4}
    assert together({"node1": first, "node2": second}, RANKS, 0, 2) == {"a": 1.0, "b": None}


def test_together_leaves_out_moments_that_one_node_has_not() -> None:
    first: list[tuple[float, int]] = [(0.0, 11), (50.0, 11)]
    assert together({"node1": first, "node2": [(1.0, 21), (20.0, 99)]}, RANKS, 0, 100)["a"] == 1.0
    assert together({"node1": first[:1], "node2": []}, RANKS, 0, 100)["a"] is None


def test_together_is_on_all_nodes_of_a_job() -> None:
    taken = {
        "node1": [(0.0, 9), (4.0, 9), (8.0, 9)],
        "node2": [(0.5, 21), (4.5, 21), (8.5, 0)],
        "node3": [(0.0, 31), (4.0, 31), (8.0, 31)],
        "node4": [(0.0, 41), (4.0, 0), (8.0, 0)],
    }
    ranks = {"wide": {"node2": [21], "node3": [31], "node4": [41]}, "narrow": {"node3": [31], "node4": [41]}}
    # wide: 2 + 3 + 1 moments on a node, 1 on all; narrow: 3 + 1, 1 on both
    assert together(taken, ranks, 0, 100) == {"wide": 0.5, "narrow": 0.5}


def test_jobs_of_four_nodes_have_as_many_ranks_on_each() -> None:
    workload = EXPERIMENTS["fit-4"].workloads[0]
    held = [workload.hosts(job) for job in range(len(plan.MIXES[workload.mix]))]
    assert [len(hosts) for hosts in held] == [4, 2, 2] * 3
    assert {node: sum(node in hosts for hosts in held) for node in workload.nodes} == dict.fromkeys(workload.nodes, 6)
    assert {each.hosts(0) for each in EXPERIMENTS["fit"].workloads} == {("node1", "node2")}


# plan


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_repetition_has_every_case_once(name: str) -> None:
    experiment = EXPERIMENTS[name]
    both = [list(experiment.cases(repetition)) for repetition in (0, 1)]
    pairs = set(itertools.product((each.name for each in experiment.workloads), experiment.configs))
    for cases in both:
        measured = [(case.workload, case.config) for case in cases if case.config != "alone"]
        assert len(measured) == len(pairs) and set(measured) == pairs
    assert [case.workload for case in both[0] if case.config == "alone"] == [each.name for each in experiment.workloads]
    assert not any(case.config == "alone" for case in both[1])
    assert both[0][-1].config == both[1][0].config == experiment.configs[-1], "the order turns"
    assert {case.config for case in experiment.cases(0, experiment.short)} == {"alone", *experiment.short[1:]}


def test_names_of_one_kind_leave_all_of_the_other() -> None:
    """--only overload measures every configuration, --only ccs every workload, and a slip of the pen nothing."""
    experiment = plan.EXPERIMENTS["ccs-modules"]
    overload = [case for case in experiment.cases(1) if case.workload == "overload"]
    assert list(experiment.cases(1, ("overload",))) == overload
    assert list(experiment.cases(1, ("ccs",))) == [case for case in experiment.cases(1) if case.config == "ccs"]
    assert experiment.unknown(("overload", "css", "ccs")) == ["css"]


def test_users_are_the_same_for_every_configuration_and_differ_by_repetition() -> None:
    def first(workload: str, repetition: int) -> list[plan.Session]:
        return list(itertools.islice(plan.sessions(MODULES.workload(workload), repetition), 20))

    assert first("fits", 0) == first("fits", 0) != first("fits", 1)
    assert {each.profile for each in first("overload", 3)} == {"internet"}
    mixed = itertools.islice(plan.sessions(plan.Workload("any"), 0), 4000)
    part = [each.profile for each in mixed].count("xwin") / 4000
    assert part == pytest.approx(0.62, abs=0.05)


def test_jobs_are_the_same_for_every_configuration_and_their_order_differs_by_seed() -> None:
    orders = {tuple(plan.mix(MODULES.workload("fits"), seed)) for seed in range(20)}
    assert plan.mix(MODULES.workload("fits"), 1) == plan.mix(MODULES.workload("fits"), 1)
    assert len(orders) > 5 and {tuple(sorted(order)) for order in orders} == {tuple(sorted(plan.MIXES["COM_M"]))}


def test_stays_are_hyper_exponential() -> None:
    lengths = [each.seconds for each in itertools.islice(plan.sessions(plan.Workload("any"), 1), 20000)]
    mean = 0.6 * 5 + 0.4 * 30
    assert sum(lengths) / len(lengths) == pytest.approx(mean, rel=0.08)
    variance = sum((each - mean) ** 2 for each in lengths) / len(lengths)
    assert variance / mean**2 > 1.7, "more than exponential (2.33, less what the shortest stay takes off)"


@pytest.mark.parametrize("name", plan.CONFIGS)
def test_configurations_are_policies_and_knobs_there_are(name: str) -> None:
    config = plan.CONFIGS[name]
    if config.policy is None:
        assert not config.knobs
    else:
        policy.find_policy(config.policy)
        knob_values.parse_assignments([f"{knob}={value}" for knob, value in config.knobs.items()])


def test_stages_add_one_module_each() -> None:
    row, on = policy.POLICIES["ccs"], []
    for name in ("+Insert_RQ", "+Set_Memory", "+Set_Quantum", "ccs"):
        knobs = plan.CONFIGS[name].knobs
        on.append([module for module in policy.MODULES if policy.is_on(row, module, knobs)])
    assert on == [[], ["memory"], ["quantum", "memory"], ["quantum", "memory", "events"]]


def test_one_workload_fits_and_one_does_not() -> None:
    mix = [plan.KERNELS[kernel].memory for kernel in plan.MIXES["COM_M"]]
    threes = [sum(mix[i : i + 3]) for i in range(len(mix) - 2)]
    assert max(threes) + plan.PROFILES["shell"].memory < 0.85
    assert min(threes) + plan.PROFILES["internet"].memory > 1.05
    assert min(threes) > 0.5, "more than M_Paral: Set_Memory has something to do"


def test_every_program_is_there() -> None:
    assert all((PROGS / f"nas/{kernel}.c").exists() for mix in plan.MIXES.values() for kernel in mix)
    assert all(
        mix in plan.MIXES and users in {*plan.PROFILES, "mix"}
        for mix, users in (
            (each.mix, each.users) for experiment in EXPERIMENTS.values() for each in experiment.workloads
        )
    )


# claims


def results(**speedups: float) -> Results:
    """Runs under overload with so much speedup (of both jobs, roughly), three repetitions of each."""
    runs = alone("overload", "fits")
    for config, seconds in speedups.items():
        runs += [run("overload", config.replace("_RQ", "+Insert_RQ"), n, seconds=seconds) for n in range(3)]
    return Results(runs)


def verdict(name: str, found: Results) -> str:
    return next(each.verdict for each in check(CLAIMS["ccs-modules"], found) if each.claim.id == name)


def test_a_claim_is_reproduced_within_its_tolerance_only() -> None:
    # dyn: (8/8 + 1)/2 = 1; Insert_RQ: (8/s + 1)/2
    assert verdict("CCS-1", results(dyn=8.0, _RQ=8 / 3)) == "reproduced"  # 2.0
    assert verdict("CCS-1", results(dyn=8.0, _RQ=8 / 1.9)) == "not reproduced"  # 1.45
    assert verdict("CCS-1", results(dyn=8.0, _RQ=8 / 4.2)) == "not reproduced"  # 2.6: more is not what was said


def test_a_claim_whose_runs_are_missing_is_not_checkable() -> None:
    assert verdict("CCS-1", results(dyn=8.0)) == "not checkable: no speedup of +Insert_RQ under overload"
    assert verdict("CCS-7", results(dyn=8.0)).startswith("not checkable")


def test_goals_are_held_against_what_was_measured() -> None:
    def goals(ccs_run: dict[str, Any]) -> list[str]:
        found = Results([*alone("overload"), run("overload", "eevdf"), ccs_run])
        return [each.verdict for each in check(CLAIMS["ccs-modules"], found) if each.claim.id == "goal"]

    good = run("overload", "ccs", seconds=2.0, slowdown=1.5, p99=300)
    assert goals(good) == ["reproduced"] * 3
    assert goals(run("overload", "ccs", seconds=4.0, slowdown=2.5, p99=500)) == ["not reproduced"] * 3


def test_goals_of_fit() -> None:
    def goals(soon: float, slowdown: float) -> list[str]:
        workloads = ("overload", "fits", "read-ahead")
        runs = alone(*workloads)
        for config, end in (("eevdf", 20.0), ("slurm-gang", 10.0), ("fit", soon)):
            times = {"opened_s": 0.0, "ended_s": end}
            for workload in workloads:
                one = run(workload, config, slowdown=slowdown if config == "fit" else 3.0)
                runs.append({**one, "jobs": [job | times for job in one["jobs"]]})
        return [each.verdict for each in check(CLAIMS["fit"], Results(runs))]

    yes, no = "reproduced", "not reproduced"
    assert goals(8.0, 1.2) == [yes] * 8
    assert goals(8.5, 1.4) == [no, yes, no, yes, no, yes, yes, yes]
    assert goals(8.0, 1.6) == [yes, yes, no, yes, yes, no, yes, yes]


def test_every_claim_of_these_figures_is_there() -> None:
    named = [claim.id for claims in CLAIMS.values() for claim in claims if not claim.id.startswith("goal")]
    assert named == [f"CCS-{number}" for number in (*range(1, 8), *range(11, 24))]


def test_claims_of_share_and_heterogeneity_can_be_found() -> None:
    for name in ("ccs-share", "ccs-hetero"):
        experiment = EXPERIMENTS[name]
        runs = alone(*(each.name for each in experiment.workloads))
        runs += [
            run(each.name, config, n)
            for each in experiment.workloads
            for config in experiment.configs
            for n in range(2)
        ]
        verdicts = check(CLAIMS[name], Results(runs))
        assert {each.verdict for each in verdicts} <= {"reproduced", "not reproduced"}


# engine


def test_a_step_back_is_to_be_worse_for_local_users() -> None:
    base, slow = run("overload", "eevdf"), run("overload", "ccs", seconds=20.0)
    users = {factor: [{**user, "seconds": factor * user["seconds"]} for user in base["locals"]] for factor in (0.5, 2)}
    assert ccs.directions([base, {**slow, "locals": users[0.5]}], "overload", "ccs", "eevdf")[0]
    assert not ccs.directions([base, {**slow, "locals": users[2]}], "overload", "ccs", "eevdf")[0]


@pytest.mark.parametrize(("new", "words"), [({"host_load": 9}, "the same"), ({"makespan_s": 31}, "other makespan_s")])
def test_a_run_made_again_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], new: dict[str, Any], words: str
) -> None:
    asked: list[int] = []

    def boot(cases: list[Case], kept: ccs.Kept, _console: object, ends: Callable[[ccs.Run], bool]) -> int:
        asked.append(len(cases))
        for case in cases:
            kept.add(run(case.workload, case.config, case.repetition) | ({} if len(asked) == 1 else new))
            if ends(kept.runs[-1]):
                break
        return 0

    monkeypatch.setattr(ccs, "_boot", boot)
    cases = list(MODULES.cases(0))
    kept = ccs.Kept(tmp_path / "runs.jsonl")
    if words == "the same":
        ccs._check_again(cases, 1, kept, Console())
    else:
        with pytest.raises(SystemExit, match="1"):
            ccs._check_again(cases, 1, kept, Console())
    assert words in capsys.readouterr().out
    assert asked == [len(cases)] * 2 and len(kept.runs) == 1, "the whole list is asked for, the first is made"


@pytest.mark.parametrize(("cycles", "status"), [((1,), 0), ((3, 0.5), 0), ((3, 3), 1)])
def test_the_short_form_looks_twice_before_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cycles: tuple[float, ...], status: int
) -> None:
    def boot(cases: list[Case], kept: ccs.Kept, _console: object) -> int:
        for case in cases:
            made = run(case.workload, case.config, case.repetition)
            factor = cycles[case.repetition] if case.config == "ccs" else 2
            kept.add({**made, "locals": [{**user, "seconds": factor * user["seconds"]} for user in made["locals"]]})
        return 0

    monkeypatch.setattr(ccs, "_boot", boot)
    kept = ccs.Kept(tmp_path / "runs.jsonl")
    if status:
        with pytest.raises(SystemExit, match="1"):
            ccs._check_short(MODULES, kept, Console())
    else:
        ccs._check_short(MODULES, kept, Console())
    assert len(kept.runs) == 2 * len(cycles)


def test_results_are_told_and_drawn(tmp_path: Path) -> None:
    found = Results(
        [
            *alone("fits", "overload"),
            *(run(w, c, n) for w in ("fits", "overload") for c in MODULES.configs for n in range(5)),
        ]
    )
    text = ccs_report.markdown(MODULES, found, "just experiment ccs-modules", "abc1234")
    assert "`just experiment ccs-modules` at abc1234: " in text
    assert "| overload | ccs | 5 | 1.00 ± 0.00 |" in text and "CCS-7" in text and "hyper-exponential" in text
    ccs_report.plot(MODULES, found, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
