# SPDX-License-Identifier: GPL-2.0-or-later
"""A paper's claims as rows that are judged by an experiment's results, whatever these are.

A verdict is "reproduced", "not reproduced", "not measured" with what is missing, or "not applicable" with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

__all__ = ["Claim", "Found", "Missing", "Verdict", "judge"]

R = TypeVar("R")
"""The results of an experiment."""

Found = tuple[bool, str]
"""Whether a claim holds, and the numbers."""


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

    def row(self) -> list[str]:
        """Its cells in a table: claim, what the paper says, the condition, what was measured, the verdict."""
        claim = self.claim
        return [claim.id, claim.says, claim.holds_if if claim.test else "–", self.measured, self.verdict]


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
