# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiment `monito`: the verdicts on Monito's claims, its report. No machine is booted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ctl import policy
from ctl.policy import values as knob_values
from tests.experiments.monito_claims import CLAIMS, Results
from tests.experiments.monito_plan import MODES, OURS, PROGRAMS, cases, knobs
from tests.experiments.monito_report import markdown
from tests.experiments.verdicts import judge

PROGS = Path(__file__).resolve().parents[2] / "progs"

# as Monito F. 4 has them, beside no and one compiler
TIMES = {
    "PVM": (2.0, 4.0), "SPIN": (1.9, 3.5), "MXI": (1.8, 3.2), "MXISPIN": (1.85, 3.3), "PRIO": (1.7, 1.8),
    "PRIOSPIN": (1.75, 1.9), "EXPLICIT": (2.2, 2.3),
}  # fmt: skip
TABLE_3 = {
    "sintree": {"PRIO": 1.4, "PRIOSPIN": 1.4, "EXPLICIT": 1.4, "SPIN": 3.6, "MXI": 1.4, "MXISPIN": 3.6},
    "is": {"PRIO": 2.8, "PRIOSPIN": 2.8, "EXPLICIT": 4.2, "SPIN": 2.1, "MXI": 0.0, "MXISPIN": 2.1},
    "mg": {"PRIO": 90.0, "PRIOSPIN": 92.0, "EXPLICIT": 42.0, "SPIN": 8.0, "MXI": 1.6, "MXISPIN": 8.0},
}
SWITCHES = {"kind": "switches", "switch_us": 10.0, "signal_us": 4.0, "start_us": 24.0, "stop_us": 26.0}
QUEUES: dict[str, Any] = {
    "kind": "queues", "load": 3,
    "peaks": {"sockets.rcv_fill": 100, "sockets.rcv_bytes": 65535, "qdisc.packets": 5, "softnet.packets": 1},
    "capacities": {"qdisc.packets": 1000, "softnet.packets": 1000},
    "report": {"samples": 9, "period_s": 0.02, "cpu_share": 0.01, "overlapped": 0.5, "longest_excess_s": 0.001},
}  # fmt: skip


def measured(**changed: Mapping[str, tuple[float, float]]) -> list[dict[str, Any]]:
    """All measurements as the paper has them; changed: programs with other times, by mode."""
    times = {program: TIMES | dict(changed.get(program, {})) for program in PROGRAMS}
    times["is"] = times["is"] | {"SPIN": (2.0, 4.0)} if "is" not in changed else times["is"]
    found = [
        {"kind": "time", "program": program, "mode": mode, "load": load, "seconds": seconds}
        for program, modes in times.items() for mode, both in modes.items() for load, seconds in enumerate(both)
    ]  # fmt: skip
    for program, slower in TABLE_3.items():
        for mode in MODES:
            took = 2.0 * (1 + slower.get(mode, 0.0) / 100)
            found.append({"kind": "local", "program": program, "mode": mode, "compile_s": [took - 0.1, took + 0.1]})
    return [{**one, "seed": 1, "nodes": 2} for one in (*found, SWITCHES, QUEUES)]


def verdicts(runs: list[dict[str, Any]]) -> dict[str, str]:
    return {verdict.claim.id: verdict.verdict for verdict in judge(CLAIMS, Results(runs))}


def test_the_papers_own_numbers_reproduce_all_its_claims() -> None:
    found = verdicts(measured())
    assert {name for name, verdict in found.items() if verdict == "not applicable"} == {"MO-13", "MO-15"}
    assert {verdict for name, verdict in found.items() if name not in ("MO-13", "MO-15")} == {"reproduced"}


@pytest.mark.parametrize(("claim", "mode", "times"), [
    ("MO-1", "MXI", (1.8, 1.7)),
    ("MO-2", "EXPLICIT", (1.9, 2.0)),
    ("MO-3", "EXPLICIT", (2.2, 2.7)),
    ("MO-4", "MXI", (1.8, 4.1)),
    ("MO-5", "SPIN", (2.1, 3.5)),
    ("MO-6", "MXISPIN", (1.7, 3.3)),
])  # fmt: skip
def test_one_time_against_a_claim_is_enough(claim: str, mode: str, times: tuple[float, float]) -> None:
    assert verdicts(measured(sintree={mode: times}))[claim] == "not reproduced"


def test_spin_may_gain_no_more_with_is_than_with_mg() -> None:
    times = {"SPIN": (1.5, 3.0)}
    assert verdicts(measured())["MO-7"] == "reproduced"
    assert verdicts(measured(**{"is": times}))["MO-7"] == "not reproduced"


def with_compiler(program: str, mode: str, percent: float) -> list[dict[str, Any]]:
    """All measurements; a compiler beside this program took so much longer."""
    took = [2.0 * (1 + percent / 100)]
    return [
        {**one, "compile_s": took} if (one["kind"], one.get("program"), one.get("mode")) == ("local", program, mode)
        else one for one in measured()
    ]  # fmt: skip


@pytest.mark.parametrize(("claim", "program", "mode", "percent"), [
    ("MO-8", "sintree", "PRIO", 3.7),  # higher than SPIN's
    ("MO-8", "sintree", "SPIN", 10.5),
    ("MO-9", "is", "EXPLICIT", 10.5),
    ("MO-10", "mg", "EXPLICIT", 46.0),  # more than half of PRIO's
    ("MO-10", "mg", "EXPLICIT", 30.0),  # less than 4 times SPIN's
    ("MO-10", "mg", "MXISPIN", 5.0),
    ("MO-10", "mg", "MXI", 8.5),
    ("MO-10", "mg", "PRIOSPIN", 120.0),
])  # fmt: skip
def test_table_3_is_judged_by_compilers(claim: str, program: str, mode: str, percent: float) -> None:
    assert verdicts(with_compiler(program, mode, percent))[claim] == "not reproduced"


@pytest.mark.parametrize(("claim", "kind", "changed"), [
    ("MO-11", "switches", {"switch_us": 21.0}),
    ("MO-12", "switches", {"stop_us": 31.0}),
    ("MO-14", "queues", {"peaks": QUEUES["peaks"] | {"sockets.rcv_fill": 89}}),
    ("MO-16", "queues", {"peaks": QUEUES["peaks"] | {"softnet.packets": 900}}),
    ("MO-19", "queues", {"report": QUEUES["report"] | {"samples": 0}}),
])  # fmt: skip
def test_switches_and_queues_are_judged(claim: str, kind: str, changed: dict[str, Any]) -> None:
    assert verdicts([one | changed if one["kind"] == kind else one for one in measured()])[claim] == "not reproduced"


def test_a_claim_without_its_runs_is_not_measured() -> None:
    left = [one for one in measured() if one["kind"] != "queues" and one.get("mode") != "PRIO"]
    found = judge(CLAIMS, Results(left))
    assert {verdict.claim.id: verdict.measured for verdict in found if verdict.verdict == "not measured"}["MO-1"] == (
        "no run of sintree in mode PRIO with load 0"
    )
    assert {"MO-14", "MO-16", "MO-19"} <= {verdict.claim.id for verdict in found if verdict.verdict == "not measured"}


def test_a_load_that_not_all_modes_have_had_is_not_judged() -> None:
    begun = [{**one, "load": 3} for one in measured() if one["kind"] == "time" and one["mode"] in ("PVM", "SPIN")]
    found = {verdict.claim.id: verdict for verdict in judge(CLAIMS, Results([*measured(), *begun]))}
    assert found["MO-1"].verdict == "reproduced" and "load 3" not in found["MO-1"].measured


def test_medians_are_over_seeds() -> None:
    other = [{**one, "seed": seed, "seconds": 9.0} for one in measured() for seed in (2, 3) if one["kind"] == "time"]
    assert Results(measured() + other).time("sintree", "PVM", 0) == 9.0


def test_the_report_has_a_row_for_each_mode_and_claim() -> None:
    text = markdown(Results(measured()), "just experiment monito --keep", "abc1234")
    assert all(text.count(f"\n| {mode} |") == 4 for mode in MODES)
    assert all(text.count(f"\n| {claim.id} |") == 1 for claim in CLAIMS)
    assert "`just experiment monito --keep` at abc1234: 2 nodes in lock-step, one seed." in text


def test_the_plan_names_policies_knobs_and_programs_that_exist() -> None:
    for mode in (*MODES.values(), *OURS.values()):
        assert mode.policy is None or mode.policy in policy.POLICIES
        knob_values.parse_assignments([f"{knob}={value}" for knob, value in knobs(mode.policy).items()])
    assert all((PROGS / program.source).exists() for program in PROGRAMS.values())


def test_the_cases_are_those_that_claims_ask_for() -> None:
    runs = [{**case._asdict(), "seconds": 1.0, "compile_s": [1.0], "seed": 1, "nodes": 2} for case in cases()]
    left = [one | {name: QUEUES[name] for name in ("peaks", "capacities", "report")} for one in runs]
    assert "not measured" not in verdicts([*left, SWITCHES]).values()
    assert len(set(cases())) == len(cases())
