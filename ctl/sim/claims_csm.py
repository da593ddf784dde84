# SPDX-License-Identifier: GPL-2.0-or-later
"""CSM's claims as tests of the measurements (spec.md C.1). Each test returns whether it holds, and the numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean

from ctl.sim.evidence import Evidence, about, less
from ctl.sim.intervals import Mean, paired, slope
from ctl.sim.params import Value

__all__ = ["ROWS"]

_Found = tuple[bool, str]
_HIGH, _LOW = (20, 50), (500, 1000)  # the grid's thirds: high and low message frequency


def _at(xs: Sequence[Value], e: Evidence) -> str:
    return f"at {len(xs)} of {len(e.xs)} points"


# --- given jobs: Figs. 2 and 4 ---


def _response(e: Evidence, line: str, job: str) -> list[float]:
    return [r["response_s"][job] for r in e.results(line)]


def _value(e: Evidence, line: str, job: str, at_s: float, what: int) -> list[float]:
    """CPU seconds (1) or resident pages (2) of a job's task on N1 at a time; of the last sample where it has ended."""
    columns = []
    for result in e.results(line):
        trace = result["traces"][job]
        columns.append(next((sample[what] for sample in trace if sample[0] >= at_s), trace[-1][what]))
    return columns


def _toy_order(e: Evidence) -> _Found:
    times = {job: mean(_response(e, "rr", job)) for job in ("L", "J1", "J2")}
    shown = ", ".join(f"{job} {t:.0f} s" for job, t in times.items())
    return times["L"] < times["J1"] < times["J2"], f"rr: {shown}"


def _toy_policy(e: Evidence) -> _Found:
    change = {j: mean(_response(e, "csm", j)) / mean(_response(e, "rr", j)) - 1 for j in ("J1", "J2", "L")}
    holds = abs(change["J1"] + 0.22) <= 0.1 and abs(change["L"]) <= 0.05 and change["J2"] < 0
    return holds, "csm against rr: " + ", ".join(f"{j} {c:+.0%}" for j, c in change.items())


def _toy_cross(e: Evidence) -> _Found:
    """J2's CPU time under csm is below that under rr while J1 runs, and above it at rr's end of J1."""
    early = less(paired(_value(e, "csm", "J2", 100, 1), _value(e, "rr", "J2", 100, 1)))
    end = mean(_response(e, "rr", "J1"))
    late = paired(_value(e, "csm", "J2", end, 1), _value(e, "rr", "J2", end, 1))
    return early and late.low > 0, f"slower at 100 s: {early}; CPU time at {end:.0f} s, csm - rr: {late} s"


def _favoured(e: Evidence) -> _Found:
    at = 300.0
    jobs, locals_ = ([mean(_value(e, "pred", j, at, 1)) / at for j in pair] for pair in (("J1", "J2"), ("L1", "L2")))
    shown = " ".join(f"{r:.2f}" for r in (*jobs, *locals_))
    return min(jobs) > max(locals_), f"pred, CPU rates to 300 s, J1 J2 L1 L2: {shown}"


def _rise(e: Evidence) -> _Found:
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


def _much_more(e: Evidence) -> _Found:
    end = min(_response(e, "csm", "J1"))
    ratio = mean(_value(e, "csm", "J1", end, 1)) / mean(_value(e, "csm", "J2", end, 1))
    res = mean(_value(e, "csm", "J1", 40, 2))
    return ratio > 2 and res > 0.95 * 18432, f"CPU(J1)/CPU(J2) {ratio:.2f} at J1's end; res(J1) {res:.0f} of 18432 pages at 40 s"


def _j1_time(e: Evidence) -> _Found:
    csm, pred = mean(_response(e, "csm", "J1")), mean(_response(e, "pred", "J1"))
    return abs(csm / pred - 0.64) <= 0.15, f"J1(CSM)/J1(PRED) {csm / pred:.2f} ({csm:.0f} s, {pred:.0f} s)"


def _j2_time(e: Evidence) -> _Found:
    csm, pred = _response(e, "csm", "J2"), _response(e, "pred", "J2")
    change = mean(csm) / mean(pred) - 1
    return -0.15 < change <= 0, f"J2(CSM) against J2(PRED) {change:+.1%} ({mean(csm):.0f} s, {mean(pred):.0f} s)"


def _fifo(e: Evidence) -> _Found:
    orders = [sorted(r["response_s"], key=lambda j: r["response_s"][j] + r["arrived_s"][j]) for r in e.results("csm")]  # noqa: B023
    right = sum(order == ["J1", "J2", "J3"] for order in orders)
    ends = [[r["response_s"][j] + r["arrived_s"][j] for j in ("J1", "J2", "J3")] for r in e.results("csm")]
    shown = " ".join(f"{mean(column):.0f}" for column in zip(*ends, strict=True))
    return right == len(orders), f"{right} of {len(orders)} in order of arrival; mean ends {shown} s"


def _small_first(e: Evidence) -> _Found:
    jobs = ("J1", "J2", "J3")
    ends = {line: [mean(_response(e, line, j)) for j in jobs] for line in ("rr", "csm")}
    cpu = [mean(_value(e, "csm", j, 600, 1)) for j in jobs]
    holds = cpu[0] > cpu[1] > cpu[2]
    return holds, f"csm: CPU s at 600 s by size {' '.join(f'{c:.0f}' for c in cpu)}; ends {_list(ends['csm'])} (rr {_list(ends['rr'])}) s"


def _list(values: Sequence[float]) -> str:
    return " ".join(f"{v:.0f}" for v in values)


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
    return len(above) == len(near) == len(xs), f"rr least at {len(above)}, csm and dyn alike at {len(near)} of {len(xs)}"


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
    ends = {m: [Mean.of(_all(e, f"MNOD {n}", m)).mean for n in range(1, 7)] for m in ("slowdown_small", "slowdown_large")}
    change = {m: paired(_all(e, "MNOD 6", m), _all(e, "MNOD 1", m)) for m in ends}
    shown = "; ".join(f"{m[9:]} MNOD 1 to 6: {' '.join(f'{v:.2f}' for v in vs)} ({change[m]})" for m, vs in ends.items())
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


def _faults(e: Evidence) -> _Found:
    m = "mean_pg_fault"
    best = [x for x in e.less_at("csm", "rr", m) if x in e.less_at("csm", "pred", m)]
    near = e.about_at("rr", "pred", m)
    return len(best) == len(near) == len(e.xs), f"csm least {_at(best, e)}, rr as pred {_at(near, e)}; {e.show(m, 'rr', 'pred', 'csm')}"


def _faults_high(e: Evidence) -> _Found:
    m = "mean_pg_fault"
    best = [x for x in e.less_at("csm", "rr", m) if x in e.less_at("csm", "pred", m)]
    return len(best) == len(e.xs), f"csm least {_at(best, e)}; {e.show(m, 'rr', 'pred', 'csm')}"


def _correlation(e: Evidence) -> _Found:
    m = "correlation"
    top, low = e.less_at("pred", "csm", m, _HIGH), e.less_at("csm", "pred", m, _LOW)
    worst = [x for x in e.less_at("rr", "csm", m) if x in e.less_at("rr", "pred", m)]
    holds = bool(top and low) and len(worst) == len(e.xs)
    return holds, f"csm above pred at {top} ms, pred above csm at {low} ms, rr worst {_at(worst, e)}; {e.show(m, 'rr', 'pred', 'csm')}"


def _correlation_high(e: Evidence) -> _Found:
    m = "correlation"
    best = [x for x in e.less_at("rr", "csm", m) if x in e.less_at("pred", "csm", m)]
    rises = [slope([float(i) for i in range(len(e.xs))], [e.column(p, x, m) for x in e.xs]).low > 0 for p in ("rr", "pred")]
    return len(best) == len(e.xs) and all(rises), f"csm best {_at(best, e)}, suffers with frequency rr, pred: {rises}; {e.show(m, 'rr', 'pred', 'csm')}"


def _small_medium(e: Evidence) -> _Found:
    m = "slowdown_small"
    top = [x for x in e.less_at("csm", "rr", m, _HIGH) if x in e.less_at("csm", "pred", m, _HIGH)]
    near = e.about_at("csm", "pred", m, _LOW)
    return len(top) == len(near) == 2, f"csm best at {top}, as pred at {near} ms; {e.show(m, 'rr', 'pred', 'csm')}"


def _large_medium(e: Evidence) -> _Found:
    worse = [x for x in e.xs if all(e.mean(p, x, "slowdown_large").mean > 1.5 * e.mean(p, x, "slowdown_small").mean for p in ("rr", "pred", "csm"))]
    near = e.about_at("csm", "pred", "slowdown_large")
    return len(worse) == len(near) == len(e.xs), f"large > 1.5 small {_at(worse, e)}, csm as pred {_at(near, e)}; {e.show('slowdown_large', 'rr', 'pred', 'csm')}"


def _best(metric: str) -> Callable[[Evidence], _Found]:
    def test(e: Evidence) -> _Found:
        best = [x for x in e.less_at("csm", "rr", metric) if x in e.less_at("csm", "pred", metric)]
        return len(best) == len(e.xs), f"{_at(best, e)}; {e.show(metric, 'rr', 'pred', 'csm')}"

    return test


def _local_order(*es: Evidence) -> _Found:
    m, texts, holds = "slowdown_local", [], []
    for e in es:
        above = [
            x for x in e.xs
            if all(e.mean("rr", x, m).mean <= e.mean(p, x, m).mean <= 1.15 * e.mean("rr", x, m).mean for p in ("pred", "csm"))
        ]  # fmt: skip
        holds.append(len(above) == len(e.xs))
        texts.append(f"{_at(above, e)} ({e.show(m, 'rr', 'pred', 'csm')})")
    return all(holds), " and ".join(texts)


def _local_bound(e: Evidence) -> _Found:
    most = max(e.mean(p, x, "slowdown_local").mean for p in e.experiment.lines for x in e.xs)
    return most <= 4.25, f"at most {most:.2f}"


def _local_same(*es: Evidence) -> _Found:
    ratios = [e.mean("csm", x, "slowdown_local").mean / e.mean("pred", x, "slowdown_local").mean for e in es for x in e.xs]
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
    holds = rises.low > 0 and all(a <= b * 1.01 for a, b in zip(means, means[1:], strict=False))
    return holds, f"MNOL {_list_of(e.xs)}: {' '.join(f'{m:.2f}' for m in means)}"


def _list_of(xs: Sequence[Value]) -> str:
    return " ".join(map(str, xs))


def _p_sweep(e: Evidence) -> _Found:
    means = {x: e.mean("pred", x, "slowdown_parallel").mean for x in e.xs}
    return means[0.3] <= 1.05 * min(means.values()), "slowdown by P: " + " ".join(f"{x}: {v:.3f}" for x, v in means.items())


def _switches(e: Evidence) -> _Found:
    found = {m: e.difference("csm", "pred", 0.1, m) for m in ("faults", "switches")}
    shown = ", ".join(f"{m} {d.mean / e.mean('pred', 0.1, m).mean:+.1%}" for m, d in found.items())
    return all(less(d) for d in found.values()), f"csm against pred: {shown}"


_EIGHT, _TEN = ("csm-fig8",), ("csm-fig10",)
_BOTH = ("csm-fig8", "csm-fig10")
_REAL = "a measurement of real Linux nodes, not of this model"

ROWS: tuple[tuple[str, str, str, tuple[str, ...], Callable[..., _Found] | None], ...] = (
    ("CSM-1", "COS beats Linux for MG when memory suffices", _REAL, (), None),
    ("CSM-2", "paging wipes out the benefit of coscheduling", _REAL, (), None),
    ("CSM-3", "no memory policy: L ends before J1, J1 before J2", "L < J1 < J2 under rr", ("csm-toy",), _toy_order),
    ("CSM-4", "with one: J1 22 % earlier, L as before, J2 earlier", "J1 -22 ± 10 %, L ± 5 %, J2 < 0", ("csm-toy",), _toy_policy),
    ("CSM-5", "J2 is slower at first, then faster", "CPU curves cross", ("csm-toy",), _toy_cross),
    ("CSM-6", "PRED favours distributed tasks over local ones", "CPU rate J > L", ("csm-fig4",), _favoured),
    ("CSM-7", "PRED: their memory and CPU rise when the locals end", "both rise", ("csm-fig4",), _rise),
    ("CSM-8", "CSM: J1 has far more CPU and memory than J2", "CPU ratio > 2, J1 resident", ("csm-fig4",), _much_more),
    ("CSM-9", "J1 ends at 5,400 s under CSM, 8,472 s under PRED", "ratio 0.64 ± 0.15", ("csm-fig4",), _j1_time),
    ("CSM-10", "J2's response is slightly better than under PRED", "0 to 15 % less", ("csm-fig4",), _j2_time),
    ("CSM-11", "mem_load 0.7: all correlate above 75 %", "least > 75", ("csm-fig5",), _over_75),
    ("CSM-12", "DYN's correlation does not depend on pdt", "slope CI holds 0, or range < 5", ("csm-fig5",), _dyn_flat),
    ("CSM-13", "RR's and CSM's correlation fall with pdt", "slope < 0", ("csm-fig5",), _fall),
    ("CSM-14", "CSM correlates best at every pdt", "sign at each pdt", ("csm-fig5",), _best_low),
    ("CSM-15", "parallel slowdown: CSM best, RR worst", "CSM < DYN < RR at each pdt", ("csm-fig6",), _parallel_low),
    ("CSM-16", "local slowdown: DYN and CSM alike, a little above RR", "RR least, CSM as DYN", ("csm-fig6",), _local_low),
    ("CSM-17", "DYN promotes more rarely, and past more tasks", "signs at each pdt", ("csm-fig6",), _promotes),
    ("CSM-18", "mem_load 0.7, 1, 1.5: 2.8, 3.2, 4.1 tasks on a node", "± 0.2", ("csm-fig5", *_BOTH), _calibrated),
    ("CSM-19", "MNOD above the tasks on a node has no effect", "MNOD 5, 6 as 4", ("csm-fig7",), _mnod_flat),
    ("CSM-20", "MNOD trades large jobs against small ones", "small falls, large rises (B-CSM-21)", ("csm-fig7",), _mnod_trades),
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
    ("CSM-36", "jobs of equal memory: first come, first served", "ends in order of arrival", ("csm-equal",), _fifo),
    ("CSM-37", "overloaded, CSM puts small jobs first", "CPU time falls with size", ("csm-sizes",), _small_first),
    ("CSM-38", "P = 0.3 is a good choice", "within 5 % of the best P", ("csm-p",), _p_sweep),
    ("CSM-39", "CSM switches less than PRED", "fewer faults and switches", ("csm-switch",), _switches),
    ("CSM-40", "one fault on one node cascades", "the engine injects no faults yet", (), None),
)
