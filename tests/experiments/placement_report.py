# SPDX-License-Identifier: GPL-2.0-or-later
"""The results of the experiment `placement`: its tables, its plot, and the verdicts on LoadShare's claims."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.experiments.placement_claims import CLAIMS, FIGURES, Results
from tests.experiments.placement_plan import CONFIGS, PROGRAMS, SCALES, need_mb
from tests.experiments.verdicts import HEADINGS, judge, row
from tests.experiments.waiting import markdown as table_of

__all__ = ["markdown", "plot", "programs", "table"]

Table = tuple[list[str], list[list[str]]]
"""Headings, and rows."""

_HOW: Final = (
    "Slowdown: mean over the jobs of their time from coming to ending, by their dedicated lifetime, which was measured "
    "on an idle node of the same cluster. A life is CPU time, queuing (ready without a CPU, /proc/PID/schedstat), "
    "reads, paging (the rest; under `blocking`, `free` and `fit` also the time in which the job was stopped), and the "
    "time in which it was held or being started. Major faults are all nodes'."
)
_WHO: Final = (
    "`none`: a job runs on the node where it comes. `cpu` to `cpu-mem-ht`: that node's agent chooses by this policy of "
    "`ctl place`, with the need declared, and the job runs at once (LoadShare part I). `blocking`: where it comes, and "
    "`free`: where most memory is free; the need is not known, a job waits while the node's memory is full, and is "
    "stopped if it grows out of it (part II, without migration). `fit`: `cpu-mem-hp`, and a job waits until its need "
    "fits."
)
_PARTS: Final = {"queue_s": "queuing", "paging_s": "paging", "held_s": "held"}
_COLOURS: Final = ("#4e79a7", "#f28e2b", "#bab0ac")


def _measured(results: Results) -> list[str]:
    made = {run["config"] for run in results.runs}
    return [name for name in CONFIGS if name in made and results.alone]


def table(results: Results) -> Table:
    """Every configuration that was measured."""
    headings = ["who chooses the node", "seeds", *FIGURES.values()]
    rows = []
    for name in _measured(results):
        means = [results.mean(name, key) for key in FIGURES]
        rows.append([name, str(means[0].runs), *map(str, means)])
    return headings, rows


def programs(results: Results) -> Table:
    """The programs, alone on a node, with the first seed."""
    headings = ["program", "memory, MB", "dedicated lifetime, s", "CPU time, s", "major faults"]
    if not results.alone:
        return headings, []
    jobs = results.alone[min(results.alone)]["jobs"]
    return headings, [
        [name, f"{need_mb(name):.1f}", f"{jobs[name]['seconds']:.2f}", f"{jobs[name]['cpu_s']:.2f}",
         str(jobs[name]["faults"])] for name in PROGRAMS
    ]  # fmt: skip


def markdown(results: Results, nodes: int, command: str, stem: str, commits: str) -> str:
    """The whole report as a file of results/."""
    seeds = len({run["seed"] for run in results.runs})
    rooms = [room / (1 << 20) for run in results.runs for room in run["rooms"]]
    jobs = {len(run["jobs"]) for run in results.runs if run["config"] != "alone"}
    what = (
        f"`{command}` at {commits}: {nodes} nodes in lock-step with {min(rooms):.0f} to {max(rooms):.0f} MB for jobs "
        f"each, {max(jobs)} jobs, {'one seed' if seeds == 1 else f'means of {seeds} seeds ± half a 95 % interval'}. "
        "Within a seed every configuration has the same jobs at the same times on the same nodes."
    )
    verdicts = [row(verdict) for verdict in judge(CLAIMS, results)]
    parts = [
        "# LoadShare's placement on real nodes",
        what,
        _WHO,
        _as_text(table(results)),
        f"![Slowdown, and what the time went into]({stem}.png)",
        _HOW,
        "## Claims",
        "A verdict goes by means, whatever their intervals. The simulator's verdicts: [loadshare.md](loadshare.md).",
        table_of(verdicts, HEADINGS),
        "## The programs",
        _as_text(programs(results)),
        "## What was scaled down",
        table_of(SCALES, ["", "the paper", "here"]),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _as_text(shown: Table) -> str:
    headings, rows = shown
    return table_of(rows, headings)


def plot(results: Results, path: Path) -> None:
    """Bars of the slowdown, and of what the jobs' time went into beside CPU time and reads."""
    import matplotlib  # takes a second, and only this needs it

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = _measured(results)
    places = range(len(names))
    drawing, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    slowdowns = [results.values(name, "slowdown") for name in names]
    left.bar(places, [results.mean(name, "slowdown").value for name in names], 0.7, color=_COLOURS[0])
    for place, values in zip(places, slowdowns, strict=True):
        left.plot([place] * len(values), list(values.values()), "k_", markersize=9)
    left.set_title("mean slowdown (dashes: seeds)")
    bottom = [0.0] * len(names)
    for (key, label), colour in zip(_PARTS.items(), _COLOURS, strict=True):
        heights = [max(0.0, results.mean(name, key).value) for name in names]
        right.bar(places, heights, 0.7, bottom=bottom, color=colour, label=label)
        bottom = [a + b for a, b in zip(bottom, heights, strict=True)]
    right.set_title("all jobs' time beside CPU time and reads, s")
    right.legend(frameon=False)
    for axis in (left, right):
        axis.set_xticks(places, names, rotation=20, ha="right", rotation_mode="anchor")
        axis.set_ylim(bottom=0)
    drawing.savefig(path, dpi=110)
    pyplot.close(drawing)
