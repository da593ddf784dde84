# SPDX-License-Identifier: GPL-2.0-or-later
"""ParPar's claims that are measurements of real nodes, with tolerances set before measuring.

Those of its model are ctl/sim/parpar/claims.py.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ctl.sim.intervals import student_t
from tests.experiments.parpar_plan import C_SWEEP, FIGURE_5, FREE_MB, LARGE, NO_LIMIT, THETAS, limit_name
from tests.experiments.verdicts import Claim, Found, Missing

__all__ = ["CLAIMS", "Results"]

_ENDS: Final = (1.0, 2.0)  # θ: least and most local
_ADMITTED: Final = {0.8: 4, 1.0: 5, 1.5: 8, 2.0: 11}  # jobs of 10 MB by eq. 1 (B-PP-4)
_ALIKE: Final = 0.02  # of a time: no difference
_POINTS: Final = 4  # of a curve, at least: a parabola has three


class Results:
    """What was measured; medians over the seeds."""

    def __init__(self, measured: Iterable[Mapping[str, Any]]) -> None:
        self.measured = list(measured)

    def of(self, **wanted: object) -> list[Mapping[str, Any]]:
        """The measurements that have these values."""
        return [one for one in self.measured if all(one[key] == value for key, value in wanted.items())]

    @property
    def most(self) -> int:
        """The jobs of F. 6: the most at which it was begun. Raises Missing."""
        found = [run["jobs"] for run in self.of(kind="static", c=C_SWEEP[0])]
        if not found:
            raise Missing("no run of F. 6")
        return int(max(found))

    def figure(self, name: str, jobs: int, theta: float, c: float) -> float:
        """A figure of jobs alike that are there at once. Raises Missing."""
        runs = self.of(kind="static", jobs=jobs, theta=theta, c=c)
        if not runs:
            raise Missing(f"no run of {jobs} jobs at θ={theta:g}, {limit_name(c)}")
        return statistics.median(float(run[name]) for run in runs)

    def seconds(self, jobs: int, theta: float, c: float) -> float:
        """Until all have ended, s. Raises Missing."""
        return self.figure("seconds", jobs, theta, c)

    def jobs(self, theta: float, c: float) -> list[int]:
        """The numbers of jobs that a curve of F. 5 was measured at."""
        return sorted({run["jobs"] for run in self.of(kind="static", theta=theta, c=c)})

    def curve(self, theta: float, c: float) -> tuple[list[int], list[float]]:
        """Of F. 5: numbers of jobs, and s, every run. Raises Missing where there are too few points."""
        if len(self.jobs(theta, c)) < _POINTS:
            raise Missing(f"fewer than {_POINTS} points at θ={theta:g}, {limit_name(c)}")
        runs = sorted(self.of(kind="static", theta=theta, c=c), key=lambda run: run["jobs"])
        return [run["jobs"] for run in runs], [run["seconds"] for run in runs]

    def thetas(self, c: float) -> list[float]:
        """The θ of F. 6 that this limit was measured at."""
        return [theta for theta in THETAS if self.of(kind="static", jobs=self.most, theta=theta, c=c)]


def _name(theta: float, c: float) -> str:
    return f"{limit_name(c)}, θ={theta:g}"


def _linear(results: Results) -> Found:
    """R² of the best straight line."""
    lines = [(theta, c) for c in FIGURE_5 if c != NO_LIMIT for theta in _ENDS]
    found = {line: statistics.correlation(*results.curve(*line)) ** 2 for line in lines}
    return min(found.values()) > 0.98, "R²: " + ", ".join(f"{_name(*line)} {r:.4f}" for line, r in found.items())


def _curved(results: Results) -> Found:
    """The square's term of the best parabola, with its 95 % interval."""
    import numpy as np  # takes a second, and only this needs it

    texts, holds = [], []
    for theta in _ENDS:
        jobs, seconds = results.curve(theta, NO_LIMIT)
        terms, covariance = np.polyfit(jobs, seconds, 2, cov=True)
        half = student_t(len(jobs) - 3) * float(covariance[0][0]) ** 0.5
        holds.append(float(terms[0]) > half)
        texts.append(f"θ={theta:g} {terms[0]:.3g} ± {half:.2g} s a job squared")
    return all(holds), "; ".join(texts)


def _limit_less(results: Results) -> Found:
    """With more jobs than are admitted, less time with the limit than without."""
    texts, holds = [], []
    for c in FIGURE_5:
        for theta in _ENDS if c != NO_LIMIT else ():
            both = set(results.jobs(theta, c)).intersection(results.jobs(theta, NO_LIMIT))
            points = sorted(jobs for jobs in both if jobs > _ADMITTED[c])
            if not points:
                raise Missing(f"no overload at {_name(theta, c)}")
            times = {jobs: (results.seconds(jobs, theta, c), results.seconds(jobs, theta, NO_LIMIT)) for jobs in points}
            less = [jobs for jobs, (limit, none) in times.items() if limit < none]
            holds.append(len(less) == len(points))
            most = "{:.3g} against {:.3g} s".format(*times[points[-1]])
            texts.append(f"{_name(theta, c)}: at {len(less)} of {len(points)} points ({points[-1]} jobs: {most})")
    return all(holds), "; ".join(texts)


def _spread(results: Results, c: float) -> float:
    least, most = (results.seconds(results.most, theta, c) for theta in _ENDS)
    return least / most


def _locality(results: Results) -> Found:
    found = {c: _spread(results, c) for c in C_SWEEP[1:]}
    shown = ", ".join(f"{limit_name(c)} {spread:.2f}" for c, spread in found.items())
    return found[0.8] < 1.1 and found[NO_LIMIT] > 2, f"time at θ=1 over that at θ=2: {shown}"


def _corner(results: Results) -> Found:
    """The corner is the slowest, and its neighbours on the other sides are not."""
    times = {c: [results.seconds(results.most, theta, c) for theta in results.thetas(c)] for c in C_SWEEP[1:-1]}
    if min(len(of) for of in times.values()) < 2 or not set(_ENDS) <= set(results.thetas(2.0)):
        raise Missing("no run at both ends of θ")
    corner = times[2.0][0]
    holds = corner == max(map(max, times.values())) and max(times[0.8]) < 1.1 * min(times[0.8])
    shown = "; ".join(f"{limit_name(c)} " + " ".join(f"{of:.3g}" for of in each) for c, each in times.items())
    return holds and times[2.0][-1] < corner / 2, f"s by θ from 1 to 2: {shown}"


def _fits(results: Results) -> Found:
    jobs = results.most
    most = {c: int(results.figure("most", jobs, 1.0, c)) for c in _ADMITTED}
    faults = {c: int(results.figure("faults", jobs, 1.0, c)) for c in (0.8, 1.0)}
    need = results.figure("need_mb", jobs, 1.0, 0.8)
    shown = ", ".join(f"{limit_name(c)} {n}" for c, n in most.items())
    numbers = (
        f"at once: {shown}, of {need:.3f} MB each as estimated; "
        f"major faults of {jobs} jobs: {faults[0.8]:,} with four, {faults[1.0]:,} with five at once"
    )
    return most[0.8] == 4 and most[1.0] == 5 and faults[0.8] < jobs < faults[1.0], numbers


def _best_c(results: Results) -> Found:
    texts, holds = [], []
    whole = [theta for theta in THETAS if all(theta in results.thetas(c) for c in C_SWEEP)]
    if not whole:
        raise Missing("no θ at which all limits were measured")
    for theta in whole:
        times = {c: results.seconds(results.most, theta, c) for c in C_SWEEP}
        least = min(times.values())
        best = [c for c, seconds in times.items() if seconds <= (1 + _ALIKE) * least]
        holds.append(any(0.8 <= c <= 1.0 for c in best))
        texts.append(f"θ={theta:g}: least with {', '.join(map(limit_name, best))} ({least:.3g} s)")
    return all(holds), "; ".join(texts)


def _large(results: Results) -> Found:
    runs = results.of(kind=LARGE)
    if not runs:
        raise Missing("no run with a larger job")
    alone = [run["beside"][run["jobs"] // 2] == 0 for run in runs]
    ended = [min(run["ends_s"]) > 0 and run["killed"] == 0 for run in runs]
    run, place = runs[0], runs[0]["jobs"] // 2
    numbers = (
        f"one of 70 MB among {run['jobs']} jobs, {FREE_MB} MB free: ended after {run['ends_s'][place]:.2f} s, "
        f"{run['beside'][place]} others ran beside it"
    )
    return all(alone) and all(ended), numbers


_LOAD: Final = (
    "a load needs jobs by the hundred at each of several loads until the system is saturated: the simulator's "
    "replications of 1,000 jobs differ by ten times there; as real processes that is days on an emulated CPU"
)
_WIDTH: Final = "jobs of 1 to 16 nodes need 16 nodes in lock-step"
_CLASSES: Final = "of the paper's classes, SPEC, utilities and students' programs, the first and the last are not here"

CLAIMS: Final[tuple[Claim[Results], ...]] = (
    Claim("PP-5", "static sizes: good for SPEC, poor for students' programs", _CLASSES, None),
    Claim("PP-6", "with a limit, time is linear in the jobs", "R² > 0.98", _linear),
    Claim("PP-7", "without, it grows faster than that", "quadratic term > 0, p < 0.05", _curved),
    Claim("PP-8", "for each θ, less time with a limit", "sign at every overload", _limit_less),
    Claim("PP-9", "locality matters where memory is over-used", "θ=1/θ=2: < 1.1 at C=0.8, > 2 unlimited", _locality),
    Claim("PP-10", "low locality with high over-allocation is slow, else not",
          "θ=1, C=2 is most; < half of it at θ=2; C=0.8 within 10 %", _corner),
    Claim("PP-11", "at most four jobs of 10 MB fit", "four at once (C=0.8) do not page, five (C=1) do", _fits),
    Claim("PP-12", "unlimited, saturated at a critical load, later for high θ", _LOAD, None),
    Claim("PP-13", "a limit lowers response time at every load", _LOAD, None),
    Claim("PP-14", "slowdown is highest with the limit, by short jobs", _LOAD, None),
    Claim("PP-15", "few jobs are queued up to load 0.5, 80 % at 0.8", _WIDTH, None),
    Claim("PP-16", "best where memory given away is what there is", "least, within 2 %, at a C of 0.8 to 1, each θ",
          _best_c),
    Claim("PP-17", "with a limit the system bears higher loads", _LOAD, None),
    Claim("PP-22", "jobs larger than memory run when nothing else does", "it ends, and nothing ran beside it", _large),
)  # fmt: skip
