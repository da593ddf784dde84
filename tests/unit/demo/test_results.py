# SPDX-License-Identifier: GPL-2.0-or-later
"""Kept results: what is written is read again, a run is a line, and what all runs have in common is said once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ctl.demo import results

HEAD = {"command": "just experiment x", "machine": "1 CPU"}
PLACE = Path(__file__).resolve().parents[3] / "results"
RUNS = [{"commit": "abc", "seed": 1, "s": 2.5}, {"commit": "abc", "seed": 2, "s": 2.5}, {"commit": "abc", "seed": 3}]

_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.just([1, {"a": 2}])
)
_RUNS = st.lists(st.dictionaries(st.sampled_from("abcd"), _VALUES, min_size=1))


@given(runs=_RUNS)
@example(runs=[{"a": "\x85\u2028"}])
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, runs: list[results.Run]) -> None:
    path = tmp_path_factory.mktemp("results") / "x.jsonl"
    results.write(path, HEAD, runs)
    assert results.read(path) == results.Results(HEAD, runs)


def test_a_run_is_a_line_and_nothing_is_said_twice(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    results.write(path, HEAD, RUNS)
    head, *lines = map(json.loads, path.read_text().splitlines())
    assert head == {**HEAD, "all": {"commit": "abc"}}
    assert lines == [{"seed": 1, "s": 2.5}, {"seed": 2, "s": 2.5}, {"seed": 3}]


def test_commits_are_named_once() -> None:
    assert results.commits_of([{"commit": "a"}, {"commit": "b"}, {"commit": "a"}]) == "a, b"


@pytest.mark.parametrize("path", sorted(PLACE.glob("*.json*")), ids=lambda path: path.name)
def test_kept_results_are_in_this_form(path: Path, tmp_path: Path) -> None:
    kept = results.read(path)
    assert kept.head["command"] and kept.commits
    again = tmp_path / path.with_suffix(".jsonl").name
    results.write(again, kept.head, kept.runs)
    assert again.read_bytes() == path.read_bytes()
