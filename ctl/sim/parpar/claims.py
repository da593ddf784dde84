# SPDX-License-Identifier: GPL-2.0-or-later
"""ParPar's claims as tests of the measurements (results/parpar.md). Each test returns whether the claim holds, and the
numbers.

The paper measured its machine; here paging is modelled (docs/simulator-parpar.md). If a reading decides, the row has
the results of the other readings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean

from ctl.sim.claim import Claim, Test, by_reading
from ctl.sim.claim import Found as _Found
from ctl.sim.evidence import Evidence
from ctl.sim.intervals import Mean
from ctl.sim.params import Value
from ctl.sim.parpar.experiments import READINGS

__all__ = ["CLAIMS"]


def _short(values: Sequence[float]) -> str:
    return " ".join("–" if math.isnan(v) else "never" if math.isinf(v) else f"{v:.3g}" for v in values) or "–"


# --- all at once: Figs. 5 and 6 ---


def _means(e: Evidence, line: str, metric: str = "time_s") -> list[float]:
    return [e.mean(line, x, metric).mean for x in e.xs]


def _linear(e: Evidence) -> _Found:
    """R² of the best straight line, of the lines with a limit."""
    found = {line: _r_square([float(x) for x in e.xs], _means(e, line)) for line in e.experiment.lines if "C=" in line}
    return min(found.values()) > 0.98, "R²: " + ", ".join(f"{line} {r:.4f}" for line, r in found.items())


def _r_square(xs: Sequence[float], ys: Sequence[float]) -> float:
    x, y = mean(xs), mean(ys)
    both = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True))
    return both**2 / sum((a - x) ** 2 for a in xs) / sum((b - y) ** 2 for b in ys)


def _curved(e: Evidence) -> _Found:
    """The quadratic term of the best parabola; xs are equally far apart."""
    texts, holds = [], []
    middle = mean(float(x) for x in e.xs)
    squares = [(float(x) - middle) ** 2 for x in e.xs]
    weights = [s - mean(squares) for s in squares]
    for line in (line for line in e.experiment.lines if "no limit" in line):
        rows = zip(*(e.column(line, x, "time_s") for x in e.xs), strict=True)
        term = Mean.of(
            sum(w * (y or 0) for w, y in zip(weights, row, strict=True)) / sum(w * w for w in weights) for row in rows
        )
        holds.append(term.low > 0)
        texts.append(f"{line} {term} s a job squared ({_short(_means(e, line))})")
    return all(holds), "; ".join(texts)


def _limit_less(e: Evidence) -> _Found:
    """With more jobs than are admitted (5 at C=1, 8 at 1.5), less time with the limit than without."""
    texts, holds = [], []
    for theta in ("θ=1", "θ=2"):
        for c, admitted in (("C=1", 5), ("C=1.5", 8)):
            xs = [x for x in e.xs if float(x) > admitted]
            fewer = e.less_at(f"{c}, {theta}", f"no limit, {theta}", "time_s", xs)
            holds.append(len(fewer) == len(xs))
            last = [e.mean(f"{of}, {theta}", xs[-1], "time_s").mean for of in (c, "no limit")]
            texts.append(f"{c}, {theta}: at {len(fewer)} of {len(xs)} points (50 jobs: {_short(last)})")
    return all(holds), "; ".join(texts)


def _spread(e: Evidence, line: str) -> float:
    """Time at the lowest locality over that at the highest."""
    return e.mean(line, e.xs[0], "time_s").mean / e.mean(line, e.xs[-1], "time_s").mean


def _locality(e: Evidence) -> _Found:
    found = {line: _spread(e, line) for line in e.experiment.lines}
    shown = ", ".join(f"{line} {s:.3g}" for line, s in found.items())
    return found["C=0.8"] < 1.1 and found["no limit"] > 2, f"time at θ=1 over that at θ=2: {shown}"


def _corner(e: Evidence) -> _Found:
    times = {line: _means(e, line) for line in e.experiment.lines if "C=" in line}
    corner = times["C=2"][0]
    most = max(max(of) for of in times.values())
    fits = max(times["C=0.8"]) < 1.1 * min(times["C=0.8"])
    holds = corner == most and fits and times["C=2"][-1] < corner / 2
    return holds, "s by θ 1 to 2: " + "; ".join(f"{line} {_short(of)}" for line, of in times.items())


def _fits(e: Evidence) -> _Found:
    most = {line: int(e.mean(line, e.xs[0], "most_load").mean) for line in e.experiment.lines}
    wanted = {"C=0.8": 4, "C=1": 5, "C=1.5": 8, "C=2": 11, "no limit": 50}
    shown = ", ".join(f"{line} {n}" for line, n in most.items())
    return all(most[line] == n for line, n in wanted.items()), f"processes on a node at once: {shown}; 4 x 10 <= 45 MB"


# --- jobs that come: Fig. 7 ---


def _thetas(e: Evidence) -> list[str]:
    return [line.removeprefix("limit, ") for line in e.experiment.lines if line.startswith("limit")]


def _saturates(e: Evidence, line: str) -> float:
    """The least load at which half of the replications have more than 300 jobs at once; infinite if none."""
    return next((float(x) for x in e.xs if e.mean(line, x, "saturated_percent").mean >= 50), math.inf)


def _steady(e: Evidence, *lines: str) -> list[Value]:
    """The loads without a saturated replication."""
    return [x for x in e.xs if not any(e.mean(line, x, "saturated_percent").mean for line in lines)]


def _critical(e: Evidence) -> _Found:
    at = [_saturates(e, f"no limit, {theta}") for theta in _thetas(e)]
    holds = at == sorted(at) and (at[0] < at[-1] or len(at) == 1) and math.isfinite(at[0])
    return holds, f"saturated from load {_short(at)} at {' '.join(_thetas(e))}"


def _later(e: Evidence) -> _Found:
    texts, holds = [], []
    for theta in _thetas(e):
        limit, none = (_saturates(e, f"{of}, {theta}") for of in ("limit", "no limit"))
        holds.append(limit > none)
        texts.append(f"{theta}: {_short([limit])} against {_short([none])}")
    return all(holds), "saturated from load, with a limit and without: " + ", ".join(texts)


def _response(e: Evidence) -> _Found:
    """At each load less with the limit; or without it saturated and with it not. Both saturated: no comparison."""
    texts, holds = [], []
    for theta in _thetas(e):
        limit, none = f"limit, {theta}", f"no limit, {theta}"
        both = _steady(e, limit, none)
        below = e.less_at(limit, none, "response_s", both)
        alone = [x for x in _steady(e, limit) if x not in both]
        worse = [x for x in _steady(e, none) if x not in both]
        holds.append(len(below) == len(both) and bool(below or alone) and not worse)
        texts.append(
            f"{theta}: less at {len(below)} of {len(both)} loads where both bear it ("
            f"{_short([e.mean(limit, x, 'response_s').mean for x in both])} against "
            f"{_short([e.mean(none, x, 'response_s').mean for x in both])} s), {len(alone)} loads only with the limit, "
            f"{len(worse)} only without"
        )
    return all(holds), "; ".join(texts)


def _slowdown(e: Evidence) -> _Found:
    """Where both bear the load: more with the limit, and half of it or more from the shorter half of the jobs."""
    texts, holds = [], []
    for theta in _thetas(e):
        limit, none = f"limit, {theta}", f"no limit, {theta}"
        both = _steady(e, limit, none)
        above = e.less_at(none, limit, "slowdown", both)
        parts = [
            e.difference(limit, none, x, "short_slowdown").mean / e.difference(limit, none, x, "slowdown").mean
            for x in above
        ]
        holds.append(bool(both) and len(above) == len(both) and min(parts, default=0) >= 0.5)
        texts.append(
            f"{theta}: more at {len(above)} of {len(both)} loads ("
            f"{_short([e.mean(limit, x, 'slowdown').mean for x in both])} against "
            f"{_short([e.mean(none, x, 'slowdown').mean for x in both])}), of it by short jobs "
            f"{' '.join(f'{p:.0%}' for p in parts) or '–'}"
        )
    return all(holds), "; ".join(texts)


def _queued(e: Evidence) -> _Found:
    texts, holds = [], []
    for theta in _thetas(e):
        low, high = (e.mean(f"limit, {theta}", x, "queued_percent").mean for x in (0.4, 0.8))
        holds.append(low < 5 and 70 <= high <= 90)
        texts.append(f"{theta}: {_short(_means(e, f'limit, {theta}', 'queued_percent'))}")
    return all(holds), f"% at load {' '.join(map(str, e.xs))}: " + "; ".join(texts)


def _best_c(e: Evidence) -> _Found:
    texts, holds = [], []
    for line in e.experiment.lines:
        borne = {float(x): e.mean(line, x, "response_s").mean for x in _steady(e, line)}
        best = min(borne, key=lambda x: borne[x]) if borne else math.nan
        holds.append(0.8 <= best <= 1.0)
        texts.append(f"{line}: least at C={best:g} (" + " ".join(f"{c:g}: {t:.0f} s" for c, t in borne.items()) + ")")
    return all(holds), "; ".join(texts) + "; other C saturated"


def _skipped(*es: Evidence) -> _Found:
    runs = [(e, line, x) for e in es for line in e.experiment.lines for x in e.xs]
    most = max(value or 0 for e, line, x in runs for value in e.column(line, x, "most_skips"))
    return most <= 15, f"at most {most:.0f} times, of {len(runs)} points"


def _large(e: Evidence) -> _Found:
    alone, ends = (e.mean("C=1", 2.0, metric).mean for metric in ("alone", "ends"))
    return alone == ends == 3, f"{alone:.0f} started when nothing ran, {ends:.0f} ended"


# --- the program ---


def _jumps(e: Evidence) -> _Found:
    found = [e.mean(line, 1024, "below_4").mean for line in e.experiment.lines]
    holds = all(abs(f - (1 - 4**-theta)) < 0.001 for f, theta in zip(found, (1, 2), strict=True))
    return holds, f"θ=1 {found[0]:.4f}, θ=2 {found[1]:.4f}; 1 - 4^-θ: 0.75, 0.9375"


def _covers(e: Evidence) -> _Found:
    found = {k: e.mean("θ=2", k, "coverage") for k in e.xs}
    texts = [f"K={k}: {c.mean:.0%} (± {c.half:.0%})" for k, c in found.items()]
    return found[1024].mean > 0.99, "pages touched at θ=2: " + ", ".join(texts) + " [decided by K, B-PP-2]"


def _by(test: Test) -> Test:
    """Judge by C=1, and report the results of the other readings."""
    return by_reading(test, tuple(READINGS.values())[1:])


_FIVE, _SIX, _WALK = ("parpar-fig5",), ("parpar-fig6",), ("parpar-walk",)
_SEVEN = tuple(f"parpar-fig7{suffix}" for suffix in READINGS)
_LOG = "the LANL CM-5 log is not here; `ctl sim experiment parpar-fig2 --set trace=FILE` measures it on any log"
_LAYOUT = "the layout of F. 1's records is not given; with 32 bytes a path and 64 a record it is 320 KB"
_REAL = "a measurement of real programs' executables, not of this model"

_ROWS: tuple[tuple[str, str, str, tuple[str, ...], Test | None], ...] = (
    ("PP-1", "87 % of estimates within 5 MB", _LOG, (), None),
    ("PP-2", "70 % of estimates within 1 MB", _LOG, (), None),
    ("PP-3", "6 % of jobs are underestimated", _LOG, (), None),
    ("PP-4", "most estimates are about right", _LOG, (), None),
    ("PP-5", "static sizes: good for SPEC, poor for students' programs", _REAL, (), None),
    ("PP-6", "with a limit, time is linear in the jobs", "R² > 0.98", _FIVE, _linear),
    ("PP-7", "without, it grows faster than that", "quadratic term > 0", _FIVE, _curved),
    ("PP-8", "for each θ, less time with a limit", "sign at every overload", _FIVE, _limit_less),
    ("PP-9", "locality matters where memory is over-used", "θ=1/θ=2: < 1.1 at C 0.8, > 2 unlimited", _SIX, _locality),
    ("PP-10", "low locality with high over-allocation is slow, else not", "corner is most, rest low", _SIX, _corner),
    ("PP-11", "at most four jobs of 10 MB fit", "admitted at C 0.8 1 1.5 2: 4 5 8 11", _SIX, _fits),
    ("PP-12", "unlimited, saturated at a critical load, later for high θ", "order of loads", _SEVEN, _by(_critical)),
    ("PP-13", "a limit lowers response time at every load", "sign at each load, each θ", _SEVEN, _by(_response)),
    ("PP-14", "slowdown is highest with the limit, by short jobs", "sign, half by short jobs", _SEVEN, _by(_slowdown)),
    ("PP-15", "few jobs are queued up to load 0.5, 80 % at 0.8", "< 5 % at 0.4, 80 ± 10 % at 0.8", _SEVEN,
     _by(_queued)),
    ("PP-16", "best where memory given away is what there is", "least at C 0.8 to 1", ("parpar-c",), _best_c),
    ("PP-17", "with a limit the system bears higher loads", "saturated later, each θ", _SEVEN, _by(_later)),
    ("PP-18", "jumps below 4: 75 % at θ=1, 94 % at θ=2", "± 0.1 points of 1 - 4^-θ", _WALK, _jumps),
    ("PP-19", "100,000 accesses cover the array at θ=2", "> 99 % of its pages, K=1024", _WALK, _covers),
    ("PP-20", "no job is skipped more than 15 times", "most <= 15", _SEVEN, _skipped),
    ("PP-21", "the store takes 320 KB", _LAYOUT, (), None),
    ("PP-22", "jobs larger than memory run when nothing else does", "all end", ("parpar-large",), _large),
)  # fmt: skip

CLAIMS: tuple[Claim, ...] = tuple(Claim(*row) for row in _ROWS)
