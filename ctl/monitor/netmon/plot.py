# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw a record of `ctl netmon`: a panel for each group and unit, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ctl.errors import USAGE, CoschedError
from ctl.monitor.netmon.figures import FIGURES, OF_OWNERS, Figure
from ctl.monitor.netmon.records import read
from ctl.monitor.netmon.rows import NODE, Owner, Sample

__all__ = ["draw", "panels"]

_KINDS: Final = ("png", "svg")
_MOST_OF_JOBS: Final = 4  # lines of a panel: those with the largest values
_PANEL: Final = (9.0, 1.9)  # inches


def draw(record: Path) -> list[Path]:
    """Draw a record beside itself, RECORD.png and RECORD.svg; returns the files. Raises CoschedError."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams |= {"svg.hashsalt": "cosched", "font.size": 9, "figure.dpi": 110}
    samples = read(record)
    if not samples:
        raise CoschedError(f"{record} has no samples: record some with `ctl netmon -t 10 -o {record}`", USAGE)
    figure = _drawn(samples, record.name)
    files = [record.with_suffix(f".{kind}") for kind in _KINDS]
    for file in files:
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    return files


def panels(samples: Sequence[Sample]) -> dict[tuple[str, str], list[Figure]]:
    """The figures of the node that are not 0 throughout, by (group, unit)."""
    found: dict[tuple[str, str], list[Figure]] = {}
    for figure in FIGURES:
        if not figure.fixed and any(value > 0 for value in _values(samples, NODE, figure)):
            found.setdefault((figure.group, _unit(figure)), []).append(figure)
    return found


def _unit(figure: Figure) -> str:
    return f"{figure.unit}/s" if figure.counts else figure.unit


def _values(samples: Sequence[Sample], owner: Owner, figure: Figure) -> list[float]:
    """A figure in each sample, a count by the second; NaN, which draws nothing, where it is unknown."""
    found = []
    for sample in samples:
        value = sample.rows.get(owner, {}).get(figure.key)
        by = sample.seconds if figure.counts and sample.seconds else 1.0
        found.append(float("nan") if value is None else value / by)
    return found


def _drawn(samples: Sequence[Sample], title: str) -> Any:
    """The figure: a line for each figure of the node, a dashed one for the largest of jobs."""
    from matplotlib.figure import Figure as Canvas

    shown = panels(samples)
    canvas = Canvas(figsize=(_PANEL[0], 0.9 + _PANEL[1] * max(1, len(shown))), layout="constrained")
    places = canvas.subplots(max(1, len(shown)), 1, sharex=True, squeeze=False)[:, 0]
    times = [sample.time - samples[0].time for sample in samples]
    for (group, unit), axes in zip(shown, places, strict=False):
        for figure in shown[group, unit]:
            axes.plot(times, _values(samples, NODE, figure), lw=1, label=figure.name)
        for owner, figure in _of_jobs(samples, shown[group, unit]):
            axes.plot(times, _values(samples, owner, figure), lw=1, ls="--", label=f"{owner.name}: {figure.name}")
        axes.set(ylabel=unit, title=group, ylim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=7)
    places[-1].set_xlabel("time, s")
    drawn = {figure.key for known in shown.values() for figure in known}
    silent = [figure.key for figure in FIGURES if figure.key not in drawn and not figure.fixed]
    canvas.suptitle(
        f"{title}: {len(samples)} samples" + (f"\n0 or unknown: {', '.join(silent)}" if silent else ""),
        fontsize=8,
        wrap=True,
    )
    return canvas


def _of_jobs(samples: Sequence[Sample], figures: Sequence[Figure]) -> list[tuple[Owner, Figure]]:
    """The jobs and figures with the largest values of a panel."""
    jobs = {owner for sample in samples for owner in sample.rows if owner.kind == "job"}
    owned = [(owner, figure) for owner in sorted(jobs) for figure in figures if figure.group in OF_OWNERS]
    peaks = {one: max((v for v in _values(samples, *one) if v > 0), default=0.0) for one in owned}
    return sorted((one for one in owned if peaks[one]), key=lambda one: -peaks[one])[:_MOST_OF_JOBS]
