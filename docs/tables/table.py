# SPDX-License-Identifier: GPL-2.0-or-later
"""A table of a page: where its runs are, how it is made of them, and the line below it that says so."""

from __future__ import annotations

import os.path
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from ctl.demo import results
from ctl.demo.results import Results, Run
from tests.experiments.waiting import markdown

__all__ = ["RESULTS", "ROOT", "Grid", "Source", "Table", "best", "best_in_columns", "by_config", "plain"]

ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = ROOT / "results"
_WIDTH: Final = 120
_COUNTS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_UNKNOWN: Final = "unknown"  # of a line of results/noted.jsonl
_BASELINES: Final = ("alone",)  # configurations that give only what others are divided by

Row = Sequence[str]


class Grid(NamedTuple):
    """Headings, and rows of as many cells."""

    headings: Row
    rows: Sequence[Row]


class Told(Protocol):
    """What a table is made of."""

    @property
    def kept(self) -> Any:
        """What the table's `make` is given."""

    def told(self, page: Path, brief: bool) -> str:
        """What is said of it below the table."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file of results/, and which of its runs a table is made of.

    stem: the file's name without its ending. case: the keys in which repetitions of one case agree. chosen: the values
    that a key may have, for each key named. average: how a figure is made of several runs.
    """

    stem: str
    case: tuple[str, ...] = ()
    chosen: Mapping[str, Sequence[object]] = field(default_factory=dict)
    average: str = "medians"

    @property
    def kept(self) -> Results:
        """The file's head, and the runs that were chosen. Raises OSError, ValueError where there are none."""
        whole = _read(self.stem)
        runs = [run for run in whole.runs if all(run.get(key) in values for key, values in self.chosen.items())]
        if not runs:
            raise ValueError(f"results/{self.stem}.jsonl has no run with {dict(self.chosen)}")
        return Results(whole.head, runs)

    @property
    def how_many(self) -> str:
        """How many runs the figures are of: "one run", "medians of three runs"."""
        of = Counter(
            tuple(str(run.get(key)) for key in self.case)
            for run in self.kept.runs
            if not self.case or run.get("config") not in _BASELINES
        )
        counts = sorted(set(of.values())) if self.case else [1]
        if counts == [1]:
            return "one run"
        words = dict.fromkeys(map(count_word, (counts[0], counts[-1])))
        return f"{self.average} of {(' or ' if counts[-1] == counts[0] + 1 else ' to ').join(words)} runs"

    def told(self, page: Path, brief: bool) -> str:
        """What is said of the file below a table on this page: a link, runs, commits, and, if not brief, commands."""
        kept, name = self.kept, f"{self.stem}.jsonl"
        link = f"[{name}]({os.path.relpath(RESULTS / name, page.parent)})"
        if "runs" in kept.runs[0]:  # of what was noted, each line by itself
            return f"{link}: {'; '.join(_noted(run) for run in kept.runs)}"
        by = "" if brief else f", by `{kept.head['command']}`"
        return f"{link}, {self.how_many} at {short(kept.commits)}{by}"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a page: its name in the page's comment, its sources, and what makes headings and rows of their runs.

    brief: commands are not named below it.
    """

    name: str
    sources: tuple[Told, ...]
    make: Callable[..., Grid]
    brief: bool = False

    def text(self, page: Path) -> str:
        """The block's lines on this page. Raises KeyError, ValueError or Missing where results lack a figure."""
        grid = self.make(*(source.kept for source in self.sources))
        wrong = [row for row in grid.rows if len(row) != len(grid.headings)]
        if wrong:
            raise ValueError(f"table {self.name}: {wrong[0]} has not {len(grid.headings)} cells")
        told = "; ".join(source.told(page, self.brief) for source in self.sources)
        below = textwrap.fill(f"From {told}.", _WIDTH, break_long_words=False, break_on_hyphens=False)
        return f"{markdown(grid.rows, grid.headings)}\n{below}\n"


@cache
def _read(stem: str) -> Results:
    return results.read(RESULTS / f"{stem}.jsonl")


def count_word(count: int) -> str:
    """A count in words, if it is a small one."""
    return _COUNTS[count] if count < len(_COUNTS) else str(count)


def _noted(run: Run) -> str:
    """What is known of a line of results/noted.jsonl."""
    runs, commit, command = run["runs"], str(run["commit"]), run["command"]
    many = f"{count_word(runs)} {'run' if runs == 1 else 'runs'}" if isinstance(runs, int) else runs
    told, unknown = [many] if many != _UNKNOWN else [], ["number of runs"] if many == _UNKNOWN else []
    if commit.startswith(_UNKNOWN):
        unknown.append(f"commit{commit.removeprefix(_UNKNOWN)}")
    else:
        told.append(f"at {short(commit)}")
    if command == _UNKNOWN:
        unknown.append("command")
    else:
        told.append(f"by `{command}`")
    return ", ".join([" ".join(told)] * bool(told) + [f"unknown: {' and '.join(unknown)}"] * bool(unknown))


def short(commits: str) -> str:
    """Commits with seven digits each, each once.

    >>> short("a2096b889167, a2096b8, 19c47c29f64d-dirty")
    'a2096b8, 19c47c2-dirty'
    """
    return ", ".join(dict.fromkeys(re.sub(r"\b([0-9a-f]{7})[0-9a-f]+", r"\1", one) for one in commits.split(", ")))


def plain(value: float, digits: int | None = None) -> str:
    """A number for a cell; digits None: one decimal below 10, as the demo tells milliseconds.

    >>> plain(1676.2), plain(6.91), plain(0.0503, 3)
    ('1,676', '6.9', '0.050')
    """
    return f"{value:,.{int(abs(value) < 10) if digits is None else digits}f}"


def _value(cell: str) -> float | None:
    found = re.match(r"[-+]?\d[\d,]*(?:\.\d+)?", cell)
    return float(found[0].replace(",", "")) if found else None


def best(cells: Row, choose: Callable[[Sequence[float]], float] = min) -> list[str]:
    """The same cells, the best ones bold; none is where all are the same. choose: max if more is better.

    >>> best(["1.50", "", "0.01"])
    ['1.50', '', '**0.01**']
    """
    values = [value for cell in cells if (value := _value(cell)) is not None]
    if len(set(values)) < 2:
        return list(cells)
    return [f"**{cell}**" if _value(cell) == choose(values) else cell for cell in cells]


def best_in_columns(rows: Sequence[Row], more: Sequence[int] = ()) -> list[list[str]]:
    """The same rows, the best cell of each column bold; more: the columns in which more is better."""
    columns = [best(column, max if at in more else min) for at, column in enumerate(zip(*rows, strict=True))]
    return [list(row) for row in zip(*columns, strict=True)]


def by_config(kept: Results) -> dict[str, list[Any]]:
    """The runs of a demo or an experiment, by configuration, in the file's order."""
    found: dict[str, list[Run]] = {}
    for run in kept.runs:
        found.setdefault(run["config"], []).append(run)
    return found
