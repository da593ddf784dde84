# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples for people: lines of columns, as vmstat(8) writes them. Counts are of the period, not of a second.

A column is there if anything is known of it: without an agent, the sensors count no packets.
"""

from __future__ import annotations

from typing import Final

from ctl.monitor.netmon.clock import OwnReport
from ctl.monitor.netmon.figures import FIGURES, GROUPS, OF_OWNERS, Figure
from ctl.monitor.netmon.rows import NODE, Owner, Sample, Values
from ctl.monitor.text import fit, number, percent

__all__ = ["Lines", "in_words"]

_WIDTH: Final = 5  # cells of a column: number() needs no more
_NAME: Final = 15  # cells of a name
_HEAD_EACH: Final = 20  # samples
_BOLD, _LOSS, _PLAIN = "\x1b[1m", "\x1b[33m", "\x1b[0m"


class Lines:
    """Writes samples as lines."""

    def __init__(self, *, named: bool, colour: bool) -> None:
        """`named`: the lines begin with the names of node, jobs and tasks."""
        self._start, self._colour = _NAME if named else 0, colour
        self._shown: tuple[Figure, ...] = ()
        self._since_head = 0

    def sample(self, sample: Sample) -> str:
        """The lines of a sample; every now and then the head stands before them."""
        known = {key for values in sample.rows.values() for key, value in values.items() if value is not None}
        shown = tuple(figure for figure in FIGURES if figure.head and figure.key in known)
        lines = []
        if shown != self._shown or self._since_head == _HEAD_EACH:
            self._shown, self._since_head = shown, 0
            lines += self._head()
        self._since_head += 1
        lines += [self._line(owner, values) for owner, values in sample.ordered()]
        return "\n".join([*lines, ""])

    def end(self, report: OwnReport) -> str:
        """Nothing: people get the report in words."""
        return ""

    def _head(self) -> list[str]:
        """The groups, and below them their columns."""
        groups, columns = [], []
        for group in GROUPS:
            names = [figure.head.rjust(_WIDTH) for figure in self._shown if figure.group == group]
            if names:
                columns.append(" ".join(names))
                groups.append(f" {group} ".center(len(columns[-1]), "-"))
        return [self._style(" " * self._start + "  ".join(parts), _BOLD) for parts in (groups, columns)]

    def _line(self, owner: Owner, values: Values) -> str:
        name = NODE.kind if owner == NODE else f"{owner.name} {owner.pid or ''}"
        groups = GROUPS if owner == NODE else OF_OWNERS
        parts = [
            " ".join(self._cell(figure, values[figure.key]) for figure in self._shown if figure.group == group)
            for group in groups
        ]
        return fit(name, self._start) + "  ".join(part for part in parts if part)

    def _cell(self, figure: Figure, value: int | None) -> str:
        text = number(value, "-").rjust(_WIDTH)
        return self._style(text, _LOSS) if figure.loss and value else text

    def _style(self, text: str, style: str) -> str:
        return f"{style}{text}{_PLAIN}" if self._colour else text


def in_words(report: OwnReport) -> str:
    """The monitor's report on itself, as a sentence for each of the paper's three figures.

    >>> print(in_words(OwnReport(0.1, 10.0, 100, 0.004, 0.0004, 0.02, 0.0315)))
    100 samples in 10.0 s, one each 100 ms
    extra execution: 0.4 % of a CPU, 0.40 ms a sample
    overlapped: 2.0 % of the samples ended after the next was due, the longest 31.5 ms after
    """
    period = f"{report.period_s * 1000:g} ms" if report.period_s < 1 else f"{report.period_s:g} s"
    return "\n".join(
        [
            f"{report.samples} samples in {report.seconds:.1f} s, one each {period}",
            f"extra execution: {percent(report.cpu_share)} of a CPU, {report.cpu_s_per_sample * 1000:.2f} ms a sample",
            f"overlapped: {percent(report.overlapped)} of the samples ended after the next was due, "
            f"the longest {report.longest_excess_s * 1000:.1f} ms after",
        ]
    )
