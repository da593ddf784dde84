# SPDX-License-Identifier: GPL-2.0-or-later
"""ParPar's experiments, Figs. 2 and 5 to 7, and what its claims need beside them.

C of eq. 1 is a part of 55 MB of which 45 are really free (§4.2, B-PP-4): C = 1 admits five jobs of 10 MB, four fit.
Fig. 7's "100 % of the real memory" can be either, so it is made for C = 1 and for C = 0.8, and, at C = 0.8, with longer
slots and with faster page faults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from ctl.sim.experiment import Experiment, Line, Panel
from ctl.sim.params import Value
from ctl.sim.parpar.figures import histograms, over_load
from ctl.sim.parpar.model import MODEL
from ctl.sim.parpar.simulation import ADMIT, GANG

__all__ = ["EXPERIMENTS", "LOADS", "READINGS"]

LOADS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_C = (0.8, 1.0, 1.2, 1.5, 2.0)
_THETA = (1.0, 1.25, 1.5, 1.75, 2.0)

READINGS = {
    "": "",
    "-real": "C=0.8",
    "-slot": "C=0.8, slots of 10 s",
    "-fault": "C=0.8, faults of 1 ms",
}
"""Variants of Fig. 7, by suffix, with their changes."""

_parpar = partial(Experiment, model=MODEL)


def _limits(cs: Sequence[float], theta: float) -> dict[str, Line]:
    """A line for each C, and one without a limit, at one theta."""
    lines: dict[str, Line] = {f"C={c:g}, θ={theta:g}": (ADMIT, {"c": c, "theta": theta}) for c in cs}
    return {f"no limit, θ={theta:g}": (GANG, {"theta": theta})} | lines


def _dynamic(
    suffix: str,
    title: str,
    c: float,
    thetas: Sequence[float] = (1.0, 1.5, 2.0),
    loads: Sequence[float] = LOADS,
    at: Mapping[str, Value] | None = None,
) -> Experiment:
    """Response and slowdown over the load, with and without a limit."""
    lines: dict[str, Line] = {f"no limit, θ={theta:g}": (GANG, {"theta": theta}) for theta in thetas}
    lines |= {f"limit, θ={theta:g}": (ADMIT, {"c": c, "theta": theta}) for theta in thetas}
    return _parpar(
        f"parpar-fig7{suffix}",
        title,
        lines=lines,
        x="load",
        xs=loads,
        at=at or {},
        draw=over_load,
    )


_static: Mapping[str, Value] = {"trial": "static", "nodes": 2}
_five = _limits((1.0, 1.5), 1.0) | _limits((1.0, 1.5), 2.0)

EXPERIMENTS = (
    _parpar(
        "parpar-fig2",
        "Fig. 2: estimates against what was used",
        lines={"history": (GANG, {})},
        at={"trial": "replay", "jobs": 1_000_000},
        seeds=1,
        draw=histograms,
    ),
    _parpar(
        "parpar-fig5",
        "Fig. 5: execution time of jobs that are all there at once",
        lines=_five,
        x="jobs",
        xs=tuple(range(5, 51, 5)),
        at=_static,
        panels=(
            Panel("time_s", "all", "execution time, s"),
            Panel("time_s", "all but no limit, θ=1", "execution time, s", tuple(_five)[1:]),
            Panel("time_s", "θ=2", "execution time, s", tuple(_five)[3:]),
        ),
        xlabel="number of jobs",
    ),
    _parpar(
        "parpar-fig6",
        "Fig. 6: execution time of 50 jobs",
        lines={"no limit": (GANG, {})} | {f"C={c:g}": (ADMIT, {"c": c}) for c in _C},
        x="theta",
        xs=_THETA,
        at={**_static, "jobs": 50},
        panels=(
            Panel("time_s", "all", "execution time, s"),
            Panel("time_s", "limited", "execution time, s", tuple(f"C={c:g}" for c in _C)),
        ),
        xlabel="θ (locality grows to the right)",
    ),
    _dynamic("", "Fig. 7, C=1: five jobs on a node, four fit", 1.0),
    _dynamic("-real", "Fig. 7, C=0.8: four jobs on a node, four fit", 0.8),
    _dynamic("-slot", "Fig. 7, C=0.8, slots of 10 s", 0.8, (1.5, 2.0), (0.2, 0.4, 0.6, 0.8), {"slot_s": 10.0}),
    _dynamic("-fault", "Fig. 7, C=0.8, faults of 1 ms", 0.8, (2.0,), (0.4, 0.8), {"fault_ms": 1.0}),
    _parpar(
        "parpar-c",
        "Where to set the limit (§5): load 0.3",
        lines={f"θ={theta:g}": (ADMIT, {"theta": theta}) for theta in (1.0, 1.5, 2.0)},
        x="c",
        xs=(0.4, 0.6, *_C),
        at={"load": 0.3},
        panels=(
            Panel("response_s", "none where saturated", "average response time, s"),
            Panel("saturated_percent", "replications saturated", "more than 300 jobs at once, %"),
        ),
        xlabel="C",
        seeds=5,
    ),
    _parpar(
        "parpar-walk",
        "The program alone (§4.1): 100,000 accesses",
        lines={f"θ={theta:g}": (GANG, {"theta": theta}) for theta in (1.0, 2.0)},
        x="k_bytes",
        xs=(1024, 4096),
        at={"trial": "walk"},
        panels=(
            Panel("below_4", "jumps below 4 K", "part of the jumps"),
            Panel("coverage", "pages touched", "part of the array"),
        ),
        xlabel="K, bytes",
    ),
    _parpar(
        "parpar-large",
        "Three jobs of 70 MB on nodes of 55 MB (§3.2)",
        lines={"C=1": (ADMIT, {})},
        x="theta",
        xs=(2.0,),
        at={**_static, "jobs": 3, "job_mb": 70.0, "accesses": 100_000},
        panels=(Panel("alone", "started alone", "jobs"), Panel("time_s", "until all have ended", "s")),
        xlabel="θ",
    ),
)
