# SPDX-License-Identifier: GPL-2.0-or-later
"""The figures, as PNG and SVG: the papers' axes, means of the replications, 95 % error bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ctl.sim.experiment import Experiment
from ctl.sim.intervals import Mean
from ctl.sim.params import Value

__all__ = ["draw"]

Results = Mapping[tuple[str, Value], Sequence[Mapping[str, Any]]]
"""Results of the replications of each point, by line and x."""

_MARKS = "os^Dv<"


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

    figure = Figure(figsize=(5.2 * len(experiment.panels), 4), layout="constrained")
    row = figure.subplots(1, len(experiment.panels), squeeze=False)[0]
    for panel, axes in zip(experiment.panels, row, strict=True):
        for mark, line in zip(_MARKS, panel.lines or experiment.lines, strict=False):
            points = [Mean.of(r[panel.metric] for r in results[line, x]) for x in experiment.xs]
            bars = [point.half if point.n > 1 else 0.0 for point in points]
            axes.errorbar(
                experiment.xs, [point.mean for point in points], bars, marker=mark, ms=4, capsize=2, lw=1, label=line
            )
        if experiment.log:
            axes.set_xscale("log")
            axes.set_xticks(experiment.xs, [str(x) for x in experiment.xs])
            axes.minorticks_off()
        axes.set(xlabel=experiment.xlabel, ylabel=panel.label, title=panel.title)
        axes.grid(alpha=0.3)
        axes.legend()
    return figure


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
