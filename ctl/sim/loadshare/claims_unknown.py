# SPDX-License-Identifier: GPL-2.0-or-later
"""LoadShare's claims about unknown memory demands, §3.5 to §3.7, as tests of the measurements: results/loadshare.md."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ctl.sim.claim import Found, Test
from ctl.sim.evidence import Evidence, less
from ctl.sim.intervals import paired
from ctl.sim.loadshare.experiments import MT, UNKNOWN_LINES
from ctl.sim.loadshare.programs import TRACES
from ctl.sim.loadshare.readings import argmin, numbers, percents
from ctl.sim.params import Value

__all__ = [
    "about_zero",
    "above_combined",
    "age_stable",
    "beats_blocking",
    "best_everywhere",
    "blocked",
    "completed",
    "faster_others",
    "faster_worksize",
    "irregular",
    "less_migration",
    "migration_trends",
    "minima",
    "paging_order",
    "paging_rises",
    "queue_flat",
    "queue_order",
    "recommended",
    "spec",
    "sweep_combined",
    "worksize_third",
]

_M = "slowdown"
_T1, _T2, _T3 = TRACES
_OTHERS = ("pf-rate", "worksize", "age")


def _mean(e: Evidence, line: str, x: Value, metric: str = _M) -> float:
    return e.mean(line, x, metric).mean


def _over_combined(e: Evidence, line: str) -> list[float]:
    """How much higher a policy's slowdown is than combined's, by trace."""
    return [_mean(e, line, x) / _mean(e, "combined", x) - 1 for x in TRACES]


def _sweep(e: Evidence, line: str, metric: str) -> list[float]:
    """Means over MT."""
    return [_mean(e, line, x, metric) for x in e.xs]


def _range_of(values: Sequence[float]) -> float:
    """Highest above lowest."""
    return max(values) / min(values) - 1 if min(values) > 0 else float("inf")


def _below(e: Evidence, low: Sequence[str], high: Sequence[str], x: Value, metric: str) -> bool:
    """Is each of the first below each of the others, with its sign?"""
    return all(less(e.difference(a, b, x, metric)) for a in low for b in high)


# --- Fig. 4: the policies ---


def completed(e: Evidence) -> Found:
    shares = [_mean(e, "none", x, "done") / trace.jobs for x, trace in TRACES.items()]
    near = all(abs(s - w) <= 0.08 for s, w in zip(shares, (0.72, 0.93, 0.95), strict=True))
    rises = all(less(paired(_done(e, a), _done(e, b))) for a, b in pairwise(TRACES))
    return near and rises, f"{numbers(100 * s for s in shares)} % of the jobs, traces 1 to 3; rises: {rises}"


def _done(e: Evidence, x: Value) -> list[float]:
    """The part of a trace's jobs that completed, by replication."""
    return [float(done or 0) / TRACES[str(x)].jobs for done in e.column("none", x, "done")]


def blocked(e: Evidence) -> Found:
    found, wanted = [_mean(e, "blocking", x) for x in TRACES], (37.88, 25.58, 22.25)
    falls = found[0] > found[1] > found[2]
    near = all(abs(f / w - 1) <= 0.4 for f, w in zip(found, wanted, strict=True))
    return falls and near, f"{numbers(found)}; falls: {falls}"


def beats_blocking(e: Evidence) -> Found:
    ratios = [_mean(e, "blocking", x) / _mean(e, p, x) for x in TRACES for p in UNKNOWN_LINES]
    inside = sum(2 <= r <= 12 for r in ratios)
    by_trace = [f"{min(of):.1f} to {max(of):.1f}" for of in (ratios[:4], ratios[4:8], ratios[8:])]
    return inside == len(ratios), f"in range {inside} of {len(ratios)} times; by trace {', '.join(by_trace)}"


def best_everywhere(e: Evidence) -> Found:
    surely = [x for x in TRACES if _below(e, ("combined",), _OTHERS, x, _M)]
    lowest = [x for x in TRACES if min(UNKNOWN_LINES, key=lambda p: _mean(e, p, x)) == "combined"]
    means = "; ".join(f"{x} {numbers(_mean(e, p, x) for p in UNKNOWN_LINES)}" for x in TRACES)
    return len(surely) == 3, f"lowest with its sign on {len(surely)}, in the mean on {len(lowest)} of 3 traces; {means}"


def above_combined(line: str, wanted: Sequence[float]) -> Test:
    """A policy's slowdown over combined's: falling from trace to trace, and near what the paper found."""

    def test(e: Evidence) -> Found:
        found = _over_combined(e, line)
        near = all(abs(f - w) <= 0.3 for f, w in zip(found, wanted, strict=True))
        return near and found[0] > found[1] > found[2], percents(found)

    return test


def worksize_third(e: Evidence) -> Found:
    found = _over_combined(e, "worksize")
    third = [_mean(e, "worksize", _T3) / _mean(e, p, _T3) - 1 for p in ("pf-rate", "age", "combined")]
    near = all(abs(f - 0.3) <= 0.3 for f in found[:2]) and min(third) >= 0.3
    return near and found[2] == max(found), f"{percents(found)}; trace 3, over the three others: {percents(third)}"


def age_stable(e: Evidence) -> Found:
    found = _over_combined(e, "age")
    return all(0 <= f <= 0.45 for f in found), percents(found)


def paging_order(e: Evidence) -> Found:
    m = "paging_s"
    highest = _below(e, ("worksize", "age", "combined"), ("pf-rate",), _T1, m)
    lowest = _below(e, ("worksize", "combined"), ("age", "pf-rate"), _T1, m)
    shown = f"pf-rate highest: {highest}, worksize and combined lowest: {lowest}"
    return highest and lowest, f"{shown}; {_four(e, m)}"


def _four(e: Evidence, metric: str) -> str:
    return ", ".join(f"{p} {_mean(e, p, _T1, metric):.3g}" for p in UNKNOWN_LINES) + " s"


def queue_order(e: Evidence) -> Found:
    queue = _below(e, ("worksize", "combined"), ("age", "pf-rate"), _T1, "queue_s")
    moved = _below(e, ("combined",), ("worksize",), _T1, "migration_s") and _below(
        e, ("age", "pf-rate"), ("combined",), _T1, "migration_s"
    )
    shown = f"queuing order: {queue}, migration order: {moved}"
    return queue and moved, f"{shown}; queuing {_four(e, 'queue_s')}; migration {_four(e, 'migration_s')}"


# --- Figs. 5 and 6: the memory threshold ---


def sweep_combined(e: Evidence) -> Found:
    means = _sweep(e, "combined", _M)
    flat = _range_of(means[1:4]) <= 0.1
    best = argmin(e, "combined", _M)
    holds = best in MT[1:4] and flat and means[0] > means[1] and means[4] > means[3]
    return holds, f"{numbers(means)}; least at {best} %, -5 to 5 within {_range_of(means[1:4]):.0%}"


def minima(e: Evidence) -> Found:
    found = argmin(e, "age", _M), argmin(e, "worksize", _M)
    sweeps = "; ".join(f"{p} {numbers(_sweep(e, p, _M))}" for p in ("age", "worksize"))
    return found == (-5.0, 5.0), f"age least at {found[0]} %, worksize at {found[1]} %; {sweeps}"


def irregular(e: Evidence) -> Found:
    means = _sweep(e, "pf-rate", _M)
    steps = [b - a for a, b in pairwise(means)]
    return max(steps) > 0 > min(steps), f"{numbers(means)}"


def paging_rises(e: Evidence) -> Found:
    sweeps = {p: _sweep(e, p, "paging_s") for p in UNKNOWN_LINES}
    texts, holds = [], []
    for p in ("worksize", "age", "combined"):
        means = sweeps[p]
        rises, sharp = all(a < b for a, b in pairwise(means)), means[4] - means[3] > means[3] - means[0]
        holds += [rises, sharp]
        texts.append(f"{p} {numbers(means)}{'' if rises else ', not monotone'}{'' if sharp else ', not sharp at 15'}")
    pf = sweeps["pf-rate"]
    above = all(pf[i] > 1.15 * max(sweeps[p][i] for p in _OTHERS[1:]) for i in range(len(MT)))
    holds += [_range_of(pf) < 0.15, above]
    texts.append(f"pf-rate {numbers(pf)}, range {_range_of(pf):.0%}, above all others: {above}")
    return all(holds), "; ".join(texts)


def migration_trends(e: Evidence) -> Found:
    of = {p: _sweep(e, p, "migration_s") for p in UNKNOWN_LINES}
    flat = {p: _range_of(of[p]) for p in ("age", "pf-rate")}
    falls = of["worksize"][2] > of["worksize"][3] > of["worksize"][4]
    combined = all(a > b for a, b in pairwise(of["combined"]))
    all_ = "; ".join(f"{p} {numbers(means)}" for p, means in of.items())
    shown = f"age and pf-rate within {max(flat.values()):.0%}, worksize falls: {falls}, combined: {combined}; {all_}"
    return max(flat.values()) < 0.1 and falls and combined, shown


def queue_flat(e: Evidence) -> Found:
    of = {p: _sweep(e, p, "queue_s") for p in UNKNOWN_LINES}
    ranges = {p: _range_of(means) for p, means in of.items()}
    up = of["worksize"][4] > of["worksize"][2]
    shown = ", ".join(f"{p} {r:.0%}" for p, r in ranges.items())
    return max(ranges.values()) <= 0.2 and up, f"range over MT: {shown}; worksize higher at 15: {up}"


# --- Fig. 7: a faster network ---


def _change(slow: Evidence, fast: Evidence, line: str) -> list[float]:
    return [_mean(fast, line, x) / _mean(slow, line, x) - 1 for x in TRACES]


def faster_worksize(slow: Evidence, fast: Evidence) -> Found:
    found = _change(slow, fast, "worksize")
    return all(abs(f - w) <= 0.15 for f, w in zip(found, (-0.32, -0.25, -0.5), strict=True)), percents(found)


def faster_others(slow: Evidence, fast: Evidence) -> Found:
    changes = {line: _change(slow, fast, line) for line in ("combined", "age", "pf-rate", "blocking")}
    holds = all(abs(c) < 0.1 for of in changes.values() for c in of) and all(c <= 0 for c in changes["combined"])
    return holds, "; ".join(f"{line} {percents(of)}" for line, of in changes.items())


def less_migration(slow: Evidence, fast: Evidence) -> Found:
    cut = {p: sum(_sweep(fast, p, "migration_s")) / sum(_sweep(slow, p, "migration_s")) - 1 for p in UNKNOWN_LINES}
    holds = cut["worksize"] < cut["combined"] < min(cut["age"], cut["pf-rate"])
    return holds, ", ".join(f"{p} {c:+.0%}" for p, c in cut.items())


# --- Figs. 8 to 11, and §3.7 ---


def spec(fig8: Evidence, fig9: Evidence, fig10: Evidence, fig11: Evidence) -> Found:
    parts = {
        "load sharing 2 to 12 times better than blocking": beats_blocking(fig8)[0],
        "combined best at 100 Mbps": best_everywhere(fig8)[0],
        "combined best at 10 Mbps": best_everywhere(fig11)[0],
        "combined over MT": sweep_combined(fig9)[0],
        "paging over MT": paging_rises(fig9)[0],
        "migration over MT": migration_trends(fig10)[0],
        "queuing over MT": queue_flat(fig10)[0],
    }
    means = "; ".join(f"{x} {numbers(_mean(fig8, p, x) for p in fig8.experiment.lines)}" for x in TRACES)
    said = ", ".join(f"{part}: {holds}" for part, holds in parts.items())
    return all(parts.values()), f"{said}; slowdowns at 100 Mbps, blocking last: {means}"


def about_zero(*es: Evidence) -> Found:
    """MT of the least slowdown, mean of the four policies: of the seven programs, then of SPEC."""
    best = [min(MT, key=lambda mt: sum(_mean(e, p, mt) for p in UNKNOWN_LINES)) for e in es]
    means = ["/".join(f"{sum(_mean(e, p, mt) for p in UNKNOWN_LINES) / 4:.3g}" for mt in MT) for e in es]
    return all(-5 <= mt <= 5 for mt in best), f"least at {numbers(best)} %; by MT {', '.join(means)}"


def recommended(slow: Evidence, fast: Evidence) -> Found:
    best = {x: min(_mean(slow, p, x) for p in UNKNOWN_LINES) for x in TRACES}
    best_fast = {x: min(_mean(fast, p, x) for p in UNKNOWN_LINES) for x in TRACES}
    parts = {
        "pf-rate worst at the high rate": _below(slow, ("worksize", "age", "combined"), ("pf-rate",), _T1, _M),
        "age within 30 % at the others": all(_mean(slow, "age", x) <= 1.3 * best[x] for x in (_T2, _T3)),
        "worksize within 30 % on the fast network only": all(
            _mean(fast, "worksize", x) <= 1.3 * best_fast[x] for x in TRACES
        )
        and any(_mean(slow, "worksize", x) > 1.3 * best[x] for x in TRACES),
        "combined within 5 % everywhere": all(
            _mean(e, "combined", x) <= 1.05 * of[x] for e, of in ((slow, best), (fast, best_fast)) for x in TRACES
        ),
    }
    return all(parts.values()), ", ".join(f"{part}: {holds}" for part, holds in parts.items())
