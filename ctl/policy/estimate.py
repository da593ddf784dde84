# SPDX-License-Identifier: GPL-2.0-or-later
"""ParPar's estimate of a job's memory by its previous runs (ParPar §2.1.3), for the agent and the simulator.

The estimate is the smaller of the most and of the mean plus some standard deviations. Of the runs of a period only
their number, the sum of their memory, the sum of its squares and the maximum are kept (B-PP-5).
"""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["DEVIATIONS", "PERIOD_S", "Runs", "estimate"]

DEVIATIONS = 3.0  # ParPar §2.1.3
PERIOD_S = 30 * 86400.0  # a month: this one's runs and the last one's count (ParPar §2.1.2)


class Runs(NamedTuple):
    """The runs of a period; memory in a unit of the caller's choice."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0
    most: float = 0.0

    def and_one(self, memory: float) -> Runs:
        """These runs and one more."""
        return Runs(self.n + 1, self.total + memory, self.squares + memory * memory, max(self.most, memory))

    def times(self, factor: float) -> Runs:
        """The same runs with so many times their memory.

        >>> Runs().and_one(10.0).times(2.0) == Runs().and_one(20.0)
        True
        """
        return Runs(self.n, self.total * factor, self.squares * factor * factor, self.most * factor)

    def and_all(self, other: Runs) -> Runs:
        """The runs of two periods."""
        return Runs(
            self.n + other.n, self.total + other.total, self.squares + other.squares, max(self.most, other.most)
        )


def estimate(runs: Runs, deviations: float = DEVIATIONS) -> float | None:
    """The estimated use of the next run; None without a run.

    >>> estimate(Runs().and_one(10.0).and_one(30.0)), estimate(Runs())
    (30.0, None)
    """
    if not runs.n:
        return None
    mean = runs.total / runs.n
    variance = max(runs.squares / runs.n - mean * mean, 0.0)
    return min(runs.most, mean + deviations * math.sqrt(variance))
