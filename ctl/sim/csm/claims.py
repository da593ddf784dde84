# SPDX-License-Identifier: GPL-2.0-or-later
"""CSM's claims as tests of the measurements (results/csm.md). Each test returns whether the claim holds, and the
numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from statistics import mean

from ctl.sim.claim import Claim, Test, by_reading
from ctl.sim.claim import Found as _Found
from ctl.sim.csm import claims_trials as trials
from ctl.sim.evidence import Evidence, about, less
from ctl.sim.intervals import Mean, paired, slope
from ctl.sim.params import Value

__all__ = ["CLAIMS"]

_LINES = ("rr", "pred", "csm")
_HIGH, _LOW = (20, 50), (500, 1000)  # the grid's thirds: high and low message frequency


def _at(xs: Sequence[Value], e: Evidence) -> str:
    return f"at {len(xs)} of {len(e.xs)} points"


# --- memory fits: Figs. 5 and 6 ---


def _over_75(e: Evidence) -> _Found:
    least = {line: min(e.mean(line, x, "correlation").mean for x in e.xs) for line in e.experiment.lines}
    return min(least.values()) > 75, "least over pdt: " + ", ".join(f"{n} {v:.1f}" for n, v in least.items())


def _slope(e: Evidence, line: str, metric: str) -> Mean:
    return slope([float(x) for x in e.xs], [e.column(line, x, metric) for x in e.xs])


def _dyn_flat(e: Evidence) -> _Found:
    means = [e.mean("dyn", x, "correlation").mean for x in e.xs]
    change, spread = _slope(e, "dyn", "correlation"), max(means) - min(means)
    return change.low <= 0 <= change.high or spread < 5, f"slope {change}, range {spread:.1f} points"


def _fall(e: Evidence) -> _Found:
    slopes = {line: _slope(e, line, "correlation") for line in ("rr", "csm")}
    return all(less(s) for s in slopes.values()), ", ".join(f"slope {n} {s}" for n, s in slopes.items())


def _best_low(e: Evidence) -> _Found:
    best = [x for x in e.less_at("rr", "csm", "correlation") if x in e.less_at("dyn", "csm", "correlation")]
    return len(best) == len(e.xs), f"{_at(best, e)}; {e.show('correlation', 'rr', 'dyn', 'csm')}"


def _parallel_low(e: Evidence) -> _Found:
    m = "slowdown_parallel"
    best = [x for x in e.less_at("csm", "dyn", m) if x in e.less_at("dyn", "rr", m)]
    return len(best) == len(e.xs), f"{_at(best, e)}; {e.show(m, 'rr', 'dyn', 'csm')}"


def _local_low(e: Evidence) -> _Found:
    m = "slowdown_local"
    xs = [x for x in e.xs if x != 1.0]  # there are no local jobs at pdt 1
    above = [x for x in e.less_at("rr", "dyn", m, xs) if x in e.less_at("rr", "csm", m, xs)]
    near = e.about_at("csm", "dyn", m, xs)
    shown = f"rr least at {len(above)}, csm and dyn alike at {len(near)} of {len(xs)} points"
    return len(above) == len(near) == len(xs), f"{shown}; {e.show(m, 'rr', 'dyn', 'csm')}"


def _promotes(e: Evidence) -> _Found:
    per = {line: [mean(_per(e, line, x)) for x in e.xs] for line in ("dyn", "csm")}
    fewer = e.less_at("dyn", "csm", "promotions")
    more = [x for x in e.xs if less(paired(_per(e, "csm", x), _per(e, "dyn", x)))]
    text = f"fewer promotions {_at(fewer, e)}, more passed per promotion {_at(more, e)} (dyn {mean(per['dyn']):.2f}, "
    return len(fewer) == len(more) == len(e.xs), text + f"csm {mean(per['csm']):.2f})"


def _per(e: Evidence, line: str, x: Value) -> list[float]:
    pairs = zip(e.column(line, x, "passed"), e.column(line, x, "promotions"), strict=True)
    return [(passed or 0) / max(promotions or 0, 1) for passed, promotions in pairs]


def _calibrated(low: Evidence, medium: Evidence, high: Evidence) -> _Found:
    found = [
        low.mean("rr", 0.5, "tasks_per_node").mean,
        medium.mean("rr", 100, "tasks_per_node").mean,
        high.mean("rr", 100, "tasks_per_node").mean,
    ]
    loads = [low.mean("rr", 0.5, "mem_load").mean, *(e.mean("rr", 100, "mem_load").mean for e in (medium, high))]
    holds = all(abs(f - wanted) <= 0.2 for f, wanted in zip(found, (2.8, 3.2, 4.1), strict=True))
    pairs = ", ".join(f"{t:.2f} at {m:.2f}" for t, m in zip(found, loads, strict=True))
    return holds, f"tasks per node {pairs}; the last two are what the rates were calibrated to"


# --- MNOD: Fig. 7 ---


def _mnod_flat(e: Evidence) -> _Found:
    same, all_ = 0, 0
    for x in e.xs:
        for metric in ("slowdown_small", "slowdown_large"):
            for n in (5, 6):
                all_ += 1
                same += about(e.difference(f"MNOD {n}", "MNOD 4", x, metric), e.mean("MNOD 4", x, metric).mean)
    return same == all_, f"MNOD 5 and 6 as 4 at {same} of {all_} points"


def _mnod_trades(e: Evidence) -> _Found:
    metrics = ("slowdown_small", "slowdown_large")
    ends = {m: [Mean.of(_all(e, f"MNOD {n}", m)).mean for n in range(1, 7)] for m in metrics}
    change = {m: paired(_all(e, "MNOD 6", m), _all(e, "MNOD 1", m)) for m in metrics}
    shown = "; ".join(f"{m[9:]} MNOD 1 to 6: {_two(vs)} ({change[m]})" for m, vs in ends.items())
    return less(change["slowdown_small"]) and change["slowdown_large"].low > 0, shown


def _all(e: Evidence, line: str, metric: str) -> list[float | None]:
    """Means over the x axis, by replication."""
    rows = zip(*(e.column(line, x, metric) for x in e.xs), strict=True)
    return [mean(known) if (known := [v for v in row if v is not None]) else None for row in rows]


def _frequency_helps(e: Evidence) -> _Found:
    """Slowdown falls with frequency: it rises with the mean time between messages."""
    texts, holds = [], []
    for metric in ("slowdown_small", "slowdown_large"):
        s = slope([float(i) for i in range(len(e.xs))], [e.column("MNOD 2", x, metric) for x in e.xs])
        holds.append(s.low > 0)
        texts.append(f"{metric[9:]} {s} a step to a lower frequency")
    return all(holds), ", ".join(texts)


def _mnod_two(e: Evidence) -> _Found:
    combined = {}
    for n in range(1, 7):
        small, large = (Mean.of(_all(e, f"MNOD {n}", f"slowdown_{c}")).mean for c in ("small", "large"))
        combined[n] = small + large
    best = min(combined, key=lambda n: combined[n])
    return best in (1, 2, 3), f"least small + large at MNOD {best}: " + " ".join(f"{v:.2f}" for v in combined.values())


# --- mem_load 1 and 1.5: Figs. 8 to 12 ---


def _in_the_mean(e: Evidence, metric: str, sign: int = 1) -> str:
    """How often csm is best (least, or most with sign -1) whether or not the interval excludes zero."""
    best = [x for x in e.xs if min(_LINES, key=lambda p: sign * e.mean(p, x, metric).mean) == "csm"]
    return f"in the mean at {len(best)}"


def _faults(e: Evidence) -> _Found:
    m = "mean_pg_fault"
    best = [x for x in e.less_at("csm", "rr", m) if x in e.less_at("csm", "pred", m)]
    near = e.about_at("rr", "pred", m)
    shown = f"csm least {_at(best, e)}, {_in_the_mean(e, m)}, rr as pred {_at(near, e)}; {e.show(m, *_LINES)}"
    return len(best) == len(near) == len(e.xs), shown


def _faults_high(e: Evidence) -> _Found:
    m = "mean_pg_fault"
    best = [x for x in e.less_at("csm", "rr", m) if x in e.less_at("csm", "pred", m)]
    return len(best) == len(e.xs), f"csm least {_at(best, e)}, {_in_the_mean(e, m)}; {e.show(m, 'rr', 'pred', 'csm')}"


def _correlation(e: Evidence) -> _Found:
    m = "correlation"
    top, low = e.less_at("pred", "csm", m, _HIGH), e.less_at("csm", "pred", m, _LOW)
    worst = [x for x in e.less_at("rr", "csm", m) if x in e.less_at("rr", "pred", m)]
    holds = bool(top and low) and len(worst) == len(e.xs)
    shown = f"csm above pred at {top} ms, pred above csm at {low} ms, rr worst {_at(worst, e)}"
    return holds, f"{shown}; {e.show(m, 'rr', 'pred', 'csm')}"


def _correlation_high(e: Evidence) -> _Found:
    m = "correlation"
    best = [x for x in e.less_at("rr", "csm", m) if x in e.less_at("pred", "csm", m)]
    steps = [float(i) for i in range(len(e.xs))]
    rises = [slope(steps, [e.column(p, x, m) for x in e.xs]).low > 0 for p in ("rr", "pred")]
    shown = f"csm best {_at(best, e)}, {_in_the_mean(e, m, -1)}, rr and pred suffer with frequency: {rises}"
    return len(best) == len(e.xs) and all(rises), f"{shown}; {e.show(m, 'rr', 'pred', 'csm')}"


def _small_medium(e: Evidence) -> _Found:
    m = "slowdown_small"
    top = [x for x in e.less_at("csm", "rr", m, _HIGH) if x in e.less_at("csm", "pred", m, _HIGH)]
    near = e.about_at("csm", "pred", m, _LOW)
    return len(top) == len(near) == 2, f"csm best at {top}, as pred at {near} ms; {e.show(m, 'rr', 'pred', 'csm')}"


def _large_medium(e: Evidence) -> _Found:
    worse = [
        x
        for x in e.xs
        if all(e.mean(p, x, "slowdown_large").mean > 1.5 * e.mean(p, x, "slowdown_small").mean for p in _LINES)
    ]
    near = e.about_at("csm", "pred", "slowdown_large")
    shown = f"large > 1.5 small {_at(worse, e)}, csm as pred {_at(near, e)}"
    return len(worse) == len(near) == len(e.xs), f"{shown}; {e.show('slowdown_large', *_LINES)}"


def _best(metric: str) -> Callable[[Evidence], _Found]:
    def test(e: Evidence) -> _Found:
        best = [x for x in e.less_at("csm", "rr", metric) if x in e.less_at("csm", "pred", metric)]
        return len(best) == len(e.xs), f"{_at(best, e)}, {_in_the_mean(e, metric)}; {e.show(metric, *_LINES)}"

    return test


def _local_order(*es: Evidence) -> _Found:
    m, texts, holds = "slowdown_local", [], []
    for e in es:
        above = [
            x for x in e.xs
            if all(0 <= e.mean(p, x, m).mean / e.mean("rr", x, m).mean - 1 <= 0.15 for p in ("pred", "csm"))
        ]  # fmt: skip
        holds.append(len(above) == len(e.xs))
        texts.append(f"{_at(above, e)} ({e.show(m, 'rr', 'pred', 'csm')})")
    return all(holds), " and ".join(texts)


def _local_bound(e: Evidence) -> _Found:
    most = max(e.mean(p, x, "slowdown_local").mean for p in e.experiment.lines for x in e.xs)
    return most <= 4.25, f"at most {most:.2f}"


def _local_same(*es: Evidence) -> _Found:
    m = "slowdown_local"
    ratios = [e.mean("csm", x, m).mean / e.mean("pred", x, m).mean for e in es for x in e.xs]
    return all(0.9 <= r <= 1.1 for r in ratios), f"CSM/PRED {min(ratios):.2f} to {max(ratios):.2f}"


def _local_worse(medium: Evidence, high: Evidence) -> _Found:
    counts, texts = 0, []
    for p in ("rr", "pred", "csm"):
        d = paired(_all(medium, p, "slowdown_local"), _all(high, p, "slowdown_local"))
        counts += less(d)
        texts.append(f"{p} {-d.mean:+.2f} ± {d.half:.2f}")
    return counts == 3, "1.5 against 1.0: " + ", ".join(texts)


def _mnol(e: Evidence) -> _Found:
    means = [e.mean("csm", x, "slowdown_local").mean for x in e.xs]
    rises = paired(e.column("csm", 6, "slowdown_local"), e.column("csm", 2, "slowdown_local"))
    holds = rises.low > 0 and all(a <= b * 1.01 for a, b in itertools.pairwise(means))
    return holds, f"MNOL {_list_of(e.xs)}: {' '.join(f'{m:.2f}' for m in means)}"


def _two(values: Iterable[float]) -> str:
    return " ".join(f"{v:.2f}" for v in values)


def _list_of(xs: Sequence[Value]) -> str:
    return " ".join(map(str, xs))


def _p_sweep(e: Evidence) -> _Found:
    means = {x: e.mean("pred", x, "slowdown_parallel").mean for x in e.xs}
    shown = " ".join(f"{x}: {v:.3f}" for x, v in means.items())
    return means[0.3] <= 1.05 * min(means.values()), f"slowdown by P: {shown}"


def _switches(e: Evidence) -> _Found:
    found = {m: e.difference("csm", "pred", 0.1, m) for m in ("faults", "switches")}
    shown = ", ".join(f"{m} {d.mean / e.mean('pred', 0.1, m).mean:+.1%}" for m, d in found.items())
    return all(less(d) for d in found.values()), f"csm against pred: {shown}"


def _cascades(e: Evidence) -> _Found:
    """The job's delay for each fault, relative to a fault's time, under rr; pred, equal to csm here, is reported."""
    m, rare = "last_beside", e.xs[-2:]
    high = [x for x in _HIGH if e.mean("rr", x, m).low > 1.5]
    low = [x for x in rare if _about_one(e.mean("rr", x, m))]
    alone = [e.mean("rr", x, "last_alone").mean for x in e.xs]
    shown = f"above 1.5 at {high} ms, about 1 at {low} of {rare} ms; {e.show(m, 'rr', 'pred')}; "
    shown += f"its first task to end, {e.show('first_beside', 'rr')}; by itself rr {min(alone):.2f} to {max(alone):.2f}"
    return len(high) == len(_HIGH) and len(low) == len(rare), shown


def _about_one(m: Mean) -> bool:
    return m.low <= 1 <= m.high or abs(m.mean - 1) <= 0.1


_cascade = by_reading(_cascades, ("four times as many faults",))


_FORTY = ("csm-cascade", "csm-cascade-often")
_EIGHT, _TEN = ("csm-fig8",), ("csm-fig10",)
_BOTH = ("csm-fig8", "csm-fig10")
_TOY, _FOUR = (tuple(f"{name}{reading}" for reading in trials.READINGS) for name in ("csm-toy", "csm-fig4"))
_by = trials.by_reading
_REAL = "a measurement of real Linux nodes, not of this model"

_ROWS: tuple[tuple[str, str, str, tuple[str, ...], Test | None], ...] = (
    ("CSM-1", "COS beats Linux for MG when memory suffices", _REAL, (), None),
    ("CSM-2", "paging wipes out the benefit of coscheduling", _REAL, (), None),
    ("CSM-3", "no memory policy: L ends first, then J1", "L < J1 < J2 under rr", _TOY, _by(trials.toy_order)),
    ("CSM-4", "with one: J1 22 % earlier, J2 too, L as before", "-22 ± 10 %, ± 5 %, < 0", _TOY, _by(trials.toy_policy)),
    ("CSM-5", "J2 is slower at first, then faster", "CPU curves cross", _TOY, _by(trials.cross)),
    ("CSM-6", "PRED favours distributed tasks", "CPU rate J > L", _FOUR, _by(trials.favoured)),
    ("CSM-7", "PRED: they gain CPU and memory when the locals end", "both rise", _FOUR, _by(trials.rise)),
    ("CSM-8", "CSM: J1 has far more of both than J2", "CPU > 2 times, resident", _FOUR, _by(trials.much_more)),
    ("CSM-9", "J1 ends at 5,400 s, under PRED at 8,472 s", "ratio 0.64 ± 0.15", _FOUR, _by(trials.j1_time)),
    ("CSM-10", "J2's response is a little better", "0 to 15 % less", _FOUR, _by(trials.j2_time)),
    ("CSM-11", "mem_load 0.7: all correlate above 75 %", "least > 75", ("csm-fig5",), _over_75),
    ("CSM-12", "DYN's correlation does not depend on pdt", "slope CI holds 0, or range < 5", ("csm-fig5",), _dyn_flat),
    ("CSM-13", "RR's and CSM's correlation fall with pdt", "slope < 0", ("csm-fig5",), _fall),
    ("CSM-14", "CSM correlates best at every pdt", "sign at each pdt", ("csm-fig5",), _best_low),
    ("CSM-15", "parallel slowdown: CSM best, RR worst", "CSM < DYN < RR at each pdt", ("csm-fig6",), _parallel_low),
    ("CSM-16", "local slowdown: DYN as CSM, a little above RR", "RR least, CSM as DYN", ("csm-fig6",), _local_low),
    ("CSM-17", "DYN promotes more rarely, and past more tasks", "signs at each pdt", ("csm-fig6",), _promotes),
    ("CSM-18", "mem_load 0.7, 1, 1.5: 2.8, 3.2, 4.1 tasks on a node", "± 0.2", ("csm-fig5", *_BOTH), _calibrated),
    ("CSM-19", "MNOD above the tasks on a node has no effect", "MNOD 5, 6 as 4", ("csm-fig7",), _mnod_flat),
    ("CSM-20", "MNOD trades large jobs against small ones", "signs (B-CSM-21)", ("csm-fig7",), _mnod_trades),
    ("CSM-21", "slowdown falls with message frequency", "slope", ("csm-fig7",), _frequency_helps),
    ("CSM-22", "MNOD 2 is the compromise", "argmin in 1 to 3", ("csm-fig7",), _mnod_two),
    ("CSM-23", "mem_load 1: CSM faults least, RR as PRED", "signs, within 10 %", _EIGHT, _faults),
    ("CSM-24", "correlation: CSM best at high, PRED at low frequency, RR worst", "crossing", _EIGHT, _correlation),
    ("CSM-25", "small jobs: CSM best at high frequency, as PRED at low", "thirds of the grid", _EIGHT, _small_medium),
    ("CSM-26", "large jobs: much worse than small; CSM as PRED", "> 1.5 times, within 10 %", _EIGHT, _large_medium),
    ("CSM-27", "mem_load 1.5: CSM faults least", "sign at each point", _TEN, _faults_high),
    ("CSM-28", "CSM correlates best; RR, PRED suffer with frequency", "signs, slopes", _TEN, _correlation_high),
    ("CSM-29", "CSM is best for small jobs", "sign at each point", _TEN, _best("slowdown_small")),
    ("CSM-30", "CSM is best for large jobs", "sign at each point", _TEN, _best("slowdown_large")),
    ("CSM-31", "local tasks: RR best, CSM and PRED close", "0 to 15 % above RR", _BOTH, _local_order),
    ("CSM-32", "local slowdown below 4.25 at mem_load 1", "most <= 4.25", _EIGHT, _local_bound),
    ("CSM-33", "CSM and PRED cost local tasks the same", "within 10 %", _BOTH, _local_same),
    ("CSM-34", "local tasks are worse off at mem_load 1.5", "sign for each policy", _BOTH, _local_worse),
    ("CSM-35", "MNOL above 2 hurts local tasks", "slowdown rises with MNOL", ("csm-mnol",), _mnol),
    ("CSM-36", "equal memory: first come, first served", "ends in order of arrival", ("csm-equal",), trials.fifo),
    ("CSM-37", "overloaded, CSM puts small jobs first", "CPU time falls with size", ("csm-sizes",), trials.small_first),
    ("CSM-38", "P = 0.3 is a good choice", "within 5 % of the best P", ("csm-p",), _p_sweep),
    ("CSM-39", "CSM switches less than PRED", "fewer faults and switches", ("csm-switch",), _switches),
    ("CSM-40", "a fault cascades where tasks talk often", "> 1.5 faults at 20, 50 ms; 1 from 10 s", _FORTY, _cascade),
)

CLAIMS: tuple[Claim, ...] = tuple(Claim(*row) for row in _ROWS)
