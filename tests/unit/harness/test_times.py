# SPDX-License-Identifier: GPL-2.0-or-later
"""The time of each file of tests, out of what the runners print and write."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctl.demo import results
from tests.times import BUDGET_S, files, main, verdict

_XML = '<testsuites><testsuite><testcase classname="tests.unit.sim.test_csm" time="2.25"/>' \
       '<testcase classname="tests.unit.sim.test_csm" time="1.0"/></testsuite></testsuites>'  # fmt: skip


def test_files_of_both_runners_count(tmp_path: Path) -> None:
    (tmp_path / "kselftest-1").write_text("# Subtest: fit\n    # 3.0 s\nok 1 fit\n# fit: 12.5 s\n1 passed, 0 failed\n")
    (tmp_path / "kselftest-1.status").write_text("0\n")
    (tmp_path / "unit.xml").write_text(_XML)
    assert list(files(tmp_path).items()) == [("kselftest/fit", 12.5), ("unit/sim/test_csm", 3.2)]


def test_the_times_are_kept_the_longest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.times._RESULTS", tmp_path / "tests.jsonl")
    (tmp_path / "unit.xml").write_text(_XML)
    (tmp_path / "kselftest-1").write_text("# fit: 12.5 s\n")
    main("quick", tmp_path, 20)
    kept = results.read(tmp_path / "tests.jsonl")
    assert kept.head == {"command": "tests/all quick", "runs": 1, "seconds": 20}
    assert [(run["file"], run["seconds"]) for run in kept.runs] == [("kselftest/fit", 12.5), ("unit/sim/test_csm", 3.2)]
    assert kept.commits


def test_over_the_budget_the_dearest_are_named() -> None:
    spent = {f"file{i}": 10.0 - i for i in range(6)}
    assert verdict("quick", spent, BUDGET_S) == verdict("full", spent, 9000) == ""
    told = verdict("quick", spent, BUDGET_S + 1)
    assert "file0 10 s" in told and "file4 6 s" in told and "file5" not in told
