# SPDX-License-Identifier: GPL-2.0-or-later
"""Monito's Fig. 6 and the sweeps of §5.3 that its text tells of, under the readings taken and under others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ctl.sim.dcndc.model import MODEL
from ctl.sim.experiment import Experiment, Line, Panel
from ctl.sim.params import Value

__all__ = ["EXPERIMENTS", "MIT", "PDT", "READINGS", "TECHNIQUES", "line"]

MIT = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
"""The grid of inter-arrival times (B-MO-7)."""

PDT = (0.1, 0.3, 0.5, 0.7, 0.9)
"""The curves (Monito gives no values)."""

TECHNIQUES = ("sdca", "dynamic", "implicit")

READINGS: Mapping[str, Mapping[str, Value]] = {
    "": {},
    "async": {"receive": "async"},
    "bottom": {"wake": "bottom"},
    "head": {"displaced": "head"},
    "mno": {"mno": 1_000_000_000},
    "async-mno": {"receive": "async", "mno": 1_000_000_000},
}
"""Suffixes of the figure's experiments, with their changes to the defaults."""


def line(name: str, pdt: float) -> str:
    """A curve's name, as in the figure: "SDCA (0.3)"."""
    return f"{name.upper()} ({pdt:g})"


_CURVES: Mapping[str, Line] = {line(p, pdt): (p, {"pdt": pdt}) for pdt in PDT for p in TECHNIQUES}
_PANELS = tuple(Panel("node_code", f"pdt {pdt}", "NodeCoDe", tuple(line(p, pdt) for p in TECHNIQUES)) for pdt in PDT)
_NODE_CODE = (Panel("node_code", "", "NodeCoDe"),)
_dcndc = partial(Experiment, model=MODEL)


def _figure(reading: str, instead: Mapping[str, Value]) -> Experiment:
    said = "".join(f", {name}={value}" for name, value in instead.items())
    return _dcndc(
        f"dcndc-fig6-{reading}" if reading else "dcndc-fig6",
        f"Monito Fig. 6: NodeCoDe{said}",
        lines=_CURVES,
        x="mit",
        xs=MIT,
        panels=_PANELS,
        at=instead,
        xlabel="mean inter-arrival time (mst 0.9)",
        log=True,
    )


def _sweep(suffix: str, policy: str, parameter: str, xs: tuple[float, ...], instead: Mapping[str, Value]) -> Experiment:
    """A technique's own parameter, ten times around the paper's, at three loads."""
    return _dcndc(
        f"dcndc-{parameter}{suffix}",
        f"{policy.upper()}: NodeCoDe by {parameter}{suffix and ', '}{suffix[1:]} (pdt 0.5)",
        lines={f"mit {mit:g}": (policy, {"mit": mit}) for mit in (1.0, 2.0, 5.0)},
        x=parameter,
        xs=xs,
        panels=_NODE_CODE,
        at=instead,
        xlabel=parameter,
        log=True,
    )


_SPIN, _SHARE = (0.001, 0.003, 0.01, 0.03, 0.1), (0.01, 0.03, 0.1, 0.3, 1.0)

EXPERIMENTS = (
    *(_figure(reading, instead) for reading, instead in READINGS.items()),
    _sweep("", "implicit", "spin", _SPIN, {}),
    _sweep("-bottom", "implicit", "spin", _SPIN, {"wake": "bottom"}),
    _sweep("", "dynamic", "share", _SHARE, {}),
    _sweep("-async", "dynamic", "share", _SHARE, {"receive": "async"}),
)
