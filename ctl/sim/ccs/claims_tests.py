# SPDX-License-Identifier: GPL-2.0-or-later
"""The tests of CCS's claims: comparisons of measurements (results/ccs.md)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from statistics import mean

from ctl.sim import claim
from ctl.sim.ccs.experiments import READINGS, TECHNIQUES
from ctl.sim.ccs.inputs import PROFILES, WORKLOADS
from ctl.sim.claim import Found, Test
from ctl.sim.evidence import Evidence, about, less
from ctl.sim.intervals import Mean, paired, slope
from ctl.sim.params import Value

__all__ = [
    "SCL",
    "SLOWDOWN",
    "SPEEDUP",
    "above_three",
    "by_reading",
    "drawn",
    "effect_falls",
    "epochs_equal",
    "events_help",
    "fig3",
    "gain_grows",
    "half_costs",
    "high_constant",
    "latency_gap",
    "latency_kept",
    "latency_unacceptable",
    "locals_unprotected",
    "low_alike",
    "medium_order",
    "memory_helps",
    "mno_hurts",
    "none_deadlocks",
    "others_above_three",
    "over_half",
    "poly_near",
    "pool_kept",
    "pred_degrades",
    "quantum_costs",
    "quantum_helps",
    "quarter_costs",
    "relative",
    "rq_doubles",
    "rq_slowdown",
    "slow_mpl",
    "slowdown_by_l",
    "stop_ends_paging",
    "whole_disturbs",
    "zhang",
]

SPEEDUP, SLOWDOWN, SCL = "speedup", "slowdown_local", "scl_p99_ms"
TRADITIONAL = ("implicit", "dyn", "pred")
ENVIRONMENTS = ("shell", "internet")


def by_reading(test: Test, readings: tuple[str, ...]) -> Test:
    """Judge by the defaults, and report the results of these readings, named by their parameters."""
    return claim.by_reading(test, [claim.shown(READINGS[of]) for of in readings])


def relative(e: Evidence, a: str, b: str, x: Value, metric: str) -> float:
    """From line a to line b, part of a."""
    return e.mean(b, x, metric).mean / e.mean(a, x, metric).mean - 1


def _over(e: Evidence, line: str, metric: str, xs: Iterable[Value]) -> list[float | None]:
    """Means over these xs, by replication."""
    rows = zip(*(e.column(line, x, metric) for x in xs), strict=True)
    return [mean(known) if (known := [v for v in row if v is not None]) else None for row in rows]


# --- Fig. 5 ---


def rq_doubles(e: Evidence) -> Found:
    ratio = 1 + relative(e, "DYN", "RQ", "internet", SPEEDUP)
    return 1.5 <= ratio <= 2.5, f"{ratio:.2f} times, {e.mean('RQ', 'internet', 'short_of').mean:.0%} of time Mem > M"


def rq_slowdown(e: Evidence) -> Found:
    change = relative(e, "DYN", "RQ", "internet", SLOWDOWN)
    return -0.3 <= change <= -0.1, f"{change:+.1%}"


def above_three(e: Evidence) -> Found:
    found = [e.mean("RQ", x, SLOWDOWN).mean for x in ENVIRONMENTS]
    return min(found) > 3, "shell {:.2f}, internet {:.2f}".format(*found)


def memory_helps(e: Evidence) -> Found:
    local, speed = (relative(e, "RQ", "Memory", "internet", metric) for metric in (SLOWDOWN, SPEEDUP))
    return local <= -0.4 and abs(speed) <= 0.1, f"slowdown {local:+.1%}, speedup {speed:+.1%}"


def quantum_helps(e: Evidence) -> Found:
    change = relative(e, "Memory", "Quantum", "shell", SLOWDOWN)
    return change <= -0.35, f"{change:+.1%}"


def quantum_costs(e: Evidence) -> Found:
    difference = e.difference("Quantum", "Memory", "shell", SPEEDUP)
    return less(difference), f"{relative(e, 'Memory', 'Quantum', 'shell', SPEEDUP):+.1%} ({difference})"


def events_help(e: Evidence) -> Found:
    changes = [relative(e, "Quantum", "Events", x, SPEEDUP) for x in ENVIRONMENTS]
    local = [e.mean("Events", x, SLOWDOWN).mean for x in ENVIRONMENTS]
    shown = "speedup shell {:+.1%}, internet {:+.1%}".format(*changes)
    return min(changes) >= 0.3 and max(local) < 2, shown + ", slowdown {:.2f}, {:.2f}".format(*local)


# --- Figs. 6 and 7 ---


def _gain_slope(e: Evidence, lines: tuple[str, ...], over: tuple[str, ...], xs: list[float]) -> Mean:
    """Slope over x of the relative gain in speedup of the lines over the mean of others."""
    columns: list[list[float | None]] = []
    for x in e.xs:
        ours = zip(*(e.column(line, x, SPEEDUP) for line in lines), strict=True)
        others = zip(*(e.column(line, x, SPEEDUP) for line in over), strict=True)
        columns.append([_mean(a) / _mean(b) - 1 for a, b in zip(ours, others, strict=True)])
    return slope(xs, columns)


def _mean(values: Iterable[float | None]) -> float:
    return mean(v for v in values if v is not None)


def _of(lines: Iterable[str], load: str) -> tuple[str, ...]:
    return tuple(f"{line}, {load}" for line in lines)


def low_alike(e: Evidence) -> Found:
    three = _of(TRADITIONAL, "COM_L")
    near = [
        x for x in e.xs
        if all(about(e.difference(a, b, x, SPEEDUP), e.mean(b, x, SPEEDUP).mean)
               for a, b in itertools.combinations(three, 2))
    ]  # fmt: skip
    gain = _gain_slope(e, ("ccs 100 %, COM_L",), three, [float(x) for x in e.xs])
    shown = f"alike at {len(near)} of {len(e.xs)} points, gain of ccs 100 % grows by {gain} a user"
    return len(near) == len(e.xs) and gain.low > 0, f"{shown}; {e.show(SPEEDUP, *three, 'ccs 100 %, COM_L')}"


def medium_order(e: Evidence) -> Found:
    found = {name: Mean.of(_over(e, f"{name}, COM_M", SPEEDUP, e.xs)).mean for name in (*TRADITIONAL, "ccs 100 %")}
    gain = found["pred"] / found["dyn"] - 1
    order = found["implicit"] == min(found.values()) and found["ccs 100 %"] == max(found.values())
    return order and 0.1 <= gain <= 0.3, f"pred {gain:+.1%} of dyn; " + ", ".join(f"{n} {v:.2f}" for n, v in
                                                                                 found.items())  # fmt: skip


def high_constant(e: Evidence) -> Found:
    drop = {
        name: 1 - e.mean(f"{name}, COM_H", 16, SPEEDUP).mean / e.mean(f"{name}, COM_H", 0, SPEEDUP).mean
        for name in TECHNIQUES
    }
    holds = drop["ccs 100 %"] < 0.15 and min(drop[name] for name in TRADITIONAL) > 0.4
    return holds, "from 0 to 16 users: " + ", ".join(f"{n} {-d:+.0%}" for n, d in drop.items())


def _cost(e: Evidence, high: int, low: int) -> dict[str, float]:
    """The loss of speedup by a step from an L to a lower L, with users, by workload."""
    xs = [x for x in e.xs if x]
    ends = {
        load: [Mean.of(_over(e, f"ccs {part} %, {load}", SPEEDUP, xs)).mean for part in (high, low)]
        for load in WORKLOADS
    }
    return {load: 1 - b / a for load, (a, b) in ends.items()}


def _costs(cost: dict[str, float]) -> str:
    return f"{mean(cost.values()):+.1%} (" + ", ".join(f"{n} {c:+.1%}" for n, c in cost.items()) + ")"


def half_costs(e: Evidence) -> Found:
    cost = _cost(e, 100, 50)
    return 0.05 <= mean(cost.values()) <= 0.15, "costs " + _costs(cost)


def quarter_costs(e: Evidence) -> Found:
    cost, first = _cost(e, 50, 25), mean(_cost(e, 100, 50).values())
    return 0.15 <= mean(cost.values()) <= 0.35 and mean(cost.values()) > first, "costs " + _costs(cost)


def effect_falls(e: Evidence) -> Found:
    cost = list(_cost(e, 100, 25).values())
    return cost[0] > cost[1] > cost[2], "100 to 25 %: COM_L {:+.1%}, COM_M {:+.1%}, COM_H {:+.1%}".format(*cost)


def whole_disturbs(e: Evidence) -> Found:
    gain = -mean(_cost(e, 50, 100).values())
    worst, shown, xs = True, f"speedup {gain:+.1%}", [x for x in e.xs if x]
    for metric in (SCL, SLOWDOWN):
        by_l = [
            mean(Mean.of(_over(e, f"ccs {part} %, {load}", metric, xs)).mean for load in WORKLOADS)
            for part in (25, 50, 100)
        ]
        worst &= by_l[2] == max(by_l)
        shown += f"; {metric} " + " ".join(f"{v:.4g}" for v in by_l)
    return gain <= 0.15 and worst, shown


def _most(e: Evidence, names: Iterable[str], metric: str) -> float:
    return max(
        e.mean(f"{name}, {load}", x, metric).mean for name in names for load in WORKLOADS for x in e.xs if x
    )  # fmt: skip


def latency_kept(e: Evidence) -> Found:
    most = _most(e, ("ccs 25 %", "ccs 50 %"), SCL)
    return most <= 400, f"99 % of calls within {most:.0f} ms at the worst point"


def latency_unacceptable(e: Evidence) -> Found:
    kept = _most(e, ("ccs 25 %", "ccs 50 %"), SCL)
    others = {name: _most(e, (name,), SCL) for name in (*TRADITIONAL, "ccs 100 %")}
    shown = ", ".join(f"{n} {v:.0f}" for n, v in others.items())
    return min(others.values()) >= 2 * kept, f"worst points: {shown} ms against {kept:.0f}"


def latency_gap(e: Evidence) -> Found:
    xs = [x for x in e.xs if x]
    gaps = {
        load: Mean.of(_over(e, f"ccs 100 %, {load}", SCL, xs)).mean
        - Mean.of(_over(e, f"ccs 50 %, {load}", SCL, xs)).mean
        for load in WORKLOADS
    }
    return gaps["COM_H"] == max(gaps.values()), ", ".join(f"{n} {g:.0f} ms" for n, g in gaps.items())


def slowdown_by_l(e: Evidence) -> Found:
    xs, texts, rises = [x for x in e.xs if x], [], True
    for load in WORKLOADS:
        by_l = [Mean.of(_over(e, f"ccs {part} %, {load}", SLOWDOWN, xs)).mean for part in (25, 50, 100)]
        rises &= by_l[0] < by_l[1] < by_l[2]
        texts.append(f"{load} " + " ".join(f"{v:.3f}" for v in by_l))
    most = _most(e, ("ccs 25 %", "ccs 50 %", "ccs 100 %"), SLOWDOWN)
    return rises and most < 3, "; ".join(texts) + f"; at most {most:.2f}"


# --- Fig. 8 ---

HETEROGENEITY = [0.0, 0.15, 0.25]


def pred_degrades(e: Evidence) -> Found:
    change = slope(HETEROGENEITY, [e.column("pred", x, SPEEDUP) for x in e.xs])
    return less(change), f"slope {change}; {e.show(SPEEDUP, 'pred')}"


def others_above_three(e: Evidence) -> Found:
    least = min(e.mean(line, "C(.25)", SLOWDOWN).mean for line in TRADITIONAL)
    return least > 3, f"least at C(.25) {least:.2f}; {e.show(SLOWDOWN, *TRADITIONAL)}"


def gain_grows(e: Evidence) -> Found:
    found = {line: _gain_slope(e, (line,), TRADITIONAL, HETEROGENEITY) for line in ("ccs", "poly")}
    return all(s.low > 0 for s in found.values()), ", ".join(f"{n} slope {s}" for n, s in found.items())


def poly_near(e: Evidence) -> Found:
    gaps = [abs(relative(e, "ccs", "poly", x, SPEEDUP)) for x in e.xs]
    worse = [1 + relative(e, "ccs", "poly", x, SLOWDOWN) for x in e.xs]
    shown = "slowdown " + " ".join(f"{w:.2f}" for w in worse) + " times; speedup within " + f"{max(gaps):.0%}"
    return max(gaps) <= 0.15 and min(worse) >= 1.5, shown


def zhang(e: Evidence) -> Found:
    local = [e.mean("zhang", x, SLOWDOWN).mean for x in e.xs]
    speed = max(e.mean("zhang", x, SPEEDUP).mean for x in e.xs)
    below = len(e.less_at("zhang", "ccs", SPEEDUP)) == len(e.xs)
    holds = max(local[:2]) < 2.25 and speed < 5 and local[2] > local[1] and below
    return holds, f"slowdown {' '.join(f'{v:.2f}' for v in local)}, speedup at most {speed:.2f}, below ccs: {below}"


def slow_mpl(e: Evidence) -> Found:
    found = e.mean("ccs", "C(.15)", "mpl_slow").mean
    return found == 2, f"fast {e.mean('ccs', 'C(.15)', 'mpl_fast').mean:g}, slow {found:g}"


def epochs_equal(e: Evidence) -> Found:
    pairs = [[e.mean("ccs", x, f"epoch_{end}_ms").mean for end in ("fast", "slow")] for x in e.xs]
    return all(abs(a - b) < 1e-3 for a, b in pairs), ", ".join(f"{a:.0f} and {b:.0f} ms" for a, b in pairs)


def pool_kept(e: Evidence) -> Found:
    least = min(e.mean("ccs", x, "m_local_spare").mean for x in e.xs)
    return least >= 0, f"M_Local - M (1 - L) at least {least:g} pages on every node of the three NOWs"


# --- the rest ---


def over_half(e: Evidence) -> Found:
    found = {load: e.mean(f"ccs 50 %, {load}", 8, "half").mean for load in WORKLOADS}
    return max(found.values()) > 0.5, "jobs above half their tasks, L 50 %, 8 users: " + ", ".join(
        f"{n} {v:.0%}" for n, v in found.items()
    )


def locals_unprotected(e: Evidence) -> Found:
    texts, holds = [], True
    for line in TRADITIONAL:
        rise = paired(e.column(line, 3, SLOWDOWN), e.column(line, 1, SLOWDOWN))
        holds &= rise.low > 0
        texts.append(f"{line} {e.mean(line, 1, SLOWDOWN).mean:.2f} to {e.mean(line, 3, SLOWDOWN).mean:.2f}")
    return holds, "slowdown, MPL 1 to 3: " + ", ".join(texts)


def mno_hurts(e: Evidence) -> Found:
    texts, holds = [], True
    for line in e.experiment.lines:
        rise = paired(e.column(line, 6, SLOWDOWN), e.column(line, 2, SLOWDOWN))
        holds &= rise.low > 0
        texts.append(e.show(SLOWDOWN, line) + f" (6 against 2: {rise})")
    return holds, "; ".join(texts)


def drawn(names: tuple[str, ...]) -> Test:
    def test(e: Evidence) -> Found:
        texts, holds = [], True
        for name in names:
            of = PROFILES[name]
            cpu, memory = (e.mean("drawn", name, m).mean for m in ("drawn_cpu", "drawn_memory"))
            holds &= abs(cpu / of.cpu - 1) <= 0.1 and abs(memory / of.memory - 1) <= 0.1
            texts.append(f"{name} CPU {cpu:.2f} of {of.cpu:g}, memory {memory:.2f} of {of.memory:g}")
        return holds, "; ".join(texts)

    return test


def fig3(e: Evidence) -> Found:
    wanted = {f"job1_N{k}": 1 / 6 for k in (1, 2, 3, 4)} | {f"job2_N{k}": 5 / 6 for k in (3, 4)}
    wanted |= {"local_N1": 5 / 6, "local_N2": 5 / 6}
    got = {name: e.mean("with events", 0.2, name).mean for name in wanted}
    before = e.mean("without events", 0.2, "job2_N3").mean
    holds = all(abs(got[name] - part) <= 0.01 for name, part in wanted.items()) and abs(before - 0.5) <= 0.01
    return holds, ", ".join(f"{n} {v:.3f}" for n, v in got.items()) + f"; job2_N3 {before:.3f} before"


def stop_ends_paging(e: Evidence) -> Found:
    before, after, later = (e.mean("Set_Memory", 0.5, m).mean for m in ("before", "after", "later"))
    without = e.mean("none", 0.5, "later").mean
    shown = f"faults/s {before:.0f}, {after:.0f} after 5 s, {later:.0f} in the minute then; without stops {without:.0f}"
    return after <= 0.5 * before, shown


def none_deadlocks(e: Evidence) -> Found:
    line = "1 % lost, 0 to 100 ms late"
    lost, stops = (sum(_known(e, line, m)) for m in ("lost", "stops"))
    ended = all(value is not None for x in e.xs for value in e.column(line, x, SPEEDUP))
    stopped = [sum(_known(e, of, "stopped_s")) for of in ("all events", line)]
    shown = f"every run ends, with {stops:.0f} stops and {lost:.0f} events lost; stopped {stopped[1] / stopped[0]:.2f}"
    return ended and stops > 0 and lost > 0, shown + " times as long as with all events"


def _known(e: Evidence, line: str, metric: str) -> list[float]:
    return [value for x in e.xs for value in e.column(line, x, metric) if value is not None]
