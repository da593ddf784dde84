# SPDX-License-Identifier: GPL-2.0-or-later
"""The percentile that is meant wherever a p99 is told: nearest rank."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["percentile"]


def percentile(samples: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: the smallest sample that `share` (0..1) of them do not exceed."""
    if not samples:
        raise ValueError("a percentile of no samples")
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
