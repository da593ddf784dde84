# SPDX-License-Identifier: GPL-2.0-or-later
"""A claim of a paper: a row of spec.md C, class S, as a test that is declared before its runs are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

__all__ = ["Claim", "Found"]

Found = tuple[bool, str]
"""Whether it holds, and the numbers."""


class Claim(NamedTuple):
    """A row: the claim, the condition, the experiments, and the test."""

    id: str
    says: str
    holds_if: str  # of one that is not checkable: why
    experiments: tuple[str, ...]
    test: Callable[..., Found] | None  # of the experiments' Evidence; None: not checkable here
