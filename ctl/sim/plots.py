# SPDX-License-Identifier: GPL-2.0-or-later
"""The figures, as PNG and SVG: the papers' axes, means of the replications, 95 % error bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ctl.sim.experiment import Experiment, Panel
from ctl.sim.intervals import Mean
from ctl.sim.params import Value

__all__ = ["draw"]

Results = Mapping[tuple[str, Value], Sequence[Mapping[str, Any]]]
"""Results of the replications of each point, by line and x."""

_MARKS = "os^Dv<"
_ACROSS = 3  # panels side by side


def draw(experiment: Experiment, results: Results, where: Path) -> list[Path]:
    """Draw an experiment; returns the files written."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams |= {"svg.hashsalt": "cosched", "font.size": 9, "figure.dpi": 130}
    drawn = experiment.draw or partial(_sweep if experiment.panels else _traces, experiment)
    figure = drawn(results)
    replications = min((len(point) for point in results.values()), default=0)
    figure.suptitle(f"{experiment.title} ({replications} replications)" if experiment.panels else experiment.title)
    where.mkdir(parents=True, exist_ok=True)
    files = [where / f"{experiment.name}.{kind}" for kind in ("png", "svg")]
    for file in files:
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    return files


def _sweep(experiment: Experiment, results: Results) -> Any:
    from matplotlib.figure import Figure

    columns = 2 if len(experiment.panels) == 4 else min(_ACROSS, len(experiment.panels))
    rows = -(-len(experiment.panels) // columns)
    figure = Figure(figsize=(5.2 * columns, 4 * rows), layout="constrained")
    places = figure.subplots(rows, columns, squeeze=False).flat
    for panel, axes in zip(experiment.panels, places, strict=False):
        for mark, line in zip(_MARKS, panel.lines or experiment.lines, strict=False):
            points = [Mean.of(_shown(panel, results, line, x)) for x in experiment.xs]
            bars = [point.half if point.n > 1 else 0.0 for point in points]
            axes.errorbar(
                experiment.xs, [point.mean for point in points], bars, marker=mark, ms=4, capsize=2, lw=1, label=line
            )
        if experiment.log:
            axes.set_xscale("log")
            axes.set_xticks(experiment.xs, [str(x) for x in experiment.xs])
            axes.minorticks_off()
        if panel.against:
            axes.axhline(1, color="gray", lw=1, ls="--", label=panel.against)
        axes.set(xlabel=experiment.xlabel, ylabel=panel.label, title=panel.title)
        axes.grid(alpha=0.3)
        axes.legend()
    for unused in places[len(experiment.panels) :]:
        unused.set_axis_off()
    return figure


def _shown(panel: Panel, results: Results, line: str, x: Value) -> list[float | None]:
    """A point's values, by replication."""
    values = [r[panel.metric] for r in results[line, x]]
    if not panel.against:
        return values
    others = [r[panel.metric] for r in results[panel.against, x]]
    return [v / o if v is not None and o else None for v, o in zip(values, others, strict=True)]


def _traces(experiment: Experiment, results: Results) -> Any:
    """Resident pages above, CPU time below, one column for each policy, of the first replication."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(experiment.lines), 6.5), layout="constrained")
    rows = figure.subplots(2, len(experiment.lines), sharex=True, sharey="row")
    for column, line in enumerate(experiment.lines):
        for label, trace in results[line, ""][0]["traces"].items():
            times = [at for at, _, _ in trace]
            rows[0][column].plot(times, [res / 1024 for _, _, res in trace], lw=1, label=label)
            rows[1][column].plot(times, [cpu for _, cpu, _ in trace], lw=1, label=label)
        rows[0][column].set(title=line, ylabel="resident, K pages")
        rows[1][column].set(xlabel="time, s", ylabel="accumulated CPU time, s")
        for row in rows:
            row[column].grid(alpha=0.3)
            row[column].legend()
    return figure
