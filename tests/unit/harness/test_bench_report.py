# SPDX-License-Identifier: GPL-2.0-or-later
"""The benchmarks' report: what the guests told is kept a line each, and all else follows from the lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ctl.demo import results
from tests.bench import plan, report
from tests.bench.machine import Message

KEPT = Path(__file__).resolve().parents[3] / "results/bench.jsonl"
HEAD = {"command": "just bench", "linux_source": "7", "machine": "1 CPU", "kernel": "7.2"}


def step(scheduler: str, value: float, bench: str = "switch-16") -> Message:
    return {"step": 0, "scheduler": scheduler, "bench": bench, "result": {"value": value, "switches": 1.0}}


def count(scheduler: str, load: str, **calls: tuple[float, float]) -> Message:
    result = {name: {"calls": 9, "mean": mean, "max": longest} for name, (mean, longest) in calls.items()}
    return {"step": 0, "scheduler": scheduler, "load": load, "result": result}


HEARD: dict[str, list[Message]] = {
    "time": [
        {"kernel": "7.2"},
        *(step(*one) for one in (("eevdf", 100.0), ("csm", 88.0), ("eevdf", 120.0), ("simple", 55.0), ("eevdf", 80.0))),
        {"step": 3, "scheduler": "simple", "ended": "switch-128", "why": "it stalled"},
    ],
    "time@patched": [{"kernel": "7.3"}, *(step(*one) for one in (("eevdf", 50.0), ("csm", 60.0), ("eevdf", 50.0)))],
    "instructions": [
        count("empty", "switch-16", empty_running=(20.0, 30.0), other=(1.0, 2.0)),
        count("csm", "switch-16", do_enqueue_task=(220.0, 30020.0), cosched_tick=(10.0, 10.0)),
    ],
}


def together(scheduler: str, value: float, **more: float) -> Message:
    result = {"value": value, "low": value - 1e6, "high": value + 1e6, "runs": 5, "cut": 0, "switches": 2.0, **more}
    return {"step": 0, "scheduler": scheduler, "bench": "barriers-yield-hogs", "result": result}


def kept(heard: dict[str, list[Message]], path: Path) -> results.Results:
    results.write(path, HEAD, [{"commit": "c0ffee", **row} for row in report.rows(heard)])
    return results.read(path)


def test_a_benchmark_is_a_line_and_its_ratios_follow(tmp_path: Path) -> None:
    found = kept(HEARD, tmp_path / "bench.jsonl")
    assert [(run["part"], run.get("bench")) for run in found.runs if "steps" in run] == [
        ("time", "switch-16"),
        ("time@patched", "switch-16"),
    ]
    digest = report.digest(found)
    row = digest["time"]["switch-16"]
    assert row["title"] == plan.BENCHMARKS["switch-16"].title and row["spread"] == pytest.approx(0.4)
    assert {name: got["ratio"] for name, got in row["by"].items()} == pytest.approx(
        {"eevdf": 1.0, "csm": 0.8, "simple": 0.55, "eevdf@patched": 1.0, "csm@patched": 1.2}
    )
    assert row["by"]["eevdf"]["value"] == 100.0
    assert digest["commit"] == "c0ffee" and digest["observations"] == {}


def test_the_tools_own_share_is_taken_off_and_kept(tmp_path: Path) -> None:
    found = kept(HEARD, tmp_path / "bench.jsonl")
    assert [run["own_ns"] for run in found.runs if "own_ns" in run] == [20.0]
    assert report.digest(found)["instructions"] == {
        "csm": {
            "switch-16": {
                "do_enqueue_task": {"calls": 9, "mean": 100.0, "max_ns": 30000},
                "cosched_tick": {"calls": 9, "mean": 0.0, "max_ns": 0},
            }
        }
    }


def test_goals_and_examples_that_gave_up_are_told(tmp_path: Path) -> None:
    found = kept(HEARD, tmp_path / "bench.jsonl")
    assert not [run for run in found.runs if "goal" in run]
    goals: dict[str, dict[str, Any]] = {goal["goal"]: goal for goal in report.digest(found)["goals"]}
    assert goals["csm, sensors off, to EEVDF: switch-16, no job on the node"]["met"]
    assert not goals["csm, sensors off, longest insertion: switch-16"]["met"]
    told = report.markdown(report.digest(found))
    assert "scx_simple ended by itself during switch-128: it stalled" in told
    assert "commit c0ffee, made by `just bench`; kernel 7.2" in told


def test_nothing_measured_is_nothing_kept() -> None:
    assert report.rows({"time": [{"kernel": "7.2"}], "instructions": []}) == []


def test_the_kept_benchmarks_are_told_again() -> None:
    digest = report.digest(results.read(KEPT))
    assert digest["time"] and digest["observations"] and digest["instructions"] and digest["goals"]
    assert "Goals" in report.markdown(digest)


def test_jobs_on_several_cpus_have_a_table_of_their_own(tmp_path: Path) -> None:
    heard = {
        "smp-4": [
            together("eevdf", 100e6, hogs=0.4, late_p99=1e6),
            together("csm", 210e6, hogs=0.75, late_p99=90e3),
            together("eevdf", 110e6, hogs=0.6, late_p99=2e6),
            together("nice19", 2000e6, runs=3, cut=3, hogs=0.98, late_p99=5e6),
            together("eevdf", 90e6, hogs=0.5, late_p99=3e6),
        ]
    }
    digest = report.digest(kept(heard, tmp_path / "smp.jsonl"))
    assert digest["time"] == {} and list(digest["smp"]) == ["smp-4"]
    by = digest["smp"]["smp-4"]["barriers-yield-hogs"]["by"]
    assert by["csm"]["ratio"] == pytest.approx(2.0) and by["nice19"]["ratio"] == pytest.approx(20.0)
    base = {name: by["eevdf"][name] for name in ("value", "low", "high", "runs", "hogs", "late_p99")}
    assert base == pytest.approx({"value": 100e6, "low": 89e6, "high": 111e6, "runs": 15, "hogs": 0.5, "late_p99": 2e6})
    told = report.markdown(digest)
    for words in ("4 CPUs: guest time", "209–211 ms", "hogs 75%", "late 0.09 ms", "3 of 3 cut", ">×20.000"):
        assert words in told
