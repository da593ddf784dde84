# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures that are not lines over an axis (Fig. 2), or whose lines go over decades (Fig. 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ctl.sim.intervals import Mean
from ctl.sim.params import Value

__all__ = ["histograms", "over_load"]

Results = Mapping[tuple[str, Value], Sequence[Mapping[str, Any]]]

_PANELS = (
    ("response_s", "response time, of replications that are not saturated", "average response time, s", True),
    ("slowdown", "slowdown, of the same", "average slowdown", True),
    ("queued_percent", "jobs that waited in the queue", "jobs queued, %", False),
    ("saturated_percent", "saturated replications: more than 300 jobs at once", "saturated, %", False),
)
_COLOURS = {"θ=1": "tab:red", "θ=1.5": "tab:blue", "θ=2": "tab:green"}


def over_load(results: Results) -> Any:
    """Fig. 7's metrics over the load: colours are θ, dashed with open marks is with a limit."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.4, 8), layout="constrained")
    lines = list(dict.fromkeys(line for line, _ in results))
    loads = list(dict.fromkeys(x for _, x in results))
    for axes, (metric, title, label, decades) in zip(figure.subplots(2, 2).flat, _PANELS, strict=True):
        for line in lines:
            limited = line.startswith("limit")
            points = [Mean.of(r[metric] for r in results[line, x]) for x in loads]
            # a bar that goes below zero ends at a tenth of its point, where the axis has decades
            below = [min(p.half, 0.9 * p.mean) if decades else p.half for p in points]
            above = [p.half for p in points]
            bars = [[b if p.n > 1 else 0.0 for b, p in zip(of, points, strict=True)] for of in (below, above)]
            axes.errorbar(
                loads, [p.mean for p in points], bars, label=line, color=_COLOURS[line.split(", ")[1]],
                ls="--" if limited else "-", marker="o" if limited else "s", mfc="white" if limited else None,
                ms=5 if limited else 4, capsize=2, lw=1, elinewidth=0.6,
            )  # fmt: skip
        if decades:
            axes.set_yscale("log")
        else:
            axes.set_ylim(-5, 105)
        axes.set(xlabel="system load", ylabel=label, title=title)
        axes.grid(alpha=0.3)
    figure.axes[0].legend(fontsize=8)
    return figure


def histograms(results: Results) -> Any:
    """Fig. 2: jobs by estimate less use, in MB and in percent of the use."""
    from matplotlib.figure import Figure

    result = next(iter(results.values()))[0]
    figure = Figure(figsize=(10.4, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, name, width, reach, label in (
        (left, "buckets_mb", 1, 20, "difference (MB)"),
        (right, "buckets_percent", 50, 400, "difference (% of real)"),
    ):
        shown = [(at, n) for at, n in result[name] if -reach <= at < reach]
        axes.bar([at for at, _ in shown], [n for _, n in shown], width, align="edge", edgecolor="white", lw=0.5)
        axes.set_yscale("log")
        axes.set(xlabel=label, ylabel="number of jobs", xlim=(-reach, reach))
        axes.grid(alpha=0.3)
    left.set_title(
        f"{result['within_5mb_percent']:.0f} % within 5 MB, {result['within_1mb_percent']:.0f} % within 1 MB, "
        f"{result['under_percent']:.0f} % below"
    )
    right.set_title(f"{result['jobs']} jobs, {result['known_percent']:.0f} % with an estimate")
    return figure
