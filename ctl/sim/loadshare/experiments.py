# SPDX-License-Identifier: GPL-2.0-or-later
"""LoadShare's experiments, Figs. 1 to 11, and what its claims need beside them.

Figs. 1 and 2 are the first part's. Fig. 3 is a measurement, here of the model. Figs. 4 to 7 are the seven programs', 8
to 11 the SPEC programs'. Figs. 7 and 11 have two x axes each: NAME is the left graph, NAME-mt the right one. Each
experiment exists again under other readings, as NAME-SUFFIX.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import chain

from ctl.sim.experiment import Experiment, Line, Panel
from ctl.sim.loadshare.model import KNOWN, UNKNOWN
from ctl.sim.loadshare.params import MONTHS
from ctl.sim.loadshare.programs import GROUPS, SETS, TRACES
from ctl.sim.params import Value

__all__ = [
    "EXPERIMENTS",
    "KNOWN_LINES",
    "KNOWN_READINGS",
    "MT",
    "OVERSIZE",
    "SPEC_READINGS",
    "UNKNOWN_LINES",
    "UNKNOWN_READINGS",
]

_Values = Mapping[str, Value]

KNOWN_READINGS: Mapping[str, _Values] = {
    "": {},
    "-arrival": {"include_arrival": "yes"},
    "-small": {"memory_cv": 0.5},
    "-ct6": {"ct": 6},
}
"""By suffix: the defaults; the arriving job counts in the test; no job is much larger than the others; a CPU takes
more jobs."""

UNKNOWN_READINGS: Mapping[str, _Values] = {
    "": {},
    "-work": {"mix": "work"},
    "-growth": {"stable": 0.01},
    "-literal": {"target": "literal", "bus": "none"},
}
"""By suffix: the defaults; every program makes as much work; growing jobs have nearly all faults; and migrations go
where either half of the printed condition holds, as many at a time as there are."""

TRACE_READINGS: Mapping[str, _Values] = {**UNKNOWN_READINGS, "-useful": {"useful": 0.3}}
"""Of Fig. 4, also: a node whose jobs thrash gets more done. Jobs that are kept from thrashing do not gain by it."""

SPEC_READINGS = ("", "-work", "-literal")
"""The readings that matter for the SPEC programs, none of which grows."""

KNOWN_LINES = ("cpu", "mem", "cpu-mem-hp", "cpu-mem-ht")
UNKNOWN_LINES = ("pf-rate", "worksize", "age", "combined")
MT = (-15.0, -5.0, 0.0, 5.0, 15.0)
"""LoadShare §3.5.2, %."""
OVERSIZE = (-10.0, 0.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 65.0, 70.0, 75.0, 80.0, 90.0, 100.0)
"""Of Fig. 3, %."""

_SLOWDOWN = Panel("slowdown", "slowdown", "mean slowdown")
_PAGING = Panel("paging_s", "paging time", "s, all jobs")
_MIGRATION = Panel("migration_s", "migration time", "s, all jobs")
_QUEUE = Panel("queue_s", "queuing time", "s, all jobs")


def _policies(*names: str) -> Mapping[str, Line]:
    return {name: (name, {}) for name in names}


# --- known demands ---


def _known(suffix: str, at: _Values) -> tuple[Experiment, ...]:
    """Figs. 1 and 2."""
    said = "".join(f", {name} {value}" for name, value in at.items())
    lines: dict[str, Line] = {f"{p} {month}": (p, {"trace": month}) for month in MONTHS for p in KNOWN_LINES}
    return (
        Experiment(
            f"loadshare-fig1{suffix}",
            f"Fig. 1: known demands{said}",
            KNOWN,
            lines,
            x="sigma",
            xs=tuple(float(sigma) for sigma in range(1, 11)),
            panels=tuple(
                Panel("slowdown", month.upper(), "mean slowdown", tuple(f"{p} {month}" for p in KNOWN_LINES))
                for month in MONTHS
            ),
            at=at,
            xlabel="page fault rate, faults per million instructions",
        ),
        Experiment(
            f"loadshare-fig2{suffix}",
            f"Fig. 2: where the time goes, page fault rate 6{said}",
            KNOWN,
            _policies(*KNOWN_LINES),
            x="trace",
            xs=tuple(MONTHS),
            panels=(_PAGING, _QUEUE),
            at={**at, "sigma": 6.0},
            xlabel="trace",
        ),
    )


_CT = Experiment(
    "loadshare-ct",
    "CPU threshold: AUGUST, page fault rate 4",
    KNOWN,
    _policies(*KNOWN_LINES),
    x="ct",
    xs=(1, 2, 3, 4, 6, 8, 16),
    panels=(_SLOWDOWN,),
    at={"trace": "august", "sigma": 4.0},
    xlabel="CPU threshold CT, jobs",
)


# --- unknown demands ---

_SEVEN: _Values = {"programs": "seven"}
_SPEC: _Values = {"programs": "spec"}


def _unknown(suffix: str, at: _Values) -> tuple[Experiment, ...]:
    """Figs. 4 to 11, and how many jobs are killed without load sharing."""
    said = "".join(f", {name} {value}" for name, value in at.items())
    all_ = (*UNKNOWN_LINES, "blocking")

    def by_trace(name: str, title: str, network: float, panels: tuple[Panel, ...], *, lines: tuple[str, ...] = all_,
                 of: _Values = _SEVEN) -> Experiment:  # fmt: skip
        return Experiment(
            f"loadshare-{name}{suffix}", title + said, UNKNOWN, _policies(*lines), x="trace", xs=tuple(TRACES),
            panels=panels, at={**at, **of, "network_mbps": network}, xlabel="trace",
        )  # fmt: skip

    def by_mt(name: str, title: str, network: float, panels: tuple[Panel, ...], of: _Values = _SEVEN) -> Experiment:
        return Experiment(
            f"loadshare-{name}{suffix}", title + said, UNKNOWN, _policies(*UNKNOWN_LINES), x="mt", xs=MT,
            panels=panels, at={**at, **of, "network_mbps": network}, xlabel="memory threshold MT, %",
        )  # fmt: skip

    four = tuple(Panel(p.metric, f"{p.title}, load sharing", p.label, UNKNOWN_LINES) for p in
                 (_SLOWDOWN, _PAGING, _MIGRATION, _QUEUE))  # fmt: skip
    every = (_SLOWDOWN, *four)
    done = Panel("done", "jobs completed", "jobs")
    seven = (
        by_trace("fig4", "Fig. 4: 10 Mbps, MT 0", 10.0, every),
        by_mt("fig5", "Fig. 5: trace 1, 10 Mbps", 10.0, (_SLOWDOWN, _PAGING)),
        by_mt("fig6", "Fig. 6: trace 1, 10 Mbps", 10.0, (_MIGRATION, _QUEUE)),
        by_trace("fig7", "Fig. 7 left: 100 Mbps, MT 0", 100.0, every[:2]),
        by_mt("fig7-mt", "Fig. 7 right: trace 1, 100 Mbps", 100.0, (_MIGRATION,)),
        by_trace("none", "No load sharing", 10.0, (done,), lines=("none",)),
    )
    if suffix not in UNKNOWN_READINGS:
        return tuple(e for e in seven if e.x == "trace" and "fig7" not in e.name)
    if suffix not in SPEC_READINGS:
        return seven
    return (
        *seven,
        by_trace("fig8", "Fig. 8: SPEC, 100 Mbps, MT 0", 100.0, every, of=_SPEC),
        by_mt("fig9", "Fig. 9: SPEC trace 1, 100 Mbps", 100.0, (_SLOWDOWN, _PAGING), _SPEC),
        by_mt("fig10", "Fig. 10: SPEC trace 1, 100 Mbps", 100.0, (_MIGRATION, _QUEUE), _SPEC),
        by_trace("fig11", "Fig. 11 left: SPEC, 10 Mbps, MT 0", 10.0, (_SLOWDOWN,), lines=UNKNOWN_LINES, of=_SPEC),
        by_mt("fig11-mt", "Fig. 11 right: SPEC trace 1, 10 Mbps", 10.0, (_MIGRATION,), _SPEC),
    )


# --- programs alone and together ---

_twice = partial(Experiment, model=UNKNOWN, seeds=2)  # nothing is drawn: the second shows that
_TOGETHER = (
    _twice(
        "loadshare-fig3",
        "Fig. 3 left: page faults by how much memory is oversized, as modelled",
        lines={f"{n} jobs": ("none", {"group": "equal", "count": n, "swap_mb": 1e6}) for n in (2, 3, 4, 6)},
        x="oversize",
        xs=OVERSIZE,
        panels=(
            Panel("fault_rate", "page faults", "faults/s"),
            Panel("useful", "what the jobs have of the CPU", "CPU share"),
        ),
        at={"nodes": 1},
        xlabel="oversized memory demand, %",
    ),
    *(
        _twice(
            f"loadshare-alone{suffix}",
            f"{table}: programs alone",
            lines={"alone": ("none", {"group": "alone", "programs": kind, "nodes": 1})},
            x="program",
            xs=tuple(SETS[kind]),
            panels=(Panel("response_s", "lifetime", "s"), Panel("io_s", "of this, reads and writes", "s")),
            xlabel="program",
        )
        for suffix, table, kind in (("", "T. 2", "seven"), ("-spec", "T. 5", "spec"))
    ),
    *(
        _twice(
            f"loadshare-groups{suffix}",
            f"T. 3: programs together{said}",
            lines={"together": ("none", {"nodes": 1, **at})},
            x="group",
            xs=tuple(GROUPS),
            panels=(
                Panel("paging_share m-sort", "m-sort's time for paging", "part of its lifetime"),
                Panel("fault_rate", "page faults at first", "faults/s"),
            ),
            xlabel="programs",
        )
        for suffix, said, at in (("", "", {}), ("-growth", ", stable 0.01", {"stable": 0.01}))
    ),
)

EXPERIMENTS = (
    *chain.from_iterable(_known(suffix, at) for suffix, at in KNOWN_READINGS.items()),
    *chain.from_iterable(_unknown(suffix, at) for suffix, at in TRACE_READINGS.items()),
    _CT,
    *_TOGETHER,
)
