# SPDX-License-Identifier: GPL-2.0-or-later
"""The tests of CCS's claims about laboratories in use (CCS §5.2; results/ccs.md)."""

from __future__ import annotations

from statistics import mean

from ctl.sim.ccs.claims_tests import SCL, SLOWDOWN, SPEEDUP, relative
from ctl.sim.claim import Found, Test
from ctl.sim.evidence import Evidence

__all__ = [
    "LABS",
    "bears_more",
    "best_and_worst",
    "dedicated_loss",
    "gain_in_open",
    "mpl_reached",
    "usage",
    "whole_gains",
    "withheld",
]

LABS = ("open", "statistic", "edi")
"""CCS T. 4."""


def _workload(e: Evidence, line: str, lab: str) -> float:
    return e.mean(line, lab, "speedup_workload").mean


_LINES9 = tuple(f"{p}, {load}" for load in ("COM_L", "COM_H") for p in ("dyn", "pred", "ccs"))


def best_and_worst(e: Evidence) -> Found:
    texts, holds = [], True
    for line in _LINES9:
        found = {lab: _workload(e, line, lab) for lab in LABS}
        holds &= found["edi"] == max(found.values()) and found["statistic"] == min(found.values())
        texts.append(f"{line} " + " ".join(f"{v:.2f}" for v in found.values()))
    return holds, "open, statistic, edi: " + "; ".join(texts)


def mpl_reached(e: Evidence) -> Found:
    most = {line: max(e.mean(line, lab, "mpl").mean for lab in LABS) for line in _LINES9}
    others = max(v for line, v in most.items() if not line.startswith("ccs"))
    ccs = min(e.mean(f"ccs, {load}", "edi", "mpl").mean for load in ("COM_L", "COM_H"))
    speed = min(_workload(e, f"ccs, {load}", "edi") for load in ("COM_L", "COM_H"))
    shown = ", ".join(f"{n} {v:.2f}" for n, v in most.items())
    return others <= 2 and ccs >= 4 and speed > 7.5, f"mean jobs at once at the most: {shown}; ccs in edi {speed:.2f}"


def _gain9(e: Evidence, load: str, lab: str) -> float:
    return _workload(e, f"ccs, {load}", lab) / max(_workload(e, f"{p}, {load}", lab) for p in ("dyn", "pred")) - 1


def gain_in_open(e: Evidence) -> Found:
    gains = {(load, lab): _gain9(e, load, lab) for load in ("COM_L", "COM_H") for lab in LABS}
    best = max(gains, key=lambda of: gains[of])
    shown = ", ".join(f"{load} {lab} {g:+.0%}" for (load, lab), g in gains.items())
    return best[1] == "open" and 0.3 <= gains[best] <= 0.6, shown


def dedicated_loss(e: Evidence) -> Found:
    lost = 1 - _workload(e, "ccs, COM_L", "statistic") / _workload(e, "ccs, COM_L", "nobody")
    return lost < 0.5, f"{-lost:+.0%}"


def bears_more(e: Evidence) -> Found:
    found, texts = {}, []
    for line in ("dyn", "pred", "ccs"):
        borne = [x for x in e.xs if e.mean(line, x, SLOWDOWN).mean <= 2 and e.mean(line, x, SCL).mean <= 400]
        found[line] = max((e.mean(line, x, "cpu_load").mean for x in borne), default=0.0)
        texts.append(f"{line} {found[line]:.2f}, MPL {max(borne, default=0)}")
    shown = ", ".join(texts)
    return found["ccs"] > max(found["dyn"], found["pred"]), f"greatest CPU load within slowdown 2, SCL 400 ms: {shown}"


def withheld(e: Evidence) -> Found:
    parts = [
        e.mean(f"ccs, {load}", lab, "withheld").mean / e.mean(f"ccs, {load}", lab, "asked").mean
        for load in ("COM_L", "COM_H") for lab in LABS
    ]  # fmt: skip
    return 0.15 <= mean(parts) <= 0.35, f"{mean(parts):.1%} ({' '.join(f'{p:.0%}' for p in parts)})"


def usage(load: str) -> Test:
    def test(e: Evidence) -> Found:
        texts, best = [], True
        for metric in ("cpu_load", "memory"):
            found = {p: e.mean(f"{p}, {load}", "open", metric).mean for p in ("ccs", "dyn", "pred")}
            best &= found["ccs"] == max(found.values())
            texts.append(f"{metric} " + ", ".join(f"{p} {v:.2f}" for p, v in found.items()))
        return best, "; ".join(texts)

    return test


def whole_gains(e: Evidence) -> Found:
    good, texts = 0, []
    for load in ("COM_L", "COM_H"):
        for lab in LABS:
            gain = _workload(e, f"ccs, {load}", lab) / _workload(e, f"dyn, {load}", lab) - 1
            loss = -relative(e, f"dyn, {load}", f"ccs, {load}", lab, SPEEDUP)
            good += gain > loss
            texts.append(f"{load} {lab} {gain:+.0%}, {-loss:+.0%}")
    return good >= 5, "workload, each job: " + "; ".join(texts)
