# SPDX-License-Identifier: GPL-2.0-or-later
"""How far each guest of the demo is: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final

from rich import progress as bars
from rich.console import Console

from ctl.demo.scenario import Scenario

__all__ = ["Progress", "describe"]

_EVERY_S: Final = 10.0  # guest seconds between two lines where there is no terminal
_PHASES: Final[dict[str, str]] = {
    "load": "loading the scheduler and its sensors",
    "start": "starting the MPI jobs",
    "settle": "pushing out idle memory, holding the rest",
}


def describe(said: Mapping[str, Any]) -> str:
    """A line of a guest's progress in words."""
    if said["phase"] != "run":
        return _PHASES.get(said["phase"], str(said["phase"]))
    jobs = ", ".join(f"{name} {share:.0%}" for name, share in said["jobs"].items())
    memory = {True: ", overloaded", False: ", memory fits", None: ""}[said["overloaded"]]
    return f"{said['seconds']:.0f} s: {jobs}; {said['swapins']:,} pages swapped in{memory}"


def share_done(said: Mapping[str, Any]) -> float:
    """The share of the jobs' work that is done, 0..1."""
    shares = list(said.get("jobs", {}).values())
    return sum(shares) / len(shares) if shares else 0.0


class Progress:
    """A context manager that shows it. With live=False nothing is drawn: something else has the terminal."""

    def __init__(self, console: Console, labels: Sequence[str], scenario: Scenario, live: bool = True) -> None:
        self._console, self._live, self._scenario = console, live, scenario
        self._bars = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(bar_width=24),
            bars.TimeElapsedColumn(),
            bars.TextColumn("{task.fields[words]}"),
            console=console,
            disable=not (live and console.is_terminal),
        )
        self._tasks = {label: self._bars.add_task(label, start=False, total=1.0, words="waiting") for label in labels}
        self._told = dict.fromkeys(labels, 0.0)

    def __enter__(self) -> Progress:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def started(self, label: str) -> None:
        """A guest begins to boot."""
        self._bars.start_task(self._tasks[label])
        self._show(label, "booting", 0.0)

    def said(self, label: str, said: Mapping[str, Any]) -> None:
        """A guest has printed a line of progress."""
        words = describe(said)
        self._bars.update(self._tasks[label], completed=share_done(said), words=words)
        if said["phase"] != "run" or said["seconds"] >= self._told[label] + _EVERY_S:
            self._told[label] = said.get("seconds", 0.0)
            self._line(label, words)

    def ended(self, label: str, well: bool) -> None:
        """A guest is gone."""
        self._show(label, "done" if well else "failed", 1.0)

    def _show(self, label: str, words: str, share: float) -> None:
        self._bars.update(self._tasks[label], completed=share, words=words)
        self._line(label, words)

    def _line(self, label: str, words: str) -> None:
        if self._live and not self._console.is_terminal:
            self._console.print(f"{label}: {words}", highlight=False, soft_wrap=True)
