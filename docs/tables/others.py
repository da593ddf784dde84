# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of the pages on clusters, lock-step and the simulator: what was noted, and what results/*.md have."""

from __future__ import annotations

import os.path
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ctl.demo.results import Results
from docs.tables.noted import noted
from docs.tables.table import RESULTS, Grid, Source, Table

__all__ = ["TABLES"]

_VERDICTS: Final = ("reproduced", "not reproduced", "not checkable here")
_MODELS: Final = {  # of the simulator: its page, and the table of its claims in results/
    "csm": (
        "[csm](simulator.md)", "32 nodes with local, small and large jobs, demand paging and messages; today's scale"
    ),
    "ccs": ("[ccs](simulator-ccs.md)", "the same with quanta, memory pools, local users, and events between nodes"),
    "dcndc": ("[dcndc](simulator-dcndc.md)", "Monito's one node, SDCA"),
    "loadshare": (
        "[loadshare, loadshare-unknown](simulator-loadshare.md)", "placement and migration of jobs"
    ),
    "parpar": ("[parpar](simulator-parpar.md)", "gang scheduling, admission by memory"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Printed:
    """A table of claims that `ctl sim claims` has printed into a file of results/."""

    stem: str

    @property
    def kept(self) -> Grid:
        """The table. Raises OSError, ValueError where there is none."""
        return _first_table(self.stem)

    def told(self, page: Path, brief: bool) -> str:
        """What is said of the file below a table: a link, and the digest of the model's engine."""
        name = f"{self.stem}.md"
        engine = re.search(rf"\b{self.stem} ([0-9a-f]{{7}})", (RESULTS / name).read_text())
        return f"[{name}]({os.path.relpath(RESULTS / name, page.parent)}){f', engine {engine[1]}' if engine else ''}"


def _first_table(stem: str) -> Grid:
    """The first table of a file of results/. Raises ValueError where there is none."""
    found = re.search(r"(?:^\|.*\n)+", (RESULTS / f"{stem}.md").read_text(), re.MULTILINE)
    if found is None:
        raise ValueError(f"results/{stem}.md has no table")
    headings, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in found[0].splitlines())
    return Grid(headings, rows)


def _verdicts(*claims: Grid) -> Grid:
    rows = []
    for (page, subject), grid in zip(_MODELS.values(), claims, strict=True):
        count = Counter(row[grid.headings.index("verdict")].strip("*") for row in grid.rows)
        if unknown := set(count) - set(_VERDICTS):
            raise ValueError(f"a verdict is {unknown.pop()!r}")
        rows.append([page, subject, *(str(count[verdict]) for verdict in _VERDICTS)])
    return Grid(["model", "subject", *_VERDICTS], rows)


def _crosscheck(_kept: Results) -> Grid:
    """The kept table: what the simulator does is not simulated again here."""
    return _first_table("crosscheck")


TABLES: Final = (
    noted("cluster-load"),
    noted("cluster-keys"),
    noted("cluster-slots"),
    noted("lockstep-wire", digits=3),
    noted("lockstep-quantum"),
    noted("lockstep-guests", digits=2),
    noted("lockstep-nodes"),
    Table("crosscheck", (Source("crosscheck"),), _crosscheck),
    noted("simulator-speed"),
    noted("simulator-growth"),
    noted("csm-order"),
    noted("csm-cascade"),
    noted("scale"),
    noted("scale-messages"),
    Table("verdicts", tuple(Printed(stem) for stem in _MODELS), _verdicts),
    noted("parpar-estimates"),
)
