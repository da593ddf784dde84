# SPDX-License-Identifier: GPL-2.0-or-later
"""The papers' experiments: which runs a figure is made of, and what it shows.

CSM Figs. 5 to 12 are sweeps: lines (policies) over an x axis, a point being the mean of replications. Figs. 8 to 11 and
12 are made of the same runs. Fig. 4 is a trial with given jobs.

The three-class experiments take 4,000 jobs a replication, not the paper's 1,000: with 2 to 3 local tasks on a node
(B-CSM-19) all but 1 of 435 (mem_load 1) or 225 (1.5) jobs are local, and 1,000 would hold two or four others. The rates
of LOADS were found at 4,000, too: another number of jobs is another load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ctl.errors import USAGE, CoschedError
from ctl.sim.loads import LOADS
from ctl.sim.params import Value, complete
from ctl.sim.store import Run
from ctl.sim.trials import TRIALS

__all__ = ["EXPERIMENTS", "MFREQ_MS", "Experiment", "Panel", "find_experiment", "runs"]

MFREQ_MS = (20, 50, 100, 200, 500, 1000)
"""The grid of message intervals (CSM gives no range, D.1)."""

_PDT = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_JOBS = 4_000
_AT: Mapping[str, Mapping[str, Value]] = {
    "1.0": {"mnod": 2, "jobs": _JOBS},
    "1.5": {"mnod": 3, "jobs": _JOBS},
}
"""What the sweeps at a mem_load have in common."""


@dataclass(frozen=True)
class Panel:
    """One graph: a metric of csm_model.metrics()."""

    metric: str
    title: str
    label: str
    lines: tuple[str, ...] = ()  # only these


@dataclass(frozen=True)
class Experiment:
    """A figure. Each line is a policy with parameters of its own; x is a parameter; `at` is what all have."""

    name: str
    title: str
    lines: Mapping[str, tuple[str, Mapping[str, Value]]]
    x: str
    xs: Sequence[Value]
    panels: tuple[Panel, ...]
    at: Mapping[str, Value] = field(default_factory=dict)
    load: str = ""  # of LOADS; mix two: with the x value appended
    trial: str = ""
    xlabel: str = ""
    seeds: int = 10


_THREE: Mapping[str, tuple[str, Mapping[str, Value]]] = {p: (p, {}) for p in ("rr", "pred", "csm")}
_CORRELATION = Panel("correlation", "correlation", "correlation, %")
_FAULTS = Panel("mean_pg_fault", "mean_pg_fault", "page faults per task")
_SMALL = Panel("slowdown_small", "slowdown for small jobs", "slowdown")
_LARGE = Panel("slowdown_large", "slowdown for large jobs", "slowdown")
_LOCAL = Panel("slowdown_local", "slowdown for local tasks", "slowdown")
_INTERVAL = "mean CPU time between messages, ms (frequency falls to the right)"


def _sweep(name: str, title: str, load: str, *panels: Panel) -> Experiment:
    """rr, pred and csm over the message frequency."""
    return Experiment(name, title, _THREE, "mfreq_ms", MFREQ_MS, panels, _AT[load], load, xlabel=_INTERVAL)


def _readings(name: str, title: str, policies: tuple[str, ...], trial: str) -> tuple[Experiment, ...]:
    """A trial with the defaults, and with other readings of who makes room for a task and how often tasks talk."""
    variants: tuple[tuple[str, str, Mapping[str, Value]], ...] = (
        ("", "", {}),
        ("-free", ", enter=free", {"enter": "free"}),
        ("-free-1s", ", enter=free, mfreq 1 s", {"enter": "free", "mfreq_ms": 1000.0}),
    )
    return tuple(
        Experiment(name + suffix, title + said, {p: (p, at) for p in policies}, "", (), (), trial=trial)
        for suffix, said, at in variants
    )


_ALL = (
    *_readings("csm-fig4", "Fig. 4: PRED and CSM on node N1, static workload", ("pred", "csm"), "static"),
    Experiment(
        "csm-fig5",
        "Fig. 5: correlation, mem_load 0.7",
        {p: (p, {}) for p in ("rr", "dyn", "csm")},
        "pdt",
        _PDT,
        (_CORRELATION,),
        {"mix": "two"},
        "0.7",
        xlabel="pdt",
    ),
    Experiment(
        "csm-fig6",
        "Fig. 6: slowdown, mem_load 0.7",
        {p: (p, {}) for p in ("rr", "dyn", "csm")},
        "pdt",
        _PDT,
        (Panel("slowdown_parallel", "parallel jobs", "slowdown"), _LOCAL),
        {"mix": "two"},
        "0.7",
        xlabel="pdt",
    ),
    Experiment(
        "csm-fig7",
        "Fig. 7: slowdown by message frequency and MNOD, CSM, mem_load 1",
        {f"MNOD {n}": ("csm", {"mnod": n}) for n in range(1, 7)},
        "mfreq_ms",
        MFREQ_MS,
        (_SMALL, _LARGE),
        {"jobs": _JOBS},
        "1.0",
        xlabel=_INTERVAL,
        seeds=5,
    ),
    _sweep("csm-fig8", "Fig. 8: mem_load 1", "1.0", _FAULTS, _CORRELATION),
    _sweep("csm-fig9", "Fig. 9: parallel jobs, mem_load 1", "1.0", _SMALL, _LARGE),
    _sweep("csm-fig10", "Fig. 10: mem_load 1.5", "1.5", _FAULTS, _CORRELATION),
    _sweep("csm-fig11", "Fig. 11: parallel jobs, mem_load 1.5", "1.5", _SMALL, _LARGE),
    Experiment(
        "csm-fig12",
        "Fig. 12: local tasks",
        {f"{p} at {load}": (p, {**LOADS[load], **at}) for load, at in _AT.items() for p in _THREE},
        "mfreq_ms",
        MFREQ_MS,
        tuple(
            Panel("slowdown_local", f"mem_load {load}", "slowdown", tuple(f"{p} at {load}" for p in _THREE))
            for load in _AT
        ),
        load="1.0",
        xlabel=_INTERVAL,
    ),
)

_OTHERS = (
    Experiment(
        "csm-mnol",
        "MNOL, CSM, mem_load 1 (CSM §4.1)",
        {"csm": ("csm", {})},
        "mnol",
        (1, 2, 3, 4, 6),
        (_LOCAL,),
        {"jobs": _JOBS},
        "1.0",
        xlabel="MNOL",
    ),
    Experiment(
        "csm-p",
        "P, the weight of the past, PRED, mem_load 1 (CSM eq. 2)",
        {"pred": ("pred", {})},
        "p",
        (0.0, 0.1, 0.3, 0.5, 0.7, 0.9),
        (Panel("slowdown_parallel", "parallel jobs", "slowdown"), _CORRELATION),
        {"jobs": _JOBS},
        "1.0",
        xlabel="P",
    ),
    Experiment(
        "csm-switch",
        "Faults and switches where a switch costs 0.1 ms, mem_load 1",
        {p: (p, {}) for p in ("pred", "csm")},
        "switch_ms",
        (0.1,),
        (_FAULTS, Panel("switches", "context switches", "switches")),
        {"jobs": _JOBS},
        "1.0",
        xlabel="cost of a switch, ms",
    ),
    *_readings("csm-toy", "Fig. 2: three nodes, one local task each", tuple(_THREE), "toy"),
    Experiment("csm-equal", "Three jobs of equal memory, one after the other", _THREE, "", (), (), trial="equal"),
    Experiment("csm-sizes", "Three jobs of different memory at once", _THREE, "", (), (), trial="sizes"),
)

EXPERIMENTS = {experiment.name: experiment for experiment in (*_ALL, *_OTHERS)}


def find_experiment(name: str) -> Experiment:
    """The experiment of that name; CoschedError (status 2) if there is none."""
    if name not in EXPERIMENTS:
        raise CoschedError(f"there is no experiment {name!r}: known are {', '.join(EXPERIMENTS)}", USAGE)
    return EXPERIMENTS[name]


def runs(
    experiment: Experiment, replications: int = 0, override: Mapping[str, object] | None = None
) -> dict[tuple[str, Value], list[Run]]:
    """The runs of each point, by line and x; `override` changes parameters of all of them."""
    seeds = range(1, (replications or experiment.seeds) + 1)
    if experiment.trial:
        trial = TRIALS[experiment.trial]
        points: dict[tuple[str, Value], list[Run]] = {}
        for line, (policy, own) in experiment.lines.items():
            values = complete("csm", {**trial.parameters, **own, **(override or {})}) | {"trial": experiment.trial}
            points[line, ""] = [Run("csm", policy, values, seed) for seed in seeds]
        return points
    points = {}
    for line, (policy, own) in experiment.lines.items():
        for x in experiment.xs:
            load = LOADS[experiment.load if experiment.at.get("mix") != "two" else f"{experiment.load}/{x}"]
            values = complete("csm", {**load, **experiment.at, **own, experiment.x: x, **(override or {})})
            points[line, x] = [Run("csm", policy, values, seed) for seed in seeds]
    return points
