# SPDX-License-Identifier: GPL-2.0-or-later
"""Monito's claims as tests of the measurements (results/dcndc.md). Each test returns whether the claim holds, and the
numbers."""

from __future__ import annotations

from statistics import mean

from ctl.sim.claim import Claim, Test, by_reading, shown
from ctl.sim.claim import Found as _Found
from ctl.sim.dcndc.experiments import PDT, READINGS, TECHNIQUES, line
from ctl.sim.evidence import Evidence, less
from ctl.sim.intervals import Mean, slope

__all__ = ["CLAIMS"]

_OTHERS = ("dynamic", "implicit")


# --- Fig. 6 ---


def _best(e: Evidence, metric: str = "node_code") -> dict[str, int]:
    """At how many points of mit and pdt is sdca's NodeCoDe above that of each other technique?"""
    return {p: sum(len(e.less_at(line(p, pdt), line("sdca", pdt), metric)) for pdt in PDT) for p in _OTHERS}


def _range(e: Evidence, technique: str) -> str:
    """From the least mit to the largest, means over pdt."""
    ends = [mean(e.mean(line(technique, pdt), x, "node_code").mean for pdt in PDT) for x in (e.xs[0], e.xs[-1])]
    return f"{technique} {ends[0]:.2f} to {ends[1]:.2f}"


def _sdca_first(e: Evidence) -> _Found:
    points = len(e.xs) * len(PDT)
    above, by_dispatch = _best(e), _best(e, "node_code_dispatch")
    shown = ", ".join(f"above {p} at {above[p]} (dispatches alone {by_dispatch[p]})" for p in _OTHERS)
    return all(n == points for n in above.values()), f"{shown} of {points} points; " + ", ".join(
        _range(e, p) for p in TECHNIQUES
    )


_by_reading = by_reading(_sdca_first, [shown(instead) for instead in READINGS.values()][1:])


# --- the sweeps ---


def _steps(e: Evidence, of: str) -> Mean:
    """The slope of NodeCoDe over the steps of the grid, which are even in the logarithm or nearly."""
    return slope([float(i) for i in range(len(e.xs))], [e.column(of, x, "node_code") for x in e.xs])


def _falls(e: Evidence) -> tuple[bool, str]:
    slopes = {name: _steps(e, name) for name in e.experiment.lines}
    return all(less(s) for s in slopes.values()), ", ".join(f"{name} {s}" for name, s in slopes.items())


def _large_and_low(fig: Evidence, spin: Evidence, share: Evidence, *others: Evidence) -> _Found:
    rises = [p for p in TECHNIQUES if all(_steps(fig, line(p, pdt)).low > 0 for pdt in PDT)]
    spins, spin_text = _falls(spin)
    shares, share_text = _falls(share)
    shown = f"rises with mit at every pdt: {' '.join(rises) or 'none'}; a step of spin: {spin_text}; "
    shown += f"a step of share: {share_text}"
    for e, said in zip(others, ("spin, wake=bottom", "share, receive=async"), strict=True):
        would, text = _falls(e)
        shown += f" [{said}: {'falls' if would else 'does not fall'}, {text}]"
    return len(rises) == len(TECHNIQUES) and spins and shares, shown


# --- arithmetic ---

# Monito Table 3, slowdown of a local compiling task, %: sintree, is, mg
_TABLE_3 = {
    "PRIO": (1.4, 2.8, 90), "PRIOSPIN": (1.4, 2.8, 92), "EXPLICIT": (1.4, 4.2, 42), "SPIN": (3.6, 2.1, 8),
    "MXI": (1.4, 0, 1.6), "MXISPIN": (3.6, 2.1, 8),
}  # fmt: skip


def _signals() -> _Found:
    """T_start of eq. 1 and T_stop of eq. 2, term by term, with every W_w and W_s equal."""
    start = ("W_s(local)", "W_w(dts)", "S_sig", "W_w(dis)", "W_s(dts)")
    stop = ("W_s(dis)", "W_w(dts)", "S_sig", "W_w(local)", "W_s(dts)")
    counts = [(sum(t.startswith("W") for t in terms), sum(t == "S_sig" for t in terms)) for terms in (start, stop)]
    shown = f"start {counts[0][0]} W + {counts[0][1]} S_sig, stop {counts[1][0]} W + {counts[1][1]} S_sig"
    return counts == [(4, 1), (4, 1)], f"{shown}; W and S_sig of real nodes are not measured here"


def _packets() -> _Found:
    size = 46_137_344 / 22
    return size == 2 * 2**20, f"46137344 / 22 = {size:.0f} bytes, 2 MB are {2 * 2**20}"


def _mxi() -> _Found:
    means = {name: mean(row) for name, row in _TABLE_3.items()}
    least = min(means, key=lambda name: means[name])
    shown = ", ".join(f"{name} {m:.1f}" for name, m in means.items())
    return least == "MXI" and abs(means["SPIN"] - 4.6) < 0.05 and abs(means["PRIO"] - 31.4) < 0.05, shown


_REAL = "a measurement of real nodes, not of this model: results/monito.md"
_FIGURES = tuple(f"dcndc-fig6-{reading}" if reading else "dcndc-fig6" for reading in READINGS)
_SWEEPS = ("dcndc-fig6", "dcndc-spin", "dcndc-share", "dcndc-spin-bottom", "dcndc-share-async")

_ROWS: tuple[tuple[str, str, str, tuple[str, ...], Test | None], ...] = (
    ("MO-1", "PRIO is best for sintree", _REAL, (), None),
    ("MO-2", "EXPLICIT is worst without local tasks", _REAL, (), None),
    ("MO-3", "EXPLICIT scarcely degrades with local load", _REAL, (), None),
    ("MO-4", "MXI and SPIN scale, between PVM and PRIO", _REAL, (), None),
    ("MO-5", "SPIN is faster than PVM", _REAL, (), None),
    ("MO-6", "PRIOSPIN is worse than PRIO, MXISPIN than MXI", _REAL, (), None),
    ("MO-7", "mg behaves as sintree, is does worse in the SPIN cases", _REAL, (), None),
    ("MO-8", "Table 3, sintree: all below 10 %, SPIN's family highest", _REAL, (), None),
    ("MO-9", "Table 3, is: all below 10 %", _REAL, (), None),
    (
        "MO-10",
        "Table 3, mg: PRIO's far above EXPLICIT, that above SPIN's, these above MXI",
        _REAL,
        (),
        None,
    ),
    ("MO-11", "T_im is about 10 µs", _REAL, (), None),
    ("MO-12", "T_ex = 4 W + S_sig", "eq. 1 and 2 add up to it (its value: real nodes)", (), _signals),
    ("MO-13", "CBL saturates at 14 = 16 - 2", _REAL, (), None),
    ("MO-14", "receive_queue saturates at 65,535 bytes", _REAL, (), None),
    ("MO-15", "pvmrxlist: 46,137,344 bytes in 22 packets are 2 MB each", "exact", (), _packets),
    ("MO-16", "no other layer saturates", _REAL, (), None),
    (
        "MO-17",
        "NodeCoDe is better with large mit, low spin and share",
        "slopes > 0, < 0, < 0",
        _SWEEPS,
        _large_and_low,
    ),
    ("MO-18", "SDCA has the best NodeCoDe", "above both at each mit and pdt", _FIGURES, _by_reading),
    ("MO-19", "sampling perturbs; the tool reports by how much", _REAL, (), None),
    ("MO-20", "MXI costs local tasks least", "Table 3's row means: MXI 1.0, SPIN 4.6, PRIO 31.4", (), _mxi),
)

CLAIMS: tuple[Claim, ...] = tuple(Claim(*row) for row in _ROWS)
