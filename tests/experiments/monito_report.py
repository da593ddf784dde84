# SPDX-License-Identifier: GPL-2.0-or-later
"""The results of the experiment `monito`: its tables, and the verdicts on the paper's claims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.experiments.claims import Missing
from tests.experiments.monito_claims import Results, judge
from tests.experiments.monito_plan import MODES, OURS, PROGRAMS, SCALES
from tests.experiments.waiting import markdown as table_of

__all__ = ["markdown", "tables"]

_QUEUES: Final = (
    "sockets.rcv_bytes", "sockets.snd_bytes", "sockets.rcv_fill", "qdisc.packets", "device.ring_bytes",
    "softnet.packets",
)  # fmt: skip
_SWITCHES: Final = {"switch_us": "2 W = T_im", "signal_us": "S_sig", "start_us": "T_start", "stop_us": "T_stop"}

Table = tuple[str, list[str], list[list[str]]]
"""A title, headings, and rows."""


def tables(results: Results) -> list[Table]:
    """All tables of what was measured."""
    found = [_times(results, program) for program in PROGRAMS if results.of("time", program=program)]
    if results.of("local"):
        found.append(_slowdowns(results))
    if results.of("switches"):
        row = [_cell(1, results.switches, name) for name in _SWITCHES]
        found.append(("Switches, µs (Monito §2, §5.2)", list(_SWITCHES.values()), [row]))
    if results.of("queues"):
        loads = sorted({run["load"] for run in results.of("queues")})
        rows = [[figure, *(_peak(results, figure, load) for load in loads)] for figure in _QUEUES]
        found.append(("Largest values of `ctl netmon` (Monito §5.1)", ["figure", *map("load {}".format, loads)], rows))
    return found


def _cell(digits: int, value: Callable[..., float], *of: object) -> str:
    try:
        return f"{value(*of):,.{digits}f}"
    except Missing:
        return "–"


def _peak(results: Results, figure: str, load: int) -> str:
    return _cell(0, lambda: results.peaks(figure).get(load, 0))


def _shown(results: Results, program: str) -> list[str]:
    """The paper's modes, and those of ours that this program was measured in."""
    return [*MODES, *(mode for mode in OURS if results.of("time", program=program, mode=mode))]


def _times(results: Results, program: str) -> Table:
    loads = results.loads(program)
    rows = [[mode, *(_cell(2, results.time, program, mode, load) for load in loads)]
            for mode in _shown(results, program)]  # fmt: skip
    figure = "F. 4" if program == "sintree" else "F. 5"
    return (
        f"{program}: s, beside so many compilers on each node ({figure})",
        ["mode", *map("load {}".format, loads)],
        rows,
    )


def _slowdowns(results: Results) -> Table:
    headings = ["mode", *(f"{program}: s" for program in PROGRAMS), *(f"{program}: slower, %" for program in PROGRAMS)]
    rows = []
    for mode in _shown(results, "sintree"):
        took = [_cell(2, results.compile, program, mode) for program in PROGRAMS]
        slower = [_cell(1, results.slowdown, program, mode) for program in PROGRAMS]
        rows.append([mode, *took, *slower])
    return "A compiler beside a distributed program (Table 3)", headings, rows


def markdown(results: Results, command: str, commit: str) -> str:
    """The whole report as a file of results/."""
    seeds = len({one["seed"] for one in results.measured})
    nodes = ", ".join(str(count) for count in sorted({one["nodes"] for one in results.measured}))
    what = f"`{command}` at {commit}: {nodes} nodes in lock-step, " + (
        f"medians of {seeds} seeds." if seeds > 1 else "one seed."
    )
    parts = ["# Monito's techniques and its monitor on real nodes", what]
    for title, headings, rows in tables(results):
        parts += [f"## {title}", table_of(rows, headings)]
    headings = ["claim", "the paper", "reproduced if", "measured", "verdict"]
    found = [verdict.row() for verdict in judge(results)]
    parts += ["## Claims", "The others are the simulator's: [dcndc.md](dcndc.md).", table_of(found, headings)]
    parts += ["## What was scaled down", table_of(SCALES, ["", "the paper", "here"])]
    return "\n\n".join(part.strip() for part in parts) + "\n"
