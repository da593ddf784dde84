# SPDX-License-Identifier: GPL-2.0-or-later
"""An experiment: the runs of a figure, and the figure's graphs.

A figure has lines (a policy with parameters of its own) over an x axis; a point is the mean of replications. A run is
identified by its parameters, not by its figure, so figures share equal runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ctl.sim.params import Model, Value
from ctl.sim.store import Run

__all__ = ["Experiment", "Line", "Panel", "runs"]

Line = tuple[str, Mapping[str, Value]]
"""A policy, and the parameters that only this line has."""


@dataclass(frozen=True)
class Panel:
    """One graph: a metric of the model's run()."""

    metric: str
    title: str
    label: str
    lines: tuple[str, ...] = ()  # only these
    against: str = ""  # a line: each replication is shown relative to this line


@dataclass(frozen=True)
class Experiment:
    """A figure. `at` has the parameters of all runs, `load` those by x; a line's own parameters come last."""

    name: str
    title: str
    model: Model
    lines: Mapping[str, Line]
    x: str = ""  # a parameter; "": one point, whose x is ""
    xs: Sequence[Value] = ("",)
    panels: tuple[Panel, ...] = ()  # none: the results are traces over time
    at: Mapping[str, Value] = field(default_factory=dict)
    load: Callable[[Value], Mapping[str, Value]] = lambda _: {}
    xlabel: str = ""
    log: bool = False  # the x axis is
    seeds: int = 10
    draw: Callable[[Any], Any] | None = None  # of results by line and x: a Figure of its own, instead of plots.py's


def runs(
    experiment: Experiment, replications: int = 0, override: Mapping[str, object] | None = None
) -> dict[tuple[str, Value], list[Run]]:
    """The runs of each point, by line and x; `override` changes parameters of all runs."""
    seeds = range(1, (replications or experiment.seeds) + 1)
    model, points = experiment.model, {}
    for line, (policy, own) in experiment.lines.items():
        for x in experiment.xs:
            at = {experiment.x: x} if experiment.x else {}
            values = model.complete({**experiment.load(x), **experiment.at, **own, **at, **(override or {})})
            points[line, x] = [Run(model.name, policy, values, seed) for seed in seeds]
    return points
