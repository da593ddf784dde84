# SPDX-License-Identifier: GPL-2.0-or-later
"""Gangs by the number of CPUs: the table of docs/measurements.md, and the picture of README.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ctl.demo.results import Results
from docs.tables.measurements import spread, together
from docs.tables.table import ROOT, Grid, Source, Table, plain
from tests.bench import plan

__all__ = ["GANGS", "PICTURE", "TABLES", "draw", "gang"]

GANGS: Final = Source("gangs")
PICTURE: Final = ROOT / "docs" / "gangs.png"
_CPUS: Final = (2, 4, 8)
_SHOWN: Final = {plan.BASELINE: ("EEVDF", "o"), "nice19": ("EEVDF, jobs at nice 19", "v"), "csm": ("cosched", "s")}
_COLUMNS: Final = (*_SHOWN, "ccs")
_WAYS: Final = {"yield": "sched_yield", "futex": "futex", "spin-futex": "spin, then futex", "spin": "spin for ever"}
_IDEAL: Final = 2  # a hog on each CPU has the other half

Row = dict[str, float]


def gang(kept: Results, way: str, scheduler: str, cpus: int) -> Row:
    """What was measured of barriers beside a hog on each CPU: value, low, high and late_p99 in ns."""
    return together(kept, f"barriers-{way}-hogs-long", scheduler, f"gangs-{cpus}")


def _ideal_ns(way: str) -> float:
    """Twice the time that the barriers take where nothing else runs, waiting apart."""
    words = plan.BENCHMARKS[f"barriers-{way}-hogs-long"].argv
    phase, barriers = (int(words[words.index(f"--{name}") + 1]) for name in ("phase", "barriers"))
    return float(_IDEAL * phase * barriers * 1000)


def _grid(kept: Results) -> Grid:
    rows = []
    for way, title in _WAYS.items():
        for cpus in _CPUS:
            found = [gang(kept, way, one, cpus) for one in _COLUMNS]
            late = [plain(found[_COLUMNS.index(one)]["late_p99"] / 1e6, 2) for one in (plan.BASELINE, "csm")]
            rows.append([f"{title}, {cpus} CPUs", *map(spread, found), *late])
    titles = (plan.SCHEDULERS[one].title for one in _COLUMNS)
    return Grid(["ms (range)", *titles, "late at p99: EEVDF", "csm"], rows)


def draw(where: Path = PICTURE) -> None:
    """Draw the times by the number of CPUs, a panel for each way of waiting; an arrow: it was stopped there."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    kept = GANGS.kept
    figure = Figure(figsize=(11, 3.2), dpi=100, layout="constrained")
    panels: Any = figure.subplots(1, len(_WAYS), sharey=True)
    for axes, (way, title) in zip(panels, _WAYS.items(), strict=True):
        for scheduler, (label, mark) in _SHOWN.items():
            rows = [gang(kept, way, scheduler, cpus) for cpus in _CPUS]
            axes.plot(_CPUS, [row["value"] / 1e9 for row in rows], marker=mark, label=label)
            for cpus, row in zip(_CPUS, rows, strict=True):
                if 2 * row["cut"] > row["runs"]:
                    axes.annotate("", (cpus, row["value"] * 1.35e-9), (cpus, row["value"] / 1e9),
                                  arrowprops={"arrowstyle": "->", "color": axes.lines[-1].get_color()})  # fmt: skip
        axes.axhline(_ideal_ns(way) / 1e9, color="gray", ls="--", lw=1, label="half of each CPU")
        axes.set_title(title, fontsize=10)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(_CPUS, [str(cpus) for cpus in _CPUS])
        axes.set_xlabel("CPUs, threads, busy local tasks")
    seconds = (0.25, 0.5, 1, 2)
    panels[0].set_yticks(seconds, [f"{one:g} s" for one in seconds])
    panels[0].minorticks_off()
    panels[0].set_ylim(0.2, 3)
    panels[0].set_ylabel("time of the job")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(where)


TABLES: Final = (Table("gangs", (GANGS,), _grid),)
