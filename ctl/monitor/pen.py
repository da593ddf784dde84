# SPDX-License-Identifier: GPL-2.0-or-later
"""The drawing tools of all parts of the dashboard: the view, its history, width, glyphs."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ctl.contract import Cpu, Modes, Task, View
from ctl.monitor.text import Glyphs

__all__ = ["History", "Pen", "listed"]

MODE_WINDOW_S = 10.0  # modes are shown by their share of the last 10 s
HISTORY = 600  # frames
STEADY = 30  # frames for which a queue's list keeps the height it once needed


def listed(cpu: Cpu) -> int:
    """Return the number of lines for this CPU's whole queue."""
    return len(cpu["queue"]) + (cpu["nr_queued"] > len(cpu["queue"]))


@dataclass
class History:
    """The frames seen so far, as far as trends and recent shares need them."""

    modes: deque[tuple[float, Modes]] = field(default_factory=lambda: deque(maxlen=HISTORY))
    swapins: deque[float | None] = field(default_factory=lambda: deque(maxlen=HISTORY))
    insertions: deque[float | None] = field(default_factory=lambda: deque(maxlen=HISTORY))
    overtakes: deque[float | None] = field(default_factory=lambda: deque(maxlen=HISTORY))
    memory: deque[float | None] = field(default_factory=lambda: deque(maxlen=HISTORY))
    queued: dict[int, deque[int]] = field(default_factory=dict)

    def add(self, view: View) -> None:
        """Remember one view; a policy that was loaded anew starts the mode counts over."""
        newest = self.modes[-1][1] if self.modes else None
        if newest and sum(view["modes"].values()) < sum(newest.values()):  # type: ignore[arg-type]
            self.modes.clear()
        self.modes.append((view["time"], view["modes"]))
        self.swapins.append(view["memory"]["swapins_s"])
        self.insertions.append(sum(r["insertions_s"] for r in view["rules"].values()))
        self.overtakes.append(sum(r["overtakes_s"] for r in view["rules"].values()))
        for cpu in view["cpus"]:
            self.queued.setdefault(cpu["cpu"], deque(maxlen=STEADY)).append(listed(cpu))
        mem = view["memory"]["mem"]
        self.memory.append(None if mem is None else float(mem))

    def lines_for(self, cpu: Cpu) -> int:
        """Return the lines of this CPU's longest queue lately, so that what stands below stays in place."""
        return max(listed(cpu), *self.queued.get(cpu["cpu"], (0,)))

    def recent_modes(self, view: View) -> tuple[Modes, str]:
        """Return the insertions by mode of the last 10 s and the words for this span."""
        now, total = view["time"], view["modes"]
        old = next((m for t, m in self.modes if now - t <= MODE_WINDOW_S), total)
        if old is total or not self.modes:
            return total, "since load"
        recent: Modes = {
            "predictive": total["predictive"] - old["predictive"],
            "dynamic": total["dynamic"] - old["dynamic"],
            "csm": total["csm"] - old["csm"],
        }
        if not any(recent.values()):
            return total, "since load"
        first = next(t for t, m in self.modes if m is old)
        return recent, f"last {max(1, round(now - first))} s"


@dataclass(frozen=True)
class Pen:
    """The inputs of every section: the view, its history, the width, the glyphs."""

    view: View
    history: History
    width: int
    glyphs: Glyphs
    steady: bool  # keep every section's height from frame to frame

    def knob(self, name: str, default: object = None) -> object:
        return self.view["knobs"].get(name, default)

    def limit(self, task: Task) -> int | None:
        """Return MNOD or MNOL, whichever protects this task."""
        value = self.knob("mnod" if task["parallel"] else "mnol", self.knob("mno"))
        return value if isinstance(value, int) else None
