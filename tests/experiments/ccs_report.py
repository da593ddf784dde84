# SPDX-License-Identifier: GPL-2.0-or-later
"""The results of an experiment of CCS: a table, a plot, and the verdicts on the paper's claims."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.experiments.ccs_claims import CLAIMS, Missing, Results, Verdict, check
from tests.experiments.ccs_plan import SCALES, Experiment
from tests.experiments.ccs_stats import FIGURES, Mean

__all__ = ["markdown", "plot", "table", "verdict_line"]

_HOW: Final = (
    "Speedup: mean over the jobs of their time on one node, alone, under EEVDF, with all ranks there, by their time "
    "here (CCS eq. 7); for a job of more than two ranks that of two, times half its ranks. Slowdown: wall time of "
    "local users by their undisturbed wall time, and the same for the time in which they are not asleep on purpose. "
    "Ranks run at once: of the time that ranks of a job run, the part in which they run on all its nodes; a rank that "
    "polls runs."
)
_VERDICTS: Final = (
    "A verdict goes by means, whatever their intervals: where these are wider than the difference, it may be chance."
)
_COLOURS: Final = ("#4e79a7", "#f28e2b", "#59a14f")


def table(experiment: Experiment, results: Results) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: every configuration under every workload that was measured."""
    headings = ["workload", "scheduler", "runs", *(figure.label for figure in FIGURES)]
    rows = []
    for workload in experiment.workloads:
        for config in experiment.configs:
            cells = [_mean(results, workload.name, config, figure.key) for figure in FIGURES]
            runs = max((cell.runs for cell in cells if cell), default=0)
            if runs:
                rows.append([workload.name, config, str(runs), *(str(cell) if cell else "–" for cell in cells)])
    return headings, rows


def _mean(results: Results, workload: str, config: str, key: str) -> Mean | None:
    try:
        return results.mean(workload, config, key)
    except Missing:
        return None


def markdown(experiment: Experiment, results: Results, command: str, commits: str) -> str:
    """The whole report as a file of results/."""
    loads = [float(run["host_load"]) for run in results.runs if "host_load" in run]
    machines = len(experiment.nodes)
    busy = f" The host's load was {min(loads):.1f} to {max(loads):.1f}; {machines} machines make 2." if loads else ""
    parts = [
        f"# {experiment.title}",
        f"`{command}` at {commits}: means of runs ± half a 95 % confidence interval. Every configuration had the same "
        f"jobs and, run by run, the same local users.{busy}",
        _table(*table(experiment, results)),
        f"![Speedup and slowdown]({experiment.name}.png)",
    ]
    verdicts = check(CLAIMS[experiment.name], results)
    if verdicts:
        rows = [[v.claim.id, v.claim.says, v.claim.tolerance, v.measured, v.verdict] for v in verdicts]
        parts += ["## Claims", _VERDICTS, _table(["claim", "the paper", "reproduced if", "measured", "verdict"], rows)]
    scales = [list(row) for row in SCALES]
    parts += ["## What was scaled down", _table(["", "the paper", "here"], scales)]
    parts.append(_HOW)
    return "\n\n".join(parts) + "\n"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def verdict_line(verdict: Verdict) -> str:
    """A verdict as a line for people."""
    claim = verdict.claim
    return f"{claim.id}: {claim.says} ({claim.tolerance}): {verdict.measured}: {verdict.verdict}"


def plot(experiment: Experiment, results: Results, path: Path) -> None:
    """Bars of the speedup of jobs and the slowdown of local users, as in the paper, where they were measured."""
    import matplotlib  # takes a second, and only this needs it

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = (("speedup", "speedup of parallel jobs", None), ("slowdown", "slowdown of local users", 2.0))
    measured = {config for workload in experiment.workloads for config in results.configs(workload.name)}
    configs = [config for config in experiment.configs if config in measured]
    width = 0.8 / len(experiment.workloads)
    drawing, axes = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for axis, (key, title, limit) in zip(axes, shown, strict=True):
        for number, workload in enumerate(experiment.workloads):
            places, heights, errors = [], [], []
            for place, config in enumerate(configs):
                found = _mean(results, workload.name, config, key)
                if found:
                    places.append(place + (number - (len(experiment.workloads) - 1) / 2) * width)
                    heights.append(found.value)
                    errors.append(found.half or 0.0)
            axis.bar(places, heights, width, yerr=errors, capsize=3, color=_COLOURS[number], label=workload.name)
        if limit is not None:
            axis.axhline(limit, color="grey", linewidth=0.8, linestyle="--")
        axis.set_xticks(range(len(configs)), configs, rotation=20, ha="right", rotation_mode="anchor")
        axis.set_title(title)
        axis.set_ylim(bottom=0)
    axes[0].legend(frameon=False)
    drawing.savefig(path, dpi=110)
    pyplot.close(drawing)
