# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of figures that a command has printed and no file of their own keeps: lines of results/noted.jsonl.

A line has the name of its table, the command, the commit, how many runs the figures are of ("unknown" where nobody
knows) and rows: objects whose keys are the headings.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ctl.demo.results import Results
from docs.tables.table import Grid, Source, Table

__all__ = ["noted", "rows_of"]


def rows_of(kept: Results) -> list[dict[str, Any]]:
    """The rows of all lines."""
    return [row for run in kept.runs for row in run["rows"]]


def noted(name: str, digits: int | None = None) -> Table:
    """A table of what was noted under this name; digits: after the point of each number that is no whole one."""
    return Table(name, (Source("noted", (), {"table": [name]}),), partial(_grid, digits))


def _grid(digits: int | None, kept: Results) -> Grid:
    rows = rows_of(kept)
    headings = list(dict.fromkeys(heading for row in rows for heading in row))
    return Grid(headings, [[_cell(row.get(heading, ""), digits) for heading in headings] for row in rows])


def _cell(value: object, digits: int | None) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,}" if digits is None else f"{value:,.{digits}f}"
    return str(value)
