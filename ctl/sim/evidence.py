# SPDX-License-Identifier: GPL-2.0-or-later
"""The evidence for claims: the replications of an experiment's points, and comparisons of them.

A sign holds where the mean of the paired differences has it and its 95 % interval excludes zero; "about equal" where
the interval holds zero or the means differ by no more than a tenth.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ctl.sim.experiment import Experiment, runs
from ctl.sim.intervals import Mean, paired
from ctl.sim.params import Value
from ctl.sim.store import Run

__all__ = ["Evidence", "Missing", "about", "less"]


Fetch = Callable[[Sequence[Run]], Mapping[tuple[str, str, str, int], dict[str, Any]]]
"""Kept results of runs, by their keys."""


class Missing(Exception):
    """An experiment has not two replications that are complete."""


class Evidence:
    """An experiment's results."""

    def __init__(
        self, experiment: Experiment, fetch: Fetch, replications: int, override: Mapping[str, object] | None = None
    ) -> None:
        """Fetch those of the replications that are complete at every point; raises Missing."""
        self.experiment = experiment
        points = runs(experiment, replications, override)
        found = fetch([run for point in points.values() for run in point])
        whole = [row for row in zip(*points.values(), strict=True) if all(run.key in found for run in row)]
        if len(whole) < 2:
            raise Missing(experiment.name)
        columns = zip(*whole, strict=True)
        self._points = {
            point: [found[run.key] for run in column] for point, column in zip(points, columns, strict=True)
        }
        self.seeds = [row[0].seed for row in whole]

    @property
    def replications(self) -> int:
        """How many there are."""
        return len(self.seeds)

    def only(self, seeds: Collection[int]) -> Evidence:
        """This evidence with these seeds alone, so that two experiments can be paired."""
        kept = copy.copy(self)
        at = [i for i, seed in enumerate(self.seeds) if seed in seeds]
        kept.seeds = [self.seeds[i] for i in at]
        kept._points = {point: [of[i] for i in at] for point, of in self._points.items()}
        return kept

    @property
    def xs(self) -> list[Value]:
        """The x axis."""
        return list(self.experiment.xs)

    def column(self, line: str, x: Value, metric: str) -> list[float | None]:
        """A metric of one point, by replication."""
        return [result[metric] for result in self._points[line, x]]

    def mean(self, line: str, x: Value, metric: str) -> Mean:
        """Its mean."""
        return Mean.of(self.column(line, x, metric))

    def results(self, line: str) -> Sequence[Mapping[str, Any]]:
        """A trial's results, by replication."""
        return self._points[line, ""]

    def difference(self, a: str, b: str, x: Value, metric: str) -> Mean:
        """Of line a minus line b, paired."""
        return paired(self.column(a, x, metric), self.column(b, x, metric))

    def less_at(self, a: str, b: str, metric: str, xs: Sequence[Value] | None = None) -> list[Value]:
        """The xs at which a is less than b."""
        return [x for x in (self.xs if xs is None else xs) if less(self.difference(a, b, x, metric))]

    def about_at(self, a: str, b: str, metric: str, xs: Sequence[Value] | None = None) -> list[Value]:
        """The xs at which a and b are about equal."""
        return [
            x
            for x in (self.xs if xs is None else xs)
            if about(self.difference(a, b, x, metric), self.mean(b, x, metric).mean)
        ]

    def show(self, metric: str, *lines: str) -> str:
        """The means of some lines over x, for people."""
        return "; ".join(
            f"{line} " + " ".join(_short(self.mean(line, x, metric).mean) for x in self.xs) for line in lines
        )


def less(difference: Mean) -> bool:
    """Is the difference below zero?"""
    return difference.n > 1 and difference.high < 0


def about(difference: Mean, of: float) -> bool:
    """Is it zero, or no more than a tenth?"""
    return difference.n > 1 and (difference.low <= 0 <= difference.high or abs(difference.mean) <= 0.1 * abs(of))


def _short(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3g}"
