# SPDX-License-Identifier: GPL-2.0-or-later
"""Means with 95 % confidence intervals, of replications and of differences between paired ones.

>>> m = Mean.of([1.0, 2.0, 3.0])
>>> round(m.mean, 2), round(m.half, 2), m.n
(2.0, 2.48, 3)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["Mean", "paired", "slope", "student_t"]

# two-sided 95 % quantiles of Student's t, by degrees of freedom; beyond 30, the next lower row
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
      2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045,
      2.042)  # fmt: skip
_T_MANY = ((40, 2.042), (60, 2.021), (120, 2.000), (10**9, 1.980))


class Mean(NamedTuple):
    """A mean and half the width of its 95 % confidence interval (infinite for a single value)."""

    mean: float
    half: float
    n: int

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Mean:
        """Of the values that there are."""
        known = [v for v in values if v is not None]
        n = len(known)
        if not n:
            return cls(math.nan, math.inf, 0)
        mean = math.fsum(known) / n
        if n == 1:
            return cls(mean, math.inf, 1)
        deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in known) / (n - 1))
        return cls(mean, student_t(n - 1) * deviation / math.sqrt(n), n)

    @property
    def low(self) -> float:
        """The interval's lower end."""
        return self.mean - self.half

    @property
    def high(self) -> float:
        """The interval's upper end."""
        return self.mean + self.half

    def __str__(self) -> str:
        return f"{self.mean:.3g} ± {self.half:.2g}"


def student_t(freedom: int) -> float:
    """The two-sided 95 % quantile for so many degrees of freedom; beyond 30 the next lower row of the usual table."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    return next(t for most, t in _T_MANY if freedom <= most)


def paired(a: Sequence[float | None], b: Sequence[float | None]) -> Mean:
    """The mean of a - b, replication by replication, where both are known."""
    return Mean.of([x - y for x, y in zip(a, b, strict=True) if x is not None and y is not None])


def slope(xs: Sequence[float], columns: Sequence[Sequence[float | None]]) -> Mean:
    """The mean over replications of the least squares slope over xs; columns[i] are the replications at xs[i]."""
    slopes = []
    for line in zip(*columns, strict=True):
        known = [(x, y) for x, y in zip(xs, line, strict=True) if y is not None]
        if len(known) < 2:
            continue
        mean_x = math.fsum(x for x, _ in known) / len(known)
        mean_y = math.fsum(y for _, y in known) / len(known)
        square = math.fsum((x - mean_x) ** 2 for x, _ in known)
        slopes.append(math.fsum((x - mean_x) * (y - mean_y) for x, y in known) / square)
    return Mean.of(slopes)
