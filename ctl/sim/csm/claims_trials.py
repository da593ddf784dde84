# SPDX-License-Identifier: GPL-2.0-or-later
"""CSM's claims about given jobs, Figs. 2 and 4 and §4.2, as tests of the measurements (results/csm.md)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from ctl.sim import claim
from ctl.sim.claim import Found as _Found
from ctl.sim.claim import Test
from ctl.sim.evidence import Evidence, less
from ctl.sim.intervals import Mean, paired

__all__ = [
    "READINGS",
    "by_reading",
    "cross",
    "favoured",
    "fifo",
    "j1_time",
    "j2_time",
    "much_more",
    "rise",
    "small_first",
    "toy_order",
    "toy_policy",
]

READINGS = ("", "-free", "-free-1s")
"""Suffixes of the trials' experiments: the defaults; a new task takes free pages only; also a message each second."""


def by_reading(test: Test) -> Test:
    """Judge by the defaults, and report the results of the other READINGS."""
    return claim.by_reading(test, ("enter=free", "enter=free, mfreq 1 s"))


def _response(e: Evidence, line: str, job: str) -> list[float]:
    return [r["response_s"][job] for r in e.results(line)]


def _value(e: Evidence, line: str, job: str, at_s: float, what: int) -> list[float]:
    """CPU seconds (1) or resident pages (2) of a job's task on N1 at a time; of the last sample if the task has
    ended."""
    columns = []
    for result in e.results(line):
        trace = result["traces"][job]
        columns.append(next((sample[what] for sample in trace if sample[0] >= at_s), trace[-1][what]))
    return columns


def toy_order(e: Evidence) -> _Found:
    times = {job: mean(_response(e, "rr", job)) for job in ("L", "J1", "J2")}
    shown = ", ".join(f"{job} {t:.0f} s" for job, t in times.items())
    return times["L"] < times["J1"] < times["J2"], f"rr: {shown}"


def toy_policy(e: Evidence) -> _Found:
    change = {j: mean(_response(e, "csm", j)) / mean(_response(e, "rr", j)) - 1 for j in ("J1", "J2", "L")}
    holds = abs(change["J1"] + 0.22) <= 0.1 and abs(change["L"]) <= 0.05 and change["J2"] < 0
    return holds, "csm against rr: " + ", ".join(f"{j} {c:+.0%}" for j, c in change.items())


def cross(e: Evidence) -> _Found:
    """J2's CPU time under csm is below that under rr while J1 runs, and above it at rr's end of J1."""
    early = less(paired(_value(e, "csm", "J2", 100, 1), _value(e, "rr", "J2", 100, 1)))
    end = mean(_response(e, "rr", "J1"))
    late = paired(_value(e, "csm", "J2", end, 1), _value(e, "rr", "J2", end, 1))
    return early and late.low > 0, f"slower at 100 s: {early}; CPU time at {end:.0f} s, csm - rr: {late} s"


def favoured(e: Evidence) -> _Found:
    at = 300.0
    jobs, locals_ = ([mean(_value(e, "pred", j, at, 1)) / at for j in pair] for pair in (("J1", "J2"), ("L1", "L2")))
    shown = " ".join(f"{r:.2f}" for r in (*jobs, *locals_))
    return min(jobs) > max(locals_), f"pred, CPU rates to 300 s, J1 J2 L1 L2: {shown}"


def rise(e: Evidence) -> _Found:
    holds = []
    texts = []
    for job in ("J1", "J2"):
        before, after, memory = [], [], []
        for i, result in enumerate(e.results("pred")):
            end = max(_response(e, "pred", "L1")[i], _response(e, "pred", "L2")[i])
            cpu = [(at, used) for at, used, _ in result["traces"][job]]
            by_end = next(used for at, used in cpu if at >= end)
            later = next(used for at, used in cpu if at >= 2 * end)
            before.append(by_end / end)
            after.append((later - by_end) / end)
            pages = [(at, res) for at, _, res in result["traces"][job]]
            memory.append(next(r for at, r in pages if at >= 2 * end) - next(r for at, r in pages if at >= end))
        holds.append(less(paired(before, after)) and Mean.of(memory).low > 0)
        texts.append(f"{job} CPU {mean(before):.2f} to {mean(after):.2f}, pages {mean(memory):+.0f}")
    return all(holds), "; ".join(texts)


def much_more(e: Evidence) -> _Found:
    end = min(_response(e, "csm", "J1"))
    ratio = mean(_value(e, "csm", "J1", end, 1)) / mean(_value(e, "csm", "J2", end, 1))
    res = mean(_value(e, "csm", "J1", 40, 2))
    shown = f"CPU(J1)/CPU(J2) {ratio:.2f} at J1's end; res(J1) {res:.0f} of 18432 pages at 40 s"
    return ratio > 2 and res > 0.95 * 18432, shown


def j1_time(e: Evidence) -> _Found:
    csm, pred = mean(_response(e, "csm", "J1")), mean(_response(e, "pred", "J1"))
    return abs(csm / pred - 0.64) <= 0.15, f"J1(CSM)/J1(PRED) {csm / pred:.2f} ({csm:.0f} s, {pred:.0f} s)"


def j2_time(e: Evidence) -> _Found:
    csm, pred = _response(e, "csm", "J2"), _response(e, "pred", "J2")
    change = mean(csm) / mean(pred) - 1
    return -0.15 < change <= 0, f"J2(CSM) against J2(PRED) {change:+.1%} ({mean(csm):.0f} s, {mean(pred):.0f} s)"


def fifo(e: Evidence) -> _Found:
    orders = [sorted(r["response_s"], key=lambda j: r["response_s"][j] + r["arrived_s"][j]) for r in e.results("csm")]
    right = sum(order == ["J1", "J2", "J3"] for order in orders)
    ends = [[r["response_s"][j] + r["arrived_s"][j] for j in ("J1", "J2", "J3")] for r in e.results("csm")]
    shown = " ".join(f"{mean(column):.0f}" for column in zip(*ends, strict=True))
    return right == len(orders), f"{right} of {len(orders)} in order of arrival; mean ends {shown} s"


def small_first(e: Evidence) -> _Found:
    jobs = ("J1", "J2", "J3")
    ends = {line: [mean(_response(e, line, j)) for j in jobs] for line in ("rr", "csm")}
    cpu = [mean(_value(e, "csm", j, 600, 1)) for j in jobs]
    holds = cpu[0] > cpu[1] > cpu[2]
    shown = f"csm: CPU s at 600 s by size {_list(cpu)}; ends {_list(ends['csm'])} s (rr {_list(ends['rr'])})"
    return holds, shown


def _list(values: Sequence[float]) -> str:
    return " ".join(f"{v:.0f}" for v in values)
