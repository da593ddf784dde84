# SPDX-License-Identifier: GPL-2.0-or-later
"""CSM's experiments, Figs. 2 and 4 to 12, and what its claims need beside them.

Figs. 8 to 11 and 12 are made of the same runs. Figs. 2 and 4 are trials with given jobs.

The three-class experiments take 4,000 jobs a replication, not the paper's 1,000: with 2 to 3 local tasks on a node
(B-CSM-19) all but 1 of 435 (mem_load 1) or 225 (1.5) jobs are local, and 1,000 would hold two or four others. The rates
of LOADS were found at 4,000, too: another number of jobs is another load.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ctl.sim.csm import scale
from ctl.sim.csm.loads import LOADS
from ctl.sim.csm.model import MODEL
from ctl.sim.csm.trials import TRIALS
from ctl.sim.experiment import Experiment, Line, Panel
from ctl.sim.params import Value

__all__ = ["EXPERIMENTS", "MFREQ_MS"]

MFREQ_MS = (20, 50, 100, 200, 500, 1000)
"""The grid of message intervals (CSM gives no range)."""

_PDT = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_JOBS = 4_000
_MNOD = {"1.0": 2, "1.5": 3}
"""By mem_load (CSM §5.2)."""


_THREE: Mapping[str, Line] = {p: (p, {}) for p in ("rr", "pred", "csm")}
_CORRELATION = Panel("correlation", "correlation", "correlation, %")
_FAULTS = Panel("mean_pg_fault", "mean_pg_fault", "page faults per task")
_SMALL = Panel("slowdown_small", "slowdown for small jobs", "slowdown")
_LARGE = Panel("slowdown_large", "slowdown for large jobs", "slowdown")
_LOCAL = Panel("slowdown_local", "slowdown for local tasks", "slowdown")
_INTERVAL = "mean CPU time between messages, ms (frequency falls to the right)"


_csm = partial(Experiment, model=MODEL)
_by_interval = partial(_csm, x="mfreq_ms", xlabel=_INTERVAL, log=True)
_by_frequency = partial(_by_interval, xs=MFREQ_MS)


def _loaded(mem_load: str) -> dict[str, Value]:
    """The parameters of all runs at a mem_load."""
    return {**LOADS[mem_load], "jobs": _JOBS}


def _at(mem_load: str) -> dict[str, Value]:
    """The parameters of all sweeps at a mem_load."""
    return _loaded(mem_load) | {"mnod": _MNOD[mem_load]}


def _sweep(name: str, title: str, mem_load: str, *panels: Panel) -> Experiment:
    """rr, pred and csm over the message frequency."""
    return _by_frequency(name, title, lines=_THREE, panels=panels, at=_at(mem_load))


def _trial(name: str, title: str, lines: Mapping[str, Line], trial: str) -> Experiment:
    """Jobs that are given."""
    of = TRIALS[trial]
    return _csm(name, title, lines=lines, at={**of.parameters, "nodes": of.nodes, "trial": trial})


def _readings(name: str, title: str, policies: tuple[str, ...], trial: str) -> tuple[Experiment, ...]:
    """A trial with the defaults, and with other readings of `enter` and of the message frequency."""
    variants: tuple[tuple[str, str, Mapping[str, Value]], ...] = (
        ("", "", {}),
        ("-free", ", enter=free", {"enter": "free"}),
        ("-free-1s", ", enter=free, mfreq 1 s", {"enter": "free", "mfreq_ms": 1000.0}),
    )
    return tuple(
        _trial(name + suffix, title + said, {p: (p, at) for p in policies}, trial) for suffix, said, at in variants
    )


_by_pdt = partial(
    _csm,
    lines={p: (p, {}) for p in ("rr", "dyn", "csm")},
    x="pdt",
    xs=_PDT,
    at={"mix": "two"},
    load=lambda pdt: LOADS[f"0.7/{pdt}"],
    xlabel="pdt",
)


def _cascade(name: str, said: str, **instead: Value) -> Experiment:
    """Faults on one node of eight, over message intervals that end where a job hardly communicates."""
    trial = TRIALS["cascade"]
    return _by_interval(
        name,
        f"Faults injected on one node{said}: delay of a job of eight tasks for each fault",
        lines={p: (p, {}) for p in ("rr", "pred")},  # csm is pred while memory suffices
        xs=(*MFREQ_MS, 10_000, 100_000),
        panels=(
            Panel("last_beside", "the job, beside a local task on each node", "delay / time of a fault"),
            Panel("first_beside", "its first task to end", "delay / time of a fault"),
            Panel("last_alone", "the job, by itself", "delay / time of a fault"),
        ),
        at={**trial.parameters, "nodes": trial.nodes, "trial": "cascade", **instead},
    )


_ALL = (
    *_readings("csm-fig4", "Fig. 4: PRED and CSM on node N1, static workload", ("pred", "csm"), "static"),
    _by_pdt(
        "csm-fig5",
        "Fig. 5: correlation, mem_load 0.7",
        panels=(_CORRELATION,),
    ),
    _by_pdt(
        "csm-fig6",
        "Fig. 6: slowdown, mem_load 0.7",
        panels=(Panel("slowdown_parallel", "parallel jobs", "slowdown"), _LOCAL),
    ),
    _by_frequency(
        "csm-fig7",
        "Fig. 7: slowdown by message frequency and MNOD, CSM, mem_load 1",
        lines={f"MNOD {n}": ("csm", {"mnod": n}) for n in range(1, 7)},
        panels=(_SMALL, _LARGE),
        at=_loaded("1.0"),
        seeds=5,
    ),
    _sweep("csm-fig8", "Fig. 8: mem_load 1", "1.0", _FAULTS, _CORRELATION),
    _sweep("csm-fig9", "Fig. 9: parallel jobs, mem_load 1", "1.0", _SMALL, _LARGE),
    _sweep("csm-fig10", "Fig. 10: mem_load 1.5", "1.5", _FAULTS, _CORRELATION),
    _sweep("csm-fig11", "Fig. 11: parallel jobs, mem_load 1.5", "1.5", _SMALL, _LARGE),
    _by_frequency(
        "csm-fig12",
        "Fig. 12: local tasks",
        lines={f"{p} at {load}": (p, _at(load)) for load in _MNOD for p in _THREE},
        panels=tuple(
            Panel("slowdown_local", f"mem_load {load}", "slowdown", tuple(f"{p} at {load}" for p in _THREE))
            for load in _MNOD
        ),
    ),
)

_ORDERS: Mapping[str, Line] = {p: (p, {}) for p in ("csm", "csm-first")}


def _order(mem_load: str) -> Experiment:
    """Both orders of Algorithm 1's questions: messages or faults first (B-CSM-6)."""
    return _by_frequency(
        f"csm-order-{mem_load}",
        f"Messages or faults asked first, mem_load {mem_load}",
        lines=_ORDERS,
        panels=(_FAULTS, _CORRELATION, _SMALL, _LARGE, _LOCAL),
        at=_at(mem_load),
    )


_OTHERS = (
    _csm(
        "csm-mnol",
        "MNOL, CSM, mem_load 1 (CSM §4.1)",
        lines={"csm": ("csm", {})},
        x="mnol",
        xs=(1, 2, 3, 4, 6),
        panels=(_LOCAL,),
        at=_loaded("1.0"),
        xlabel="MNOL",
    ),
    _csm(
        "csm-p",
        "P, the weight of the past, PRED, mem_load 1 (CSM eq. 2)",
        lines={"pred": ("pred", {})},
        x="p",
        xs=(0.0, 0.1, 0.3, 0.5, 0.7, 0.9),
        panels=(Panel("slowdown_parallel", "parallel jobs", "slowdown"), _CORRELATION),
        at=_loaded("1.0"),
        xlabel="P",
    ),
    _csm(
        "csm-switch",
        "Faults and switches where a switch costs 0.1 ms, mem_load 1",
        lines={p: (p, {}) for p in ("pred", "csm")},
        x="switch_ms",
        xs=(0.1,),
        panels=(_FAULTS, Panel("switches", "context switches", "switches")),
        at=_loaded("1.0"),
        xlabel="cost of a switch, ms",
    ),
    *map(_order, _MNOD),
    _trial("csm-order-fig2", "Messages or faults asked first, Fig. 2", _ORDERS, "toy"),
    _trial("csm-order-fig4", "Messages or faults asked first, Fig. 4", _ORDERS, "static"),
    _cascade("csm-cascade", ""),
    _cascade("csm-cascade-often", ", four times as often", inject_every_s=0.5),
    *_readings("csm-toy", "Fig. 2: three nodes, one local task each", tuple(_THREE), "toy"),
    _trial("csm-equal", "Three jobs of equal memory, one after the other", _THREE, "equal"),
    _trial("csm-sizes", "Three jobs of different memory at once", _THREE, "sizes"),
)

EXPERIMENTS = (*_ALL, *_OTHERS, *scale.EXPERIMENTS)
