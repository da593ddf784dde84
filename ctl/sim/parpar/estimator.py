# SPDX-License-Identifier: GPL-2.0-or-later
"""How much memory a job will use, by its previous runs (ParPar §2.1).

A job is identified by executable, number of nodes and user; without history, by executable and nodes, then by
executable (§2.1.1). The history of each kind is that of ctl/policy/estimate.py, for this month and the last (§2.1.2).
The caller chooses the unit of memory; a job's memory is that of its largest
process (B-PP-6).

>>> estimator = Estimator()
>>> kind = Kind(1, 4, 7)
>>> for at, memory in enumerate((10.0, 30.0)):
...     estimator.observe(kind, memory, float(at))
>>> estimator.estimate(kind, 5.0), estimator.estimate(Kind(1, 8, 9), 5.0), estimator.estimate(Kind(2, 4, 7), 5.0)
(30.0, 30.0, None)
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ctl.policy.estimate import DEVIATIONS, PERIOD_S, Runs, estimate

__all__ = ["Estimator", "Kind"]


class Kind(NamedTuple):
    """The identity of a job: numbers of the executable and the user, and the number of nodes."""

    path: int | None
    nodes: int
    user: int | None


class _Entry:
    """This period's runs and the last one's."""

    __slots__ = ("last", "period", "this")

    def __init__(self, period: int) -> None:
        self.period, self.this, self.last = period, Runs(), Runs()

    def age(self, period: int) -> None:
        """At a period's end, this period becomes the last; older periods are forgotten."""
        if period > self.period:
            self.last = self.this if period == self.period + 1 else Runs()
            self.this, self.period = Runs(), period


class Estimator:
    """The store, and the estimate; §2.1.3's three deviations and §2.1.2's month may be others."""

    def __init__(self, deviations: float = DEVIATIONS, period_s: float = PERIOD_S) -> None:
        """Begin with nothing known."""
        self._deviations, self._period_s = deviations, period_s
        self._entries: dict[tuple[Any, ...], _Entry] = {}

    @staticmethod
    def _keys(kind: Kind) -> tuple[tuple[Any, ...], ...]:
        return tuple(kind), (kind.path, kind.nodes), (kind.path,)

    def observe(self, kind: Kind, memory: float, at_s: float) -> None:
        """A run of this kind has ended at that time and had used so much."""
        period = int(at_s // self._period_s)
        for key in self._keys(kind):
            entry = self._entries.setdefault(key, _Entry(period))
            entry.age(period)
            entry.this = entry.this.and_one(memory)

    def estimate(self, kind: Kind, at_s: float) -> float | None:
        """The estimated use of a job of this kind; None without such a job in this period or the last."""
        period = int(at_s // self._period_s)
        for key in self._keys(kind):
            entry = self._entries.get(key)
            if entry is None:
                continue
            entry.age(period)
            found = estimate(entry.this.and_all(entry.last), self._deviations)
            if found is not None:
                return found
            del self._entries[key]
        return None
