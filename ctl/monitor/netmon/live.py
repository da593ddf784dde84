# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl netmon` on a terminal: each figure of the node with its trend, and below them the jobs and tasks."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ctl.monitor.netmon.clock import OwnReport
from ctl.monitor.netmon.figures import FIGURES, OF_OWNERS, Figure
from ctl.monitor.netmon.rows import NODE, Owner, Sample, Values
from ctl.monitor.palette import HEAD, PARALLEL, QUIET, WARN
from ctl.monitor.pen import HISTORY
from ctl.monitor.text import Column, Glyphs, fit, line, number, row, spark
from ctl.monitor.top import glyphs_for, keyboard

__all__ = ["LiveView", "frame"]

_DRAW_S: Final = 0.25  # between two frames; samples may be closer
_NAME, _NUMBER = 21, 6  # cells
_OWNED: Final = tuple(figure for figure in FIGURES if figure.group in OF_OWNERS and figure.head)

Trends = dict[str, deque[int | None]]
"""The newest values of each figure of the node, by its key."""


def frame(title: str, trends: Trends, rows: dict[Owner, Values], width: int, height: int, glyphs: Glyphs) -> list[Text]:
    """The screen's lines; figures that have always been 0 make room first."""
    owned = _owners(rows, width, glyphs)
    moving = (figure for figure in FIGURES if not figure.fixed)
    known = [figure for figure in moving if any(value is not None for value in trends.get(figure.key, ()))]
    room = max(1, height - 2 - min(len(owned), height // 3))
    shown = known if len(known) <= room else [figure for figure in known if any(trends[figure.key])] or known
    head = f"{'node':<{_NAME}} {'now':>{_NUMBER}} {'peak':>{_NUMBER}}  trend, newest right"
    lines = [line(width, [Text(title, "bold")], "q quit"), Text(fit(head, width), HEAD)]
    lines += [_trend(figure, trends[figure.key], width, glyphs) for figure in shown[:room]]
    return [*lines, *owned][:height]


def _trend(figure: Figure, values: deque[int | None], width: int, glyphs: Glyphs) -> Text:
    newest, peak = values[-1], max((value for value in values if value is not None), default=None)
    style = WARN if figure.loss and peak else "" if peak else QUIET
    told = "".join(f" {number(value, glyphs.none):>{_NUMBER}}" for value in (newest, peak))
    trend = spark(values, width - _NAME - len(told) - 2, glyphs)
    return line(width, [Text(fit(f"{figure.group} {figure.name}", _NAME) + told + "  " + trend, style)])


def _owners(rows: dict[Owner, Values], width: int, glyphs: Glyphs) -> list[Text]:
    """A line for each job and task, below a head; nothing without any."""
    owners = [owner for owner in rows if owner != NODE]
    columns = [Column("JOB, TASK", _NAME), *(Column(figure.head, _NUMBER, True) for figure in _OWNED)]
    lines = [row(columns, [(column.title, "") for column in columns], style=HEAD)] if owners else []
    for owner in owners:
        name = owner.name if owner.kind == "job" else f"  {owner.name} {owner.pid}"
        cells = [(number(rows[owner][figure.key], glyphs.none), "") for figure in _OWNED]
        lines.append(row(columns, [(name, PARALLEL if owner.kind == "job" else ""), *cells]))
    for text in lines:
        text.truncate(width)
    return lines


class LiveView:
    """The view as a form of output; shown() has the terminal meanwhile."""

    def __init__(self, console: Console, title: str) -> None:
        """`title`: what is looked at."""
        self._console, self._title, self._glyphs = console, title, glyphs_for(console)
        self._trends: Trends = {figure.key: deque(maxlen=HISTORY) for figure in FIGURES}
        self._rows: dict[Owner, Values] = {}
        self._live = Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False)
        self._drawn = float("-inf")
        self._in, self._out = os.pipe()
        self._ends = False

    def sample(self, sample: Sample) -> str:
        """Take a sample into the view; its text is empty."""
        self._rows = dict(sample.ordered())
        for key, value in sample.rows[NODE].items():
            self._trends[key].append(value)
        if time.monotonic() - self._drawn >= _DRAW_S:
            self._draw()
        return ""

    def end(self, report: OwnReport) -> str:
        """Nothing: people get the report in words."""
        return ""

    @contextlib.contextmanager
    def shown(self) -> Iterator[Callable[[float], bool]]:
        """Have the terminal; a wait of so many seconds, which tells whether q, SIGINT or SIGTERM came."""
        os.set_blocking(self._out, False)

        def woken(number: int, _frame: FrameType | None) -> None:
            self._ends |= number != signal.SIGWINCH

        wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH)
        before = {number: signal.signal(number, woken) for number in wanted}
        descriptor = signal.set_wakeup_fd(self._out)
        try:
            with keyboard(), self._live:
                self._draw()
                yield self._wait
        finally:
            signal.set_wakeup_fd(descriptor)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(self._in)
            os.close(self._out)

    def _wait(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not self._ends:
            ready, _, _ = select.select([sys.stdin, self._in], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                return False
            if self._in in ready:
                os.read(self._in, 64)
                self._draw()  # the size may be another
            if sys.stdin in ready:
                typed = os.read(sys.stdin.fileno(), 64)
                self._ends |= not typed or typed[:1] in b"qQ\x03\x04"
        return True

    def _draw(self) -> None:
        size = self._console.size
        lines = frame(self._title, self._trends, self._rows, size.width, size.height, self._glyphs)
        self._live.update(Text("\n", no_wrap=True).join(lines), refresh=True)
        self._drawn = time.monotonic()
