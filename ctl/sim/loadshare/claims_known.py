# SPDX-License-Identifier: GPL-2.0-or-later
"""LoadShare's claims about known memory demands, §2.3, as tests of the measurements: results/loadshare.md."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import mean

from ctl.sim.claim import Found, Test
from ctl.sim.evidence import Evidence, less
from ctl.sim.loadshare.experiments import KNOWN_LINES
from ctl.sim.loadshare.params import MONTHS
from ctl.sim.loadshare.readings import numbers, percents

__all__ = [
    "at_rate",
    "cpu_time",
    "far_better",
    "high_performance",
    "larger_at_eight",
    "linear",
    "low_rate",
    "mem_slightly",
    "reduction",
]

_BOTH = ("cpu-mem-hp", "cpu-mem-ht")
_M = "slowdown"


def _slowdown(e: Evidence, policy: str, month: str, x: float) -> float:
    return e.mean(f"{policy} {month}", x, _M).mean


def _fit(xs: Sequence[float], ys: Sequence[float]) -> float:
    """R squared of the straight line through the points."""
    x0, y0 = mean(xs), mean(ys)
    xy = sum((x - x0) * (y - y0) for x, y in zip(xs, ys, strict=True))
    return xy * xy / (sum((x - x0) ** 2 for x in xs) * sum((y - y0) ** 2 for y in ys))


def linear(e: Evidence) -> Found:
    xs = [float(x) for x in e.xs]
    fits = {line: _fit(xs, [e.mean(line, x, _M).mean for x in e.xs]) for line in e.experiment.lines}
    least = min(fits, key=lambda line: fits[line])
    ends = [_slowdown(e, p, "august", x) for p in KNOWN_LINES for x in (1.0, 10.0)]
    shown = f"least R² {fits[least]:.3f} ({least}); august, rates 1 and 10, by policy: {numbers(ends)}"
    return fits[least] > 0.9, shown


def low_rate(e: Evidence) -> Found:
    spreads = []
    for month in MONTHS:
        of = [_slowdown(e, p, month, 1.0) for p in KNOWN_LINES]
        spreads.append(max(of) / min(of) - 1)
    return max(spreads) < 0.1, f"highest above lowest at rate 1, by trace: {percents(spreads)}"


def far_better(e: Evidence) -> Found:
    ratios = {
        (one, both, month, x): _slowdown(e, one, month, x) / _slowdown(e, both, month, x)
        for one in ("cpu", "mem") for both in _BOTH for month in MONTHS for x in map(float, range(4, 11))
    }  # fmt: skip
    least = {one: min(r for key, r in ratios.items() if key[0] == one) for one in ("cpu", "mem")}
    most = {one: max(r for key, r in ratios.items() if key[0] == one) for one in ("cpu", "mem")}
    above = sum(r > 1.3 for r in ratios.values())
    ranges = ", ".join(f"{one} {least[one]:.2f} to {most[one]:.2f}" for one in least)
    return above == len(ratios), f"above 1.3 in {above} of {len(ratios)} cases; ratio to CPU_MEM: {ranges}"


def mem_slightly(e: Evidence) -> Found:
    ratios = [_slowdown(e, "cpu", m, float(x)) / _slowdown(e, "mem", m, float(x)) for m in MONTHS for x in e.xs]
    inside = sum(1 <= r <= 1.15 for r in ratios)
    return inside == len(ratios), f"in range at {inside} of {len(ratios)} points; CPU/MEM {_range(ratios)}"


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def _ratios(e: Evidence, x: float) -> list[float]:
    """Of CPU's slowdown to MEM's, HP's and HT's, trace AUGUST."""
    return [_slowdown(e, "cpu", "august", x) / _slowdown(e, p, "august", x) for p in KNOWN_LINES[1:]]


def _order(e: Evidence, x: float) -> bool:
    """HP best, then HT, MEM, CPU, each difference with its sign."""
    lines = [f"{p} august" for p in ("cpu-mem-hp", "cpu-mem-ht", "mem", "cpu")]
    return all(less(e.difference(a, b, x, _M)) for a, b in pairwise(lines))


def at_rate(x: float, wanted: Sequence[float]) -> Test:
    """AUGUST at one page fault rate."""

    def test(e: Evidence) -> Found:
        ratios = _ratios(e, x)
        near = all(abs(r / w - 1) <= 0.25 for r, w in zip(ratios, wanted, strict=True))
        return near and _order(e, x), f"CPU / MEM, HP, HT: {numbers(ratios, '.2f')}; in this order: {_order(e, x)}"

    return test


def larger_at_eight(e: Evidence) -> Found:
    """The same at rate 8, and larger than at 4."""
    holds, shown = at_rate(8.0, (1.09, 2.03, 1.75))(e)
    larger = [a > b for a, b in zip(_ratios(e, 8.0), _ratios(e, 4.0), strict=True)]
    return holds and all(larger), f"{shown}; larger than at 4: {larger}"


def cpu_time(e: Evidence) -> Found:
    cpu = [
        e.mean(p, x, "service_s").mean / e.mean("cpu", x, "service_s").mean - 1 for p in KNOWN_LINES for x in e.xs
    ]  # fmt: skip
    moved = [e.mean(p, x, "migration_s").mean / e.mean(p, x, "response_s").mean for p in KNOWN_LINES for x in e.xs]
    holds = max(map(abs, cpu)) <= 0.01 and max(moved) < 0.01
    return holds, f"CPU time differs by at most {max(map(abs, cpu)):.2%}, migration is at most {max(moved):.2g} of all"


def reduction(metric: str, wanted: Sequence[float], within: float) -> Test:
    """Of a time over policy CPU in AUGUST at rate 6, by MEM, HP and HT, in percent."""

    def test(e: Evidence) -> Found:
        cpu = e.mean("cpu", "august", metric).mean
        found = [100 * (1 - e.mean(p, "august", metric).mean / cpu) for p in KNOWN_LINES[1:]]
        order = less(e.difference("cpu-mem-hp", "mem", "august", metric)) and less(
            e.difference("cpu-mem-ht", "mem", "august", metric)
        )
        near = all(abs(f - w) <= within for f, w in zip(found, wanted, strict=True))
        return near and order, f"MEM, HP, HT: {numbers(found)} % less; HP and HT below MEM: {order}"

    return test


def high_performance(e: Evidence) -> Found:
    points = [(month, float(x)) for month in MONTHS for x in e.xs]
    better = {p for p in points if _slowdown(e, "cpu-mem-hp", *p) <= _slowdown(e, "cpu-mem-ht", *p)}
    surely = [p for p in points if less(e.difference(f"cpu-mem-hp {p[0]}", f"cpu-mem-ht {p[0]}", p[1], _M))]
    named = [("july", 5.0), ("july", 6.0), ("june", 4.0), ("august", 7.0)]
    turned = [f"{month} {x:g}" for month, x in named if (month, x) not in better]
    shown = f"HP best at {len(better)} of {len(points)} points, with its sign at {len(surely)}"
    return len(points) / 2 < len(better) < len(points), f"{shown}; HT at these of the four named: {turned or 'none'}"
