# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of docs/experiments.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from ctl.demo.results import Results
from docs.tables.table import Grid, Source, Table, best, best_in_columns, plain
from tests.experiments import (
    ccs_claims,
    monito_claims,
    monito_report,
    parpar_claims,
    parpar_report,
    periods,
    placement_claims,
    placement_report,
)
from tests.experiments.ccs_plan import EXPERIMENTS

__all__ = ["TABLES"]

# The figures of tests/experiments/ccs_stats.py that tables show: key, heading, digits, which is best.
_FIGURES: Final[Mapping[str, tuple[str, int | None, Callable[[Sequence[float]], float]]]] = {
    "speedup": ("speedup (eq. 7)", 2, max),
    "completion": ("mean completion, s", 1, min),
    "wait": ("longest wait, s", 1, min),
    "makespan_s": ("all jobs, s", 1, min),
    "slowdown": ("users slowed, times", 2, min),
    "p99_ms": ("p99 of a system call, ms", None, min),
    "faults": ("major faults", 0, min),
    "together": ("ranks run at once", 2, max),
}
_NAMES: Final = {
    "eevdf": "EEVDF",
    "slurm-gang": "Slurm's gangs",
    "static": "static",
    "freezer": "freezer",
    "ccs:class": "`ccs`, `contract=class`",
    "ccs:class+step": "`ccs`, `contract=class`, 200 ms, in step",
}


def _name(config: str) -> str:
    policy, _, knobs = config.partition(":")
    return _NAMES.get(config) or f"`{policy}`" + (f", `{knobs}`" if knobs else "")


def _means(keys: Sequence[str], leave: Sequence[str], kept: Results) -> Grid:
    """A row for each workload and configuration but those left out; bold: the best under a workload."""
    runs, rows = ccs_claims.Results(kept.runs), list[list[str]]()
    plan = EXPERIMENTS[kept.runs[0]["experiment"]]
    workloads = [one.name for one in plan.workloads if runs.configs(one.name)]
    for workload in workloads:
        configs = [one for one in plan.configs if one in runs.configs(workload) and one not in leave]
        cells = [[plain(runs.value(workload, one, key), _FIGURES[key][1]) for key in keys] for one in configs]
        bold = best_in_columns(cells, [at for at, key in enumerate(keys) if _FIGURES[key][2] is max])
        for config, row in zip(configs, bold, strict=True):
            count = runs.mean(workload, config, keys[0]).runs
            rows.append([*([workload] if len(workloads) > 1 else []), _name(config), str(count), *row])
    first = ["workload"] if len(workloads) > 1 else []
    return Grid([*first, "configuration", "runs", *(_FIGURES[key][0] for key in keys)], rows)


def _beside(keys: Sequence[str], kept: Results) -> Grid:
    """A row for each figure and workload, a column for each configuration."""
    runs, plan = ccs_claims.Results(kept.runs), EXPERIMENTS[kept.runs[0]["experiment"]]
    rows = []
    for key in keys:
        heading, digits, choose = _FIGURES[key]
        for one in plan.workloads:
            cells = [plain(runs.value(one.name, config, key), digits) for config in plan.configs]
            rows.append([heading, one.name, *best(cells, choose)])
    return Grid(["figure", "workload", *map(_name, plan.configs)], rows)


def _agents(kept: Results) -> Grid:
    """The CPU time of the agent, and of its loop alone, in parts of a node's CPU."""
    spent: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for run in kept.runs:
        for node in run["nodes"] if run["config"] != "alone" else ():
            if "agent_cpu_ms" in node:
                parts = [node[key] / run["makespan_s"] / 1000 for key in ("agent_cpu_ms", "agent_loop_ms")]
                spent.setdefault((run["config"], run["workload"]), []).append((parts[0], parts[1]))
    plan = EXPERIMENTS[kept.runs[0]["experiment"]]
    configs = [one for one in plan.configs if any(config == one for config, _ in spent)]
    workloads = [one.name for one in plan.workloads]
    rows = [[_name(config), *(f"{statistics.mean(each[at] for each in spent[config, workload]):.1%}"
                              for workload in workloads for at in (0, 1))] for config in configs]  # fmt: skip
    heads = [f"{workload}: {what}" for workload in workloads for what in ("agent", "its loop alone")]
    return Grid(["configuration", *heads], rows)


def _periods(kept: Results) -> Grid:
    """The mean round trip by length of period, in step and not, and beside them those without periods."""
    mean = periods.HEADINGS.index("round trip, mean, ms")
    found = {row[:3]: row[mean] for row in periods.rows(kept.runs)}
    lengths = list(dict.fromkeys(length for _, length, _ in found if length))
    rows = [[f"`contract_step={step}`", *(found.get(("csm, contract=class", length, step), "") for length in lengths)]
            for step in ("off", "on")]  # fmt: skip
    others = "; ".join(f"{name} {cell}" for (name, length, _), cell in found.items() if not length)
    return Grid([f"mean round trip, ms ({others})", *(f"{length} ms" for length in lengths)], rows)


def _titled(tables: Sequence[tuple[str, list[str], list[list[str]]]], title: str, bold: bool = True) -> Grid:
    """Of an experiment's tables the one whose title begins so; bold: the least of a column."""
    headings, rows = next((headings, rows) for name, headings, rows in tables if name.startswith(title))
    cells = best_in_columns([row[1:] for row in rows]) if bold else [row[1:] for row in rows]
    return Grid(headings, [[row[0], *each] for row, each in zip(rows, cells, strict=True)])


def _monito(title: str, first: str, kept: Results) -> Grid:
    grid = _titled(monito_report.tables(monito_claims.Results(kept.runs)), title)
    return Grid([first, *grid.headings[1:]], grid.rows)


def _parpar(kept: Results) -> Grid:
    grid = _titled(parpar_report.tables(parpar_claims.Results(kept.runs)), "F. 6", bold=False)
    return Grid(grid.headings, [[row[0], *best(row[1:])] for row in grid.rows])


def _placement(kept: Results) -> Grid:
    headings, rows = placement_report.table(placement_claims.Results(kept.runs))
    wanted = ("mean slowdown", "queuing, s", "held, s", "major faults", "last completion, s")
    shown = [headings.index(one) for one in wanted]
    cells = best_in_columns([[row[at] for at in shown] for row in rows])
    return Grid([headings[0], *(headings[at] for at in shown)],
                [[f"`{row[0]}`", *each] for row, each in zip(rows, cells, strict=True)])  # fmt: skip


def _cluster(stem: str, **chosen: Any) -> tuple[Source, ...]:
    return (Source(stem, ("workload", "config"), chosen, "means"),)


_USERS: Final = ("completion", "makespan_s", "slowdown", "p99_ms", "faults")
_ALL: Final = ("completion", "makespan_s", "wait", "speedup", "slowdown", "p99_ms", "faults", "together")
_TIMES_2, _TIMES_4 = (
    (Source(stem, ("kind", "program", "mode", "load"), {"kind": ["time", "local"]}),) for stem in ("monito", "monito-4")
)

TABLES: Final = (
    Table("agent-share", _cluster("ccs-modules"), _agents),
    Table("fit", _cluster("fit"), partial(_means, _USERS, ("fit:L=0.33", "fit:L=0.4"))),
    Table("fit-4", _cluster("fit-4"), partial(_means, _USERS, ())),
    Table("modules-overload", _cluster("ccs-modules", workload=["overload"]), partial(_means, _ALL, ())),
    Table("modules-fits", _cluster("ccs-modules", workload=["fits"]), partial(_means, _ALL, ())),
    Table("share", _cluster("ccs-share"), partial(_beside, ("slowdown", "completion", "speedup", "p99_ms"))),
    Table("hetero", _cluster("ccs-hetero"), partial(_beside, ("slowdown", "speedup", "completion", "p99_ms"))),
    Table("waiting-jobs", _cluster("waiting-jobs"), partial(_means, ("makespan_s", "slowdown", "p99_ms"), ())),
    Table("periods", (Source("periods", ("config",)),), _periods),
    Table("monito-2", _TIMES_2, partial(_monito, "sintree", "sintree takes, s")),
    Table("monito-2-compiler", _TIMES_2, partial(_monito, "A compiler", "a compiler beside")),
    Table("monito-4", _TIMES_4, partial(_monito, "sintree", "sintree takes, s")),
    Table("monito-4-compiler", _TIMES_4, partial(_monito, "A compiler", "a compiler beside")),
    Table("parpar", (Source("parpar-real", ("kind", "jobs", "theta", "c")),), _parpar),
    Table("placement", (Source("placement", ("config",)),), _placement),
)
