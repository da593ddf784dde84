# SPDX-License-Identifier: GPL-2.0-or-later
"""Every reading that is cited stands in docs/readings.md, and every row there is cited."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_SPEC = importlib.util.spec_from_file_location("readings", ROOT / "docs" / "readings.py")
assert _SPEC is not None and _SPEC.loader is not None
readings = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(readings)


def test_the_page_has_what_is_cited() -> None:
    assert readings.faults(readings.PAGE.read_text(), readings.cited()) == []


def test_faults_are_told() -> None:
    known, unknown = "B-CSM-" + "5", "B-CSM-" + "999"
    page = f"| {known} | what | how | bpf/insert_rq.h |\n"
    assert readings.faults(page, {known: {"bpf/insert_rq.h"}}) == []
    assert readings.faults(page, {known: {"bpf/insert_rq.h"}, unknown: {"a.py"}}) == [
        f"{unknown} is cited in a.py and has no row"
    ]
    assert len(readings.faults(page, {})) == 2, "no file cites it, and so the column is wrong"
    assert readings.faults(page, {known: {"other.h"}}) == ["the last column is out of date: run `just readings`"]


def test_a_row_that_no_file_cites_keeps_its_text_and_a_row_without_a_reading_is_told() -> None:
    known = "B-CSM-" + "5"
    bare = readings.renewed(f"| {known} | what | how | bpf/insert_rq.h |\n", {})
    assert bare == f"| {known} | what | how |  |\n"
    assert readings.renewed(bare, {}) == bare
    where = {known: {"bpf/insert_rq.h"}}
    assert readings.faults(f"| {known} | what | bpf/insert_rq.h |\n", where) == [
        f"{known} has not the four columns of the page's head"
    ]
