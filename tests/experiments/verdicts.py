# SPDX-License-Identifier: GPL-2.0-or-later
"""A paper's claims that need real nodes, and the verdicts on them.

A verdict is "reproduced", "not reproduced", "not measured" with what is missing, or "not applicable" with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from rich.console import Console
from rich.table import Table

__all__ = ["HEADINGS", "Claim", "Found", "Missing", "Verdict", "judge", "row", "show"]

HEADINGS: Final = ("claim", "the paper", "reproduced if", "measured", "verdict")
"""Of a table of row()."""

Found = tuple[bool, str]
"""Whether a claim holds, and the numbers."""

R = TypeVar("R")
"""What an experiment has measured."""


class Missing(Exception):
    """A measurement that is needed was not made."""


@dataclass(frozen=True, slots=True)
class Claim(Generic[R]):
    """A row: the paper's claim, when it holds, and the test; None: it is not applicable, and `holds_if` says why."""

    id: str
    says: str
    holds_if: str
    test: Callable[[R], Found] | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The finding."""

    claim: Claim[Any]
    verdict: str
    measured: str


def judge(claims: Iterable[Claim[R]], results: R) -> list[Verdict]:
    """The verdict on each claim."""
    verdicts = []
    for claim in claims:
        if claim.test is None:
            verdicts.append(Verdict(claim, "not applicable", f"because {claim.holds_if}"))
            continue
        try:
            holds, numbers = claim.test(results)
        except Missing as missing:
            verdicts.append(Verdict(claim, "not measured", str(missing)))
            continue
        verdicts.append(Verdict(claim, "reproduced" if holds else "not reproduced", numbers))
    return verdicts


def row(verdict: Verdict) -> Sequence[str]:
    """A verdict as a row of a table."""
    claim = verdict.claim
    return [claim.id, claim.says, claim.holds_if if claim.test else "–", verdict.measured, verdict.verdict]


def show(
    tables: Iterable[tuple[str, Sequence[str], Iterable[Sequence[str]]]], verdicts: Iterable[Verdict], console: Console
) -> None:
    """Print tables, of which each has a title, headings and rows, and the verdicts, each on a line."""
    for title, headings, rows in tables:
        shown = Table(*headings, title=title)
        for cells in rows:
            shown.add_row(*cells)
        console.print(shown)
    for verdict in verdicts:
        claim = verdict.claim
        console.print(f"{claim.id}: {claim.says}: {verdict.verdict}: {verdict.measured}", highlight=False)
