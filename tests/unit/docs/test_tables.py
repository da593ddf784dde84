# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of figures in README.md and docs/*.md are those of results/, and there are no others."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from docs.tables.blocks import PAGES, faults, figure_tables, renewed
from docs.tables.table import ROOT, Grid, Source, Table

TABLES = importlib.import_module("docs.tables.__main__").TABLES

# Tables with numbers that are made or checked otherwise, or are no measurements: page, first line, reason.
_KNOBS = "written by `just policies`, compared by test_readme.py"
_DEFAULTS = "defaults of the simulator's parameters, no measurements"
OTHERS = {
    ("docs/policies.md", "| policy | insert rule |"): _KNOBS,
    ("docs/policies.md", "| knob | allowed |"): _KNOBS,
    ("docs/simulator-ccs.md", "| parameter | taken |"): _DEFAULTS,
}


def test_blocks_are_what_results_give() -> None:
    assert faults({page: page.read_text() for page in PAGES}, TABLES) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_has_another_table_of_figures(page: Path) -> None:
    known = [first for name, first in OTHERS if name == page.relative_to(ROOT).as_posix()]
    found = list(figure_tables(page.read_text()))
    assert [one for one in found if not one.startswith(tuple(known))] == [], "no table of docs/tables has these figures"
    assert [one for one in known if not any(line.startswith(one) for line in found)] == [], "no exception any more"


PAGE = ROOT / "docs" / "slurm.md"
ONE = Table("one", (Source("bench"),), lambda _: Grid(["a", "b", "c"], [["x", "1", "2 ms"], ["y", "3 %", "4"]]))
EMPTY = "# X\n\n<!-- table: one -->\n<!-- end -->\n"


def test_faults_are_told() -> None:
    full = renewed(EMPTY, PAGE, {"one": ONE})
    assert "| 3 % | 4 |" in full and "[bench.jsonl](../results/bench.jsonl), one run at" in full
    assert faults({PAGE: full}, {"one": ONE}) == []
    assert faults({PAGE: full.replace("2 ms", "5 ms")}, {"one": ONE}) == [
        "docs/slurm.md differs from results/: run `just tables`"
    ]
    assert faults({PAGE: "# X\n"}, {"one": ONE}) == ["the table one stands on no page"]
    assert faults({PAGE: full + full}, {"one": ONE}) == ["the table one stands twice"]
    assert faults({PAGE: full}, {}) == ["docs/slurm.md has a block one, which docs/tables does not declare"]
    (told,) = faults({PAGE: full.replace("<!-- end -->", "")}, {})
    assert told.startswith("docs/slurm.md has a block that does not end")


def test_a_table_of_figures_is_known_by_its_cells() -> None:
    full = renewed(EMPTY, PAGE, {"one": ONE})
    assert list(figure_tables(full)) == []
    bare = full.replace("<!-- table: one -->", "").replace("<!-- end -->", "")
    assert list(figure_tables(bare)) == ["| a | b | c |"]
    words = "| knob | meaning |\n|---|---|\n| `mno` | at most 2 tasks |\n| `l` | 0.5 or less of it |\n| 3 | x |\n"
    assert list(figure_tables(words)) == []
    signs = "| a | b |\n|---|---|\n| x | **1,234** |\n| y | 0.62 ± 0.03 |\n| z | 6, 14 ms |\n"
    assert list(figure_tables(signs)) == ["| a | b |"]
