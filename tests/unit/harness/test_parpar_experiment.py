# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiment `parpar`: its plan, who runs beside whom, the verdicts, and the report. No machine is booted."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ctl.kernel.elf import static_size
from tests.experiments.parpar import _check_short
from tests.experiments.parpar_claims import CLAIMS, Results
from tests.experiments.parpar_guest import Gangs, Job
from tests.experiments.parpar_model import modelled
from tests.experiments.parpar_plan import LARGE, MOST, NO_LIMIT, SHORT, Case, arrays, cases
from tests.experiments.parpar_report import markdown, plot
from tests.experiments.verdicts import judge

PROGRAM = Path(__file__).resolve().parents[2] / "progs" / "fractal_walk.c"
MB = 1 << 20
ADMITTED = {0.4: 2, 0.8: 4, 1.0: 5, 1.2: 6, 1.5: 8, 2.0: 10, NO_LIMIT: MOST}


def seconds(case: Case) -> float:
    """As the paper has them: a part for the CPU, and one for each job too many at once, by locality."""
    at_once = min(case.jobs, ADMITTED[case.c])
    return case.jobs * (1.0 + 0.1 * max(0, at_once - 4) * (10 if case.theta == 1.0 else 3 - case.theta))


def measured(changed: dict[Case, dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    """All measurements as the paper has them; changed: other figures of some."""
    found = []
    for case in cases():
        at_once = min(case.jobs, ADMITTED[case.c])
        figures = {
            "seconds": seconds(case), "cpu_s": 0.06 * case.jobs, "ends_s": [1.0] * case.jobs,
            "faults": 1000 * max(0, at_once - 4), "most": at_once, "beside": [0] * case.jobs,
            "need_mb": 10.004, "killed": 0,
        }  # fmt: skip
        found.append(case._asdict() | figures | (changed or {}).get(case, {}) | {"nodes": 1, "seed": 1})
    return found


def verdicts(runs: list[dict[str, Any]]) -> dict[str, str]:
    return {verdict.claim.id: verdict.verdict for verdict in judge(CLAIMS, Results(runs))}


def test_the_papers_own_signs_reproduce_all_claims_that_are_measured() -> None:
    found = verdicts(measured())
    left_out = {"PP-5", "PP-12", "PP-13", "PP-14", "PP-15", "PP-17"}
    assert {name for name, verdict in found.items() if verdict == "not applicable"} == left_out
    assert {verdict for name, verdict in found.items() if name not in left_out} == {"reproduced"}


@pytest.mark.parametrize(("claim", "case", "changed"), [
    ("PP-6", Case("static", 32, 2.0, 1.0), {"seconds": 95.0}),
    ("PP-7", Case("static", 50, 1.0, NO_LIMIT), {"seconds": 1900.0}),
    ("PP-8", Case("static", 23, 2.0, 1.5), {"seconds": 99.0}),
    ("PP-9", Case("static", MOST, 1.0, 0.8), {"seconds": 56.0}),
    ("PP-9", Case("static", MOST, 2.0, NO_LIMIT), {"seconds": 1200.0}),
    ("PP-10", Case("static", MOST, 1.25, 1.5), {"seconds": 999.0}),
    ("PP-10", Case("static", MOST, 2.0, 2.0), {"seconds": 300.0}),
    ("PP-11", Case("static", MOST, 1.0, 0.8), {"faults": 51}),
    ("PP-11", Case("static", MOST, 1.0, 1.0), {"most": 6}),
    ("PP-16", Case("static", MOST, 1.5, 1.2), {"seconds": 40.0}),
    ("PP-16", Case("static", MOST, 1.5, 0.4), {"seconds": 48.0}),
    ("PP-22", Case(LARGE, 5, 2.0, 1.0), {"beside": [1, 1, 1, 1, 1]}),
    ("PP-22", Case(LARGE, 5, 2.0, 1.0), {"killed": 1}),
])  # fmt: skip
def test_one_figure_against_a_claim_is_enough(claim: str, case: Case, changed: dict[str, Any]) -> None:
    assert verdicts(measured({case: changed}))[claim] == "not reproduced"


def test_a_claim_without_its_runs_is_not_measured() -> None:
    left = [one for one in measured() if one["c"] != 1.5 and one["kind"] != LARGE]
    found = verdicts(left)
    assert {name for name, verdict in found.items() if verdict == "not measured"} == {
        "PP-6", "PP-8", "PP-9", "PP-10", "PP-11", "PP-16", "PP-22",
    }  # fmt: skip


def test_a_number_of_jobs_that_not_all_limits_have_had_is_not_compared() -> None:
    lost = Case("static", 41, 2.0, NO_LIMIT)
    left = [one for one in measured({Case("static", 41, 2.0, 1.0): {"seconds": 999.0}})
            if (one["jobs"], one["theta"], one["c"]) != lost[1:]]  # fmt: skip
    assert verdicts(left)["PP-8"] == "reproduced"


def test_medians_are_over_seeds() -> None:
    other = [one | {"seed": seed, "seconds": 9.0} for one in measured() for seed in (2, 3)]
    assert Results(measured() + other).seconds(32, 1.0, 1.5) == 9.0


def test_the_cases_are_different_and_have_those_of_the_figures() -> None:
    found = cases()
    assert len(set(found)) == len(found)
    assert {jobs for _, jobs, theta, c in found if (theta, c) == (1.0, NO_LIMIT)} == {5, 14, 23, 32, 41, 50}
    assert all(case.kind == "static" for case in SHORT)


@pytest.mark.parametrize(("unlimited", "status"), [(3.0, 0), (0.4, 1)])
def test_the_short_form_wants_a_limit_to_save_time(unlimited: float, status: int) -> None:
    limits = {0.8: 0.5, NO_LIMIT: unlimited}
    results = Results(case._asdict() | {"nodes": 1, "seed": 1, "seconds": limits[case.c]} for case in SHORT)
    with pytest.raises(SystemExit) as ended:
        _check_short(results, Console())
    assert int(bool(ended.value.code)) == status


def test_the_model_has_the_experiments_jobs() -> None:
    fits, over = (modelled(Case("static", 10, 2.0, c), 500.0) for c in (0.8, NO_LIMIT))
    assert (fits["most_load"], over["most_load"]) == (4, 10)
    assert fits["faults"] == 0 and fits["time_s"] == pytest.approx(10 * 0.05) and over["time_s"] > fits["time_s"]


def test_the_report_has_figures_claims_and_scales(tmp_path: Path) -> None:
    text = markdown(Results(measured()), "just experiment parpar --keep", "a.png", 0, "abc1234")
    assert all(text.count(f"\n| {claim.id} |") == 1 for claim in CLAIMS)
    assert "`just experiment parpar --keep` at abc1234: one guest in instruction-counted time, one seed." in text
    assert f"| {seconds(Case('static', 50, 1.0, 1.5)):.2f} |" in text
    assert "7 of its cases were not measured" in markdown(Results(measured()), "", "a.png", 7, "abc1234")
    assert "not measured" not in text
    plot(Results(measured()), tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 10_000


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """The program, with arrays of so many MB."""
    found = {mb: str(tmp_path_factory.mktemp("walk") / f"walk-{mb}") for mb in (10, 70)}
    for mb, path in found.items():
        subprocess.run(["gcc", "-O2", f"-DRANGE={mb * 1024}", "-o", path, str(PROGRAM), "-lm"], check=True)
    return found


def run(programs: dict[int, str], case: Case, room: int) -> tuple[Gangs, list[Job]]:
    """Real processes on this machine, in no cgroup."""
    jobs = []
    for number, mb in enumerate(arrays(case)):
        need = static_size(programs[mb])
        assert need is not None
        jobs.append(Job(number, [programs[mb], "/dev/null", str(case.theta), "1000", str(number)], need))
    gangs = Gangs(jobs, room)
    gangs.run()
    return gangs, jobs


@pytest.mark.parametrize(("room", "most"), [(44, 4), (55, 5), (110, 10), (1000, 12)])
def test_as_many_run_at_once_as_fit(programs: dict[int, str], room: int, most: int) -> None:
    gangs, jobs = run(programs, Case("static", 12, 2.0, 1.0), room * MB)
    assert gangs.most == most
    assert all(job.ended_s > 0 and job.used and job.used.ru_minflt > 10 * MB // 4096 for job in jobs)


def test_a_job_larger_than_the_room_runs_alone_and_is_passed(programs: dict[int, str]) -> None:
    _, jobs = run(programs, Case(LARGE, 5, 2.0, 1.0), 55 * MB)
    assert jobs[2].beside == 0 and jobs[2].ended_s > max(job.ended_s for job in jobs if job is not jobs[2])


def test_fifteen_jobs_pass_the_larger_one_and_then_it_is_next(programs: dict[int, str]) -> None:
    _, jobs = run(programs, Case(LARGE, 41, 2.0, 1.0), 55 * MB)
    large = jobs[20]
    assert sum(job.ended_s < large.ended_s for job in jobs[21:]) == 15 and large.beside == 0


def test_a_program_that_fails_ends_the_experiment(programs: dict[int, str]) -> None:
    with pytest.raises(SystemExit, match="ended with wait status"):
        Gangs([Job(0, [programs[10], "/nowhere/x", "1", "1", "1"], MB)], MB).run()
