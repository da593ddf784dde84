# SPDX-License-Identifier: GPL-2.0-or-later
"""A claim of a paper that the simulator can judge, as a test that is declared before its runs are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ctl.sim.evidence import Evidence
from ctl.sim.params import Value

__all__ = ["Claim", "Found", "Test", "by_reading", "shown"]

Found = tuple[bool, str]
"""Whether it holds, and the numbers."""

Test = Callable[..., Found]
"""Of the experiments' Evidence."""


class Claim(NamedTuple):
    """A row: the claim, the condition, the experiments, and the test."""

    id: str
    says: str
    holds_if: str  # of one that is not checkable: why
    experiments: tuple[str, ...]
    test: Test | None  # None: not checkable here


def shown(values: Mapping[str, Value]) -> str:
    """How a claim's row names a reading that is other parameters.

    >>> shown({"wake": "bottom", "mno": 3})
    'wake=bottom, mno=3'
    """
    return ", ".join(f"{name}={value}" for name, value in values.items())


def by_reading(test: Test, others: Sequence[str]) -> Test:
    """Judge by the defaults, and report the results of other readings of the paper.

    The test that it makes is of the experiments under the defaults, then of the same under each of the other readings,
    whose names `others` has.
    """

    def judged(*evidence: Evidence) -> Found:
        n = len(evidence) // (len(others) + 1)
        default, *rest = (evidence[i : i + n] for i in range(0, len(evidence), n))
        holds, numbers = test(*default)
        for name, other in zip(others, rest, strict=True):
            would, instead = test(*other)
            numbers += f" [{name}: {'holds' if would else 'does not hold'}, {instead}]"
        return holds, numbers

    return judged
