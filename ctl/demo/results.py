# SPDX-License-Identifier: GPL-2.0-or-later
"""Kept results: a file of results/*.jsonl, one run a line.

The first line is the head: what holds for the whole file (the command that measured, the machine), and in `all` what
every run has in common (often its commit). Each further line is a run, in JSON. So a diff shows the runs that are new,
and nothing is said twice. The document of `ctl demo` and its page is the same head with the runs in a list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

__all__ = ["Results", "commits_of", "read", "write"]

_ALL: Final = "all"

Run = dict[str, Any]


@dataclass(frozen=True)
class Results:
    """Results as they were measured: the head without `all`, and each run with what all have in common."""

    head: dict[str, Any]
    runs: list[Run]

    @property
    def commits(self) -> str:
        """The commits at which the runs were made."""
        return commits_of(self.runs)


def read(path: Path) -> Results:
    """Read a file of results. Raises OSError, and ValueError where a line is not JSON."""
    with path.open() as file:  # splitlines would split at more than line ends, and JSON may have U+0085 in a string
        head, *runs = map(json.loads, file)
    common = head.pop(_ALL, {})
    return Results(head, [{**common, **run} for run in runs])


def write(path: Path, head: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> None:
    """Write a file of results, a run a line; what all of two or more runs have in common goes to the head."""
    common = {}
    if len(runs) > 1:
        common = {key: value for key, value in runs[0].items() if all(key in run and run[key] == value for run in runs)}
    rest = [{key: value for key, value in run.items() if key not in common} for run in runs]
    rows = [{**head, **({_ALL: common} if common else {})}, *rest]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def commits_of(runs: Iterable[Mapping[str, Any]]) -> str:
    """The commits at which runs were made, in their order, each once."""
    return ", ".join(dict.fromkeys(str(run["commit"]) for run in runs))
