# SPDX-License-Identifier: GPL-2.0-or-later
"""What experiments keep: a run is made once, a new checkout goes on from results/, and what is written there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ctl.demo import results
from tests.experiments import ccs
from tests.experiments.ccs_plan import Case
from tests.experiments.kept import Kept, write
from tests.experiments.monito_plan import cases
from tests.unit.harness.test_ccs_experiments import MODULES, run


def test_runs_that_were_made_are_not_made_again(tmp_path: Path) -> None:
    kept = ccs.Kept(tmp_path / "new/runs.jsonl")
    kept.add(run("fits", "dyn", 1))
    again = ccs.Kept(tmp_path / "new/runs.jsonl")
    assert again.has(Case("ccs-modules", "fits", "dyn", 1))
    assert not again.has(Case("ccs-modules", "fits", "dyn", 0))
    assert not again.has(Case("ccs-modules", "overload", "dyn", 1))
    assert again.runs == kept.runs == [json.loads(json.dumps(run("fits", "dyn", 1)))]


def test_a_new_checkout_goes_on_from_the_results(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    results.write(path, {}, [run("fits", "dyn", 1)])
    kept = ccs.Kept(tmp_path / "runs.jsonl", path)
    assert kept.has(Case("ccs-modules", "fits", "dyn", 1))
    kept.add(run("fits", "dyn", 0))
    assert ccs.Kept(kept.path, path).runs == kept.runs and len(kept.runs) == 2
    assert not ccs.Kept(tmp_path / "others.jsonl", tmp_path / "none.jsonl").runs


def test_runs_of_another_kind_or_seed_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    kinds: tuple[dict[str, Any], ...] = (
        {},
        {"seed": 4, "lockstep": False},
        {"seed": 5, "lockstep": True},
        {"seed": 4, "lockstep": True},
    )
    results.write(path, {}, [run("fits", "dyn", 1) | kind for kind in kinds])
    first = next(MODULES.cases(0, (), 3))
    assert first.seed == 3 and first.lockstep
    kept = ccs.Kept(tmp_path / "runs.jsonl", path, lambda made: ccs._is_of(first, made))
    assert kept.runs == [run("fits", "dyn", 1) | kinds[-1]]


def test_a_case_is_measured_once(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "deeper" / "runs.jsonl")
    assert kept.missing(cases(), 2, 1) == cases()
    kept.add({**cases()[0]._asdict(), "nodes": 2, "seed": 1, "compile_s": [1.0]})
    again = Kept(tmp_path / "deeper" / "runs.jsonl")
    assert again.missing(cases(), 2, 1) == cases()[1:]
    assert again.missing(cases(), 4, 1) == again.missing(cases(), 2, 2) == cases()
    path = tmp_path / "results.jsonl"
    results.write(path, {}, [{"commit": "old", **one} for one in again.measured])
    later = Kept(tmp_path / "new.jsonl", path)
    assert later.missing(cases(), 2, 1) == cases()[1:]
    later.add({**cases()[1]._asdict(), "commit": "new"})
    assert results.commits_of([*later.measured, *later.measured]) == "old, new"
    assert Kept(tmp_path / "new.jsonl").measured == later.measured


def test_results_are_written_with_their_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "results").mkdir()
    monkeypatch.setattr("tests.experiments.kept._REPO", tmp_path)
    runs = [{"commit": "a", "seed": 1, "s": 2.5}, {"commit": "b", "seed": 1, "s": 3.5}]
    write("monito", "just experiment monito --keep", runs, lambda commits: f"at {commits}\n")
    assert (tmp_path / "results/monito.md").read_text() == "at a, b\n"
    assert results.read(tmp_path / "results/monito.jsonl") == results.Results(
        {"command": "just experiment monito --keep"}, runs
    )
