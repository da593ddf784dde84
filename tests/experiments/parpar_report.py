# SPDX-License-Identifier: GPL-2.0-or-later
"""The results of the experiment `parpar`: F. 5 and F. 6 as tables and as a plot, and the verdicts on the claims."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.experiments.parpar_claims import CLAIMS, Results
from tests.experiments.parpar_model import access_ns, modelled
from tests.experiments.parpar_plan import C_SWEEP, FIGURE_5, NO_LIMIT, THETAS, Case, limit_name, scales
from tests.experiments.verdicts import HEADINGS, Missing, judge, row
from tests.experiments.waiting import markdown as table_of

__all__ = ["beside_the_model", "markdown", "plot", "tables"]

_ENDS: Final = (1.0, 2.0)  # θ of F. 5
_PAIRS: Final = (("seconds", "time_s", 2), ("faults", "faults", 0))  # of a measurement and of the simulator; digits

Table = tuple[str, list[str], list[list[str]]]
"""A title, headings, and rows."""


def tables(results: Results) -> list[Table]:
    """All tables of what was measured."""
    five = [(theta, c) for theta in _ENDS for c in FIGURE_5]
    names = [f"θ={theta:g}, {limit_name(c)}" for theta, c in five]
    jobs = sorted({run["jobs"] for run in results.of(kind="static")})
    by_jobs = [[str(n), *(_cell(results, "seconds", n, *line) for line in five)] for n in jobs]
    found = [("F. 5: s until all jobs have ended", ["jobs", *names], by_jobs)]
    with contextlib.suppress(Missing):
        most = results.most
        for name, title in (("seconds", f"F. 6: s until {most} jobs have ended"), ("faults", f"Faults of {most} jobs")):
            rows = [[f"{theta:g}", *(_cell(results, name, most, theta, c) for c in C_SWEEP)] for theta in THETAS]
            found.append((title, ["θ", *map(limit_name, C_SWEEP)], rows))
    return found


def beside_the_model(results: Results) -> Table:
    """What was measured, and the simulator's word on the same jobs. Raises Missing."""
    ns, most, rows = access_ns(results), results.most, list[list[str]]()
    for theta, c in ((theta, c) for theta in _ENDS for c in (0.8, *FIGURE_5)):
        model = modelled(Case("static", most, theta, c), ns)
        pairs = [(digits, results.figure(name, most, theta, c), model[other]) for name, other, digits in _PAIRS]
        cells = [f"{value:,.{digits}f}" for digits, *both in pairs for value in both]
        rows.append([f"θ={theta:g}, {limit_name(c)}", *cells])
    title = f"{most} jobs beside the simulator's, whose access takes {ns:.0f} ns"
    return title, ["jobs", "measured, s", "simulated, s", "measured, major faults", "simulated, faults"], rows


def _cell(results: Results, name: str, jobs: int, theta: float, c: float) -> str:
    try:
        value = results.figure(name, jobs, theta, c)
    except Missing:
        return "–"
    return f"{value:,.0f}" if name == "faults" else f"{value:,.2f}"


def markdown(results: Results, command: str, picture: str, left: int, commit: str) -> str:
    """The whole report as a file of results/; `picture`: the plot's file there; `left`: cases not measured."""
    seeds = len({one["seed"] for one in results.measured})
    runs = f"medians of {seeds} seeds" if seeds > 1 else "one seed"
    what = f"`{command}` at {commit}: one guest in instruction-counted time, {runs}."
    if left:
        what += f" {left} of its cases were not measured; F. 6 is of {results.most} jobs."
    parts = ["# ParPar's figures 5 and 6 on real paging", what, f"![Time by jobs and by locality]({picture})"]
    found = tables(results)
    with contextlib.suppress(Missing):
        found.append(beside_the_model(results))
    for title, headings, rows in found:
        parts += [f"## {title}", table_of(rows, headings)]
    parts += ["## Claims", "Those of the model are the simulator's: [parpar.md](parpar.md).",
              table_of([row(verdict) for verdict in judge(CLAIMS, results)], HEADINGS)]
    parts += ["## What was scaled down", table_of(scales(results.most), ["", "the paper", "here"])]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def plot(results: Results, path: Path) -> None:
    """Draw F. 5, once for each θ, and F. 6."""
    import matplotlib  # takes a second, and only this needs it

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawing, axes = pyplot.subplots(1, 3, figsize=(13, 4.4), layout="constrained")
    for axis, theta in zip(axes, _ENDS, strict=False):
        for c in FIGURE_5:
            points = [(n, results.seconds(n, theta, c)) for n in results.jobs(theta, c)]
            _line(axis, points, c)
        axis.set(title=f"F. 5, θ={theta:g}", xlabel="jobs", ylabel="s until all have ended")
    for c in C_SWEEP[1:]:
        _line(axes[2], [(theta, results.seconds(results.most, theta, c)) for theta in results.thetas(c)], c)
    axes[2].set(title=f"F. 6, {results.most} jobs", xlabel="θ (locality grows to the right)", yscale="log")
    axes[2].set_ylabel("s until all have ended, logarithmic")
    for axis in axes[:2]:
        axis.set_ylim(bottom=0)
    for axis in axes:
        axis.legend(frameon=False, fontsize=9)
    drawing.savefig(path, dpi=110)
    pyplot.close(drawing)


def _line(axis: Any, points: Sequence[tuple[float, float]], c: float) -> None:
    if points:
        place = C_SWEEP.index(c)
        style = "s--" if c == NO_LIMIT else "o-"
        axis.plot(*zip(*points, strict=True), style, color=f"C{place}", label=limit_name(c), markersize=4)
