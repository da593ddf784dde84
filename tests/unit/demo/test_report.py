# SPDX-License-Identifier: GPL-2.0-or-later
"""The demo's report: figures, comparisons and sentences from measurements written down here."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ctl.demo import report, results
from ctl.demo.progress import Progress, describe
from ctl.demo.scenario import CORES, SCENARIOS, Scenario

RESULTS = Path(__file__).resolve().parents[3] / "results"


def measurement(
    small: float = 50.0, large: float = 60.0, faults: int = 1000, responses: tuple[int, ...] = (1000, 2000, 30000)
) -> dict[str, Any]:
    def job(seconds: float) -> dict[str, Any]:
        return {"seconds": seconds, "major_faults": faults, "cpu_s": 12.0, "mpi_cpu_s": 1.0, "checksum": "00"}

    return {
        "config": "x",
        "jobs": {"small": job(small), "large": job(large)},
        "local": {"response_us": list(responses), "major_faults": 3, "cpu_s": 0.1},
        "node": {"pgmajfault": 2 * faults, "pswpin": 0, "pswpout": 0, "available_kb": 1},
    }


def runs(**groups: dict[str, Any] | list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {name: group if isinstance(group, list) else [group] for name, group in groups.items()}


def verdicts(of: list[dict[str, Any]], against: list[dict[str, Any]]) -> dict[str, str]:
    compared = report.compare({"csm": of, "eevdf": against}, "csm", "eevdf")
    return {comparison.figure: comparison.verdict for comparison in compared}


def text_of(found: dict[str, list[dict[str, Any]]]) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(report.table(found, Scenario()))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_figures_of_one_measurement() -> None:
    summary = report.summarise(measurement())
    assert summary["small.seconds"] == 50.0
    assert summary["mean_completion"] == 55.0
    assert summary["last_completion"] == 60.0
    assert summary["node.major_faults"] == 2000
    assert summary["local.mean"] == pytest.approx(11.0)
    assert summary["local.p50"] == 2.0
    assert summary["local.p99"] == summary["local.max"] == 30.0


def test_a_user_who_compiles() -> None:
    compiling = {"compiled_s": 7.77}
    found = runs(eevdf=measurement() | compiling, csm=measurement(small=20.0) | compiling | {"compiled_s": 3.4})
    assert report.summarise(found["csm"][0])["compiled"] == 3.4
    assert {one.key for one in report.figures(["small", "large"], True)} == set(report.summarise(found["csm"][0]))
    console = Console(file=io.StringIO(), width=200)
    console.print(report.table(found, dataclasses.replace(SCENARIOS[CORES], jobs=Scenario().jobs)))
    assert isinstance(console.file, io.StringIO)
    text = " ".join(console.file.getvalue().split())
    assert "and 2 compilers, on 2 CPUs" in text and "user's compilers: completion 7.8 → 3.4 s (2.3 times less)" in text
    assert "compilers after 3.4 s and the person" in text and "with eevdf, 55 s, 7.8 s and 30 ms" in text


def test_every_figure_has_a_number() -> None:
    assert {figure.key for figure in report.figures(["small", "large"])} == set(report.summarise(measurement()))


@pytest.mark.parametrize(
    ("small", "expected"),
    [(25.0, "better"), (100.0, "worse"), (50.0, "same"), (48.6, "same"), (48.4, "better"), (51.6, "worse")],
)
def test_a_difference_counts_beyond_the_margin(small: float, expected: str) -> None:
    assert verdicts([measurement(small=small)], [measurement(small=50.0)])["small.seconds"] == expected


def test_ranges_that_overlap_are_no_difference() -> None:
    mine = [measurement(small=seconds) for seconds in (30.0, 31.0, 45.0)]
    theirs = [measurement(small=seconds) for seconds in (44.0, 60.0, 61.0)]
    assert verdicts(mine, theirs)["small.seconds"] == "same"
    assert verdicts(mine[:2], theirs)["small.seconds"] == "better"


def test_median_over_runs_and_its_range_are_shown() -> None:
    text = text_of(runs(eevdf=[measurement(small=seconds) for seconds in (50.0, 70.0, 52.0)], csm=measurement()))
    assert "52.0 (50.0 to 70.0)" in text
    assert "median of 3 runs" in text


def test_losses_are_told_like_gains() -> None:
    slow = measurement(small=20.0, large=90.0, responses=(1000, 2000, 90000))
    told = "\n".join(report.sentences(runs(eevdf=measurement(), csm=slow)))
    better, worse = re.search("better: (.*)", told), re.search("worse: (.*)", told)
    assert better and worse
    assert "small job: completion 50.0 → 20.0 s (2.5 times less)" in better[1]
    assert "large job: completion 60.0 → 90.0 s (50% more)" in worse[1]
    assert "local task: p99 response 30.0 → 90.0 ms (3.0 times more)" in worse[1]
    assert "jobs: mean completion" in told and "mean completion 55.0 → 55.0" not in told


def test_nothing_better_is_said_so() -> None:
    told = report.sentences(runs(eevdf=measurement(), csm=measurement(small=60.0)))
    assert "csm against eevdf, better: nothing." in told


def test_all_are_compared_with_the_kernel_or_else_with_the_first() -> None:
    told = report.sentences(runs(rr=measurement(), eevdf=measurement(), csm=measurement()))
    assert {sentence.split(",")[0] for sentence in told} == {"rr against eevdf", "csm against eevdf"}
    told = report.sentences(runs(rr=measurement(), csm=measurement()))
    assert {sentence.split(",")[0] for sentence in told} == {"csm against rr"}


def test_the_last_sentence_is_for_newcomers() -> None:
    quick, slow = (1000, 1200, 1800), (2000, 5000, 1465000)
    found = runs(
        eevdf=measurement(responses=slow),
        static=measurement(small=40, responses=quick),
        csm=measurement(),
        fit=measurement(small=10),
    )
    assert report.conclusion(found) == (
        "With fit jobs end after 35 s in the mean and the person at the keyboard waits at most 30 ms in 99 of 100 "
        "cases; with eevdf, 55 s and 1465 ms; with static, 50 s and 1.8 ms."
    )
    assert report.conclusion(runs(fit=measurement())) == report.conclusion(runs(eevdf=measurement())) == ""


@pytest.mark.parametrize(("faults", "baseline", "word"), [(0, 10, "to none"), (10, 0, "from none")])
def test_figures_of_zero_have_no_ratio(faults: int, baseline: int, word: str) -> None:
    found = runs(eevdf=measurement(faults=baseline), csm=measurement(faults=faults))
    assert word in "\n".join(report.sentences(found))
    assert "csm" in text_of(found)


def with_agent(*verdicts: tuple[float, bool], **counters: int) -> dict[str, Any]:
    names = ("insertions", "overtakes", "mode_predictive", "mode_dynamic", "mode_csm")
    status = {"counters": {name: counters.get(name, 0) for name in names}}
    return {**measurement(), "agent": {"verdicts": list(verdicts), "status": status}}


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ((), "never overloaded"),
        (((6.0, True),), "overloaded from 6.0 s on, 90% of the time"),
        (((6.0, True), (12.0, False), (18.0, True), (30.0, False)), "overloaded from 6.0 s on, 30% of the time"),
        (((-3.0, True), (-1.0, False)), "never overloaded"),
        (((-3.0, True), (30.0, False)), "overloaded from 0.0 s on, 50% of the time"),
        (((70.0, True),), "never overloaded"),
    ],
)
def test_overload_is_told_from_the_verdicts(verdicts: tuple[tuple[float, bool], ...], expected: str) -> None:
    told = report.mechanism("csm", with_agent(*verdicts))
    assert told is not None and expected in told


def test_who_decided_is_told() -> None:
    told = report.mechanism("csm", with_agent(insertions=1200, mode_csm=1000, mode_predictive=200, overtakes=7))
    assert told == (
        "csm: never overloaded; 1,200 insertions, 200 by messages so far, 1,000 by page faults; 7 overtakes."
    )
    assert "all by arrival" in str(report.mechanism("rr", with_agent(insertions=3)))


def test_the_kernel_has_no_mechanism_to_tell() -> None:
    assert report.mechanism("eevdf", measurement()) is None
    assert report.mechanism("eevdf", {**measurement(), "agent": None}) is None


def test_one_configuration_alone_has_a_table_and_no_sentence() -> None:
    assert report.sentences(runs(csm=measurement())) == []
    assert "50.0" in text_of(runs(csm=measurement()))


@pytest.mark.parametrize("path", sorted(RESULTS.glob("demo*.jsonl")), ids=lambda path: path.stem)
def test_kept_runs_are_told_again(path: Path) -> None:
    """The file has no figure that follows from others."""
    kept = results.read(path)
    groups = {run["config"]: [other for other in kept.runs if other["config"] == run["config"]] for run in kept.runs}
    scenario = Scenario.from_json(json.dumps(kept.head["scenario"]))
    console = Console(file=io.StringIO(), width=200)
    console.print(report.table(groups, scenario))
    assert isinstance(console.file, io.StringIO)
    assert "jobs end after" in console.file.getvalue()


def test_scenario_travels_as_one_line() -> None:
    text = Scenario().to_json()
    assert "\n" not in text
    assert Scenario.from_json(text) == Scenario()


@pytest.mark.parametrize(("name", "brings"), [("two", "one page"), ("read-ahead", "8 pages")])
def test_the_table_tells_what_a_fault_brings(name: str, brings: str) -> None:
    scenario = SCENARIOS[name]
    assert Scenario.from_json(scenario.to_json()) == scenario
    assert f"a fault brings {brings}" in report._caption({"eevdf": [{}]}, scenario)


def test_scenario_is_the_papers_example() -> None:
    """Each job fits beside the local task, both do not."""
    scenario = Scenario()
    local = scenario.local.kb / 1024
    assert all(job.mb + local < scenario.room for job in scenario.jobs.values())
    assert sum(job.mb for job in scenario.jobs.values()) + local > scenario.room


def test_progress_in_words() -> None:
    said = {"phase": "run", "at": 20.0, "seconds": 12.0, "jobs": {"small": 0.25, "large": 0.5}, "swapins": 1234}
    assert describe({**said, "overloaded": True}) == "12 s: small 25%, large 50%; 1,234 pages swapped in, overloaded"
    assert describe({**said, "overloaded": None}).endswith("swapped in")


def test_progress_without_a_terminal_is_a_line_now_and_then() -> None:
    console = Console(file=io.StringIO(), width=200)
    with Progress(console, ["csm"], Scenario()) as progress:
        progress.started("csm")
        for second in range(25):
            progress.said(
                "csm", {"phase": "run", "seconds": second, "jobs": {"small": 0.0}, "swapins": 0, "overloaded": None}
            )
        progress.ended("csm", True)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().split("\n")
    assert [line.split(":")[1].strip() for line in lines if line] == ["booting", "10 s", "20 s", "done"]
