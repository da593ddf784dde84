# SPDX-License-Identifier: GPL-2.0-or-later
"""Counters turned into rates: the kernel's counts between two looks, per second.

A look happens only when a reader asks. Each answer covers the newest interval between two looks that were at least
MIN_INTERVAL and at most MAX_INTERVAL apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["MAX_INTERVAL", "MIN_INTERVAL", "Rates"]

MIN_INTERVAL = 0.4  # seconds: several dashboards may ask in turn, and each needs an interval long enough for rates
MAX_INTERVAL = 5.0  # seconds: an average over more is not what happens now

Counters = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class _Look:
    at: float
    counters: Counters


class Rates:
    """Rates of a table of counters: row name, column name -> value."""

    def __init__(self, take: Callable[[], Counters], clock: Callable[[], float] = time.monotonic) -> None:
        """`take` reads all counters now."""
        self._take = take
        self._clock = clock
        self._old: _Look | None = None
        self._new: _Look | None = None

    def look(self) -> None:
        """Read the counters, if the last time is not too recent."""
        now = self._clock()
        if self._new is not None and now - self._new.at < MIN_INTERVAL:
            return
        fresh = self._new is not None and now - self._new.at <= MAX_INTERVAL
        self._old = self._new if fresh else None
        counters = {row: dict(columns) for row, columns in self._take().items()}
        self._new = _Look((now + self._clock()) / 2, counters)

    def rate(self, row: str, column: str) -> float | None:
        """Counts per second; None where the row was not there at both looks."""
        if self._old is None or self._new is None:
            return None
        old, new = self._old.counters.get(row), self._new.counters.get(row)
        if old is None or new is None:
            return None
        return max(0.0, (new[column] - old[column]) / (self._new.at - self._old.at))
