# SPDX-License-Identifier: GPL-2.0-or-later
"""The papers' claims about CCS that these experiments can check, with the tolerances the project set before measuring.

A claim is checked by means over repetitions; each percentage is against the configuration before (B-CCS-21). A verdict
is "reproduced", "not reproduced", or "not checkable" with the reason. No claim was adjusted to the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.experiments.ccs_stats import Mean, figures, mean, ratio

__all__ = ["CLAIMS", "GOALS", "Claim", "Missing", "Results", "Verdict", "check"]


class Missing(Exception):
    """A run that a claim needs was not made."""


class Results:
    """All runs of an experiment, by workload, configuration and figure."""

    def __init__(self, runs: Iterable[Mapping[str, Any]]) -> None:
        self.runs = list(runs)
        alone = {run["workload"]: run for run in self.runs if run["config"] == "alone"}
        self._values: dict[tuple[str, str, str], dict[int, float]] = {}
        for run in self.runs:
            if run["config"] == "alone" or run["workload"] not in alone:
                continue
            for key, value in figures(run, alone[run["workload"]]).items():
                place = self._values.setdefault((run["workload"], run["config"], key), {})
                place[run["repetition"]] = value

    def values(self, workload: str, config: str, key: str) -> dict[int, float]:
        """A figure in all repetitions. Raises Missing."""
        try:
            return self._values[workload, config, key]
        except KeyError:
            raise Missing(f"no {key} of {config} under {workload}") from None

    def configs(self, workload: str) -> list[str]:
        """The configurations that were measured under a workload."""
        return sorted({config for of, config, _ in self._values if of == workload})

    def mean(self, workload: str, config: str, key: str) -> Mean:
        """Its mean. Raises Missing."""
        found = mean(list(self.values(workload, config, key).values()))
        assert found is not None
        return found

    def value(self, workload: str, config: str, key: str) -> float:
        """Its mean, the number. Raises Missing."""
        return self.mean(workload, config, key).value

    def times(self, workload: str, of: str, to: str, key: str) -> Mean:
        """How many times as much `of` has as `to`. Raises Missing."""
        found = ratio(self.values(workload, of, key), self.values(workload, to, key))
        if found is None:
            raise Missing(f"{key}: no repetition has both {of} and {to} under {workload}")
        return found


Found = tuple[str, bool]
"""The measurement, in words, and whether it agrees with the claim."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A row of the claims' table: the paper's claim, the condition for "reproduced", and the test."""

    id: str
    says: str
    tolerance: str
    find: Callable[[Results], Found]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a claim."""

    claim: Claim
    measured: str
    verdict: str


def check(claims: Sequence[Claim], results: Results) -> list[Verdict]:
    """The verdict on each claim."""
    verdicts = []
    for claim in claims:
        try:
            measured, holds = claim.find(results)
        except Missing as missing:
            verdicts.append(Verdict(claim, "", f"not checkable: {missing}"))
            continue
        verdicts.append(Verdict(claim, measured, "reproduced" if holds else "not reproduced"))
    return verdicts


def _within(low: float, found: Mean, high: float = float("inf")) -> Found:
    return f"{found}×", low <= found.value <= high


def _each(results: Results, workloads: Iterable[str], config: str, key: str) -> dict[str, Mean]:
    return {workload: results.mean(workload, config, key) for workload in workloads}


def _words(found: Mapping[str, object]) -> str:
    return "; ".join(f"{name} {value}" for name, value in found.items())


# ccs-modules

_RQ, _MEMORY, _QUANTUM = "+Insert_RQ", "+Set_Memory", "+Set_Quantum"
_BOTH: Final = ("fits", "overload")


def _claim_3(results: Results) -> Found:
    found = _each(results, _BOTH, _RQ, "slowdown")
    return _words(found), all(each.value > 3 for each in found.values())


def _claim_4(results: Results) -> Found:
    slowdown = results.times("overload", _MEMORY, _RQ, "slowdown")
    speedup = results.times("overload", _MEMORY, _RQ, "speedup")
    return f"slowdown {slowdown}×, speedup {speedup}×", slowdown.value <= 0.6 and 0.9 <= speedup.value <= 1.1


def _claim_6(results: Results) -> Found:
    found = {name: results.times(name, _QUANTUM, _MEMORY, "speedup") for name in _BOTH}
    return f"speedup {_words(found)} ×", all(each.value < 1 for each in found.values())


def _claim_7(results: Results) -> Found:
    faster = {name: results.times(name, "ccs", _QUANTUM, "speedup") for name in _BOTH}
    slowdown = _each(results, _BOTH, "ccs", "slowdown")
    holds = all(each.value >= 1.3 for each in faster.values()) and all(each.value < 2 for each in slowdown.values())
    return f"speedup {_words(faster)} ×; slowdown {_words(slowdown)}", holds


_MODULES: Final = (
    Claim("CCS-1", "Insert_RQ doubles DYN's speedup under overload", "1.5 to 2.5×",
          lambda results: _within(1.5, results.times("overload", _RQ, "dyn", "speedup"), 2.5)),
    Claim("CCS-2", "Insert_RQ cuts local slowdown by 20 % under overload", "0.7 to 0.9×",
          lambda results: _within(0.7, results.times("overload", _RQ, "dyn", "slowdown"), 0.9)),
    Claim("CCS-3", "but it stays above 3 in both environments", "> 3", _claim_3),
    Claim("CCS-4", "Set_Memory halves slowdown under overload, speedup stays", "≤ 0.6×; 0.9 to 1.1×", _claim_4),
    Claim("CCS-5", "Set_Quantum cuts slowdown by 45 % where memory fits", "≤ 0.65×",
          lambda results: _within(0, results.times("fits", _QUANTUM, _MEMORY, "slowdown"), 0.65)),
    Claim("CCS-6", "Set_Quantum alone costs the jobs speedup", "< 1× in both", _claim_6),
    Claim("CCS-7", "Events give 40 % speedup, with slowdown below 2 in both", "≥ 1.3×, < 2", _claim_7),
)


def _goal_speedup(results: Results) -> Found:
    return _within(2, results.times("overload", "ccs", "eevdf", "speedup"))


def _goal_slowdown(results: Results) -> Found:
    found = results.mean("overload", "ccs", "slowdown")
    return str(found), found.value < 2


def _goal_latency(results: Results) -> Found:
    found = results.mean("overload", "ccs", "p99_ms")
    return f"{found} ms", found.value < 400


GOALS: Final = (
    Claim("goal", "under overload ccs gives jobs twice EEVDF's speedup", "≥ 2×", _goal_speedup),
    Claim("goal", "with local slowdown below 2", "< 2", _goal_slowdown),
    Claim("goal", "and a p99 system call latency below 400 ms", "< 400 ms", _goal_latency),
)


def _fit_soon(results: Results, workload: str = "overload") -> Found:
    to_eevdf = results.times(workload, "fit", "eevdf", "completion")
    configs = [one for one in results.configs(workload) if not one.startswith("fit")]
    others = {one: results.value(workload, one, "completion") for one in configs}
    best = min(others, key=others.__getitem__)
    to_best = results.times(workload, "fit", best, "completion")
    least = 1 / results.value(workload, "eevdf", "of_limit")
    measured = f"{to_eevdf}× EEVDF's, {to_best}× that of {best}; no scheduler could be below {least:.2f}× EEVDF's"
    return measured, to_eevdf.value <= 0.45 and to_best.value <= 0.8


def _fit_all_end(results: Results) -> Found:
    found = _each(results, _BOTH, "fit", "unfinished")
    return _words(found), all(each.value == 0 for each in found.values())


def _fit_users(results: Results) -> Found:
    found = _each(results, _BOTH, "fit", "slowdown")
    return _words(found), found["overload"].value <= 1.5 and found["fits"].value <= 1.3


def _fit_latency(results: Results, workload: str = "overload") -> Found:
    found = results.times(workload, "fit", "eevdf", "p99_ms")
    return f"{found}×", found.value <= 1


def _fit_users_of(results: Results, workload: str) -> Found:
    users = results.mean(workload, "fit", "slowdown")
    unfinished = results.mean(workload, "fit", "unfinished")
    return f"{users}; {unfinished} jobs not ended", users.value <= 1.5 and unfinished.value == 0


def _fit_no_price(results: Results) -> Found:
    found = results.times("fits", "fit", "eevdf", "completion")
    return f"{found}×", found.value <= 1


_GOALS_OF_FIT: Final = (
    Claim("goal", "under overload jobs are done sooner, in the mean", "≤ 0.45× EEVDF's, ≤ 0.8× the best other's",
          _fit_soon),
    Claim("goal", "every job ends", "0", _fit_all_end),
    Claim("goal", "local users are hardly slowed", "overload ≤ 1.5, fits ≤ 1.3", _fit_users),
    Claim("goal", "under overload the p99 of a system call is EEVDF's at most", "≤ 1×", _fit_latency),
    Claim("goal", "the same with Linux's read-ahead: sooner", "≤ 0.45× EEVDF's, ≤ 0.8× the best other's",
          lambda results: _fit_soon(results, "read-ahead")),
    Claim("goal", "users hardly slowed, every job ends", "≤ 1.5; 0",
          lambda results: _fit_users_of(results, "read-ahead")),
    Claim("goal", "p99 of a system call", "≤ 1× EEVDF's", lambda results: _fit_latency(results, "read-ahead")),
    Claim("goal", "where memory fits jobs are no slower than under EEVDF", "≤ 1×", _fit_no_price),
)

_GOALS_OF_FOUR: Final = (
    Claim("goal", "jobs are done sooner, in the mean", "≤ 0.45× EEVDF's, ≤ 0.8× the best other's", _fit_soon),
    Claim("goal", "users hardly slowed, every job ends", "≤ 1.5; 0",
          lambda results: _fit_users_of(results, "overload")),
    Claim("goal", "the p99 of a system call is EEVDF's at most", "≤ 1×", _fit_latency),
)

# ccs-share

_MIXES: Final = ("COM_L", "COM_M", "COM_H")
_L25, _L50, _L100 = "ccs:L=0.25", "ccs:L=0.5", "ccs:L=1"


def _cost(results: Results, mix: str, less: str, more: str) -> float:
    """The part of its speedup that the smaller L costs."""
    return 1 - results.value(mix, less, "speedup") / results.value(mix, more, "speedup")


def _mean_cost(results: Results, less: str, more: str) -> float:
    return sum(_cost(results, mix, less, more) for mix in _MIXES) / len(_MIXES)


def _claim_11(results: Results) -> Found:
    cost = _mean_cost(results, _L50, _L100)
    return f"{cost:.0%}", 0.05 <= cost <= 0.15


def _claim_12(results: Results) -> Found:
    cost, first = _mean_cost(results, _L25, _L50), _mean_cost(results, _L50, _L100)
    return f"{cost:.0%}, the step before {first:.0%}", 0.15 <= cost <= 0.35 and cost > first


def _claim_13(results: Results) -> Found:
    costs = {mix: _cost(results, mix, _L25, _L100) for mix in _MIXES}
    return _words({mix: f"{cost:.0%}" for mix, cost in costs.items()}), costs["COM_L"] > costs["COM_M"] > costs["COM_H"]


def _claim_14(results: Results) -> Found:
    gain = sum(results.value(mix, _L100, "speedup") / results.value(mix, _L50, "speedup") for mix in _MIXES) / 3 - 1
    worst = all(
        results.value(mix, _L100, key) >= max(results.value(mix, other, key) for other in (_L50, _L25))
        for mix in _MIXES
        for key in ("p99_ms", "slowdown")
    )
    return f"{gain:.0%} faster; for local users L = 1 is {'' if worst else 'not '}the worst everywhere", (
        gain <= 0.15 and worst)


def _longest(results: Results, configs: Iterable[str]) -> float:
    return max(max(results.values(mix, config, "max_ms").values()) for mix in _MIXES for config in configs)


def _claim_15(results: Results) -> Found:
    longest = _longest(results, (_L25, _L50))
    return f"{longest:.0f} ms", longest <= 400


def _claim_16(results: Results) -> Found:
    longest, contract = _longest(results, (_L100, "dyn", "pred")), _longest(results, (_L25, _L50))
    return f"{longest:.0f} ms against {contract:.0f} ms", longest > 800 and longest >= 2 * contract


def _claim_17(results: Results) -> Found:
    gaps = {mix: results.value(mix, _L100, "p99_ms") - results.value(mix, _L50, "p99_ms") for mix in _MIXES}
    return _words({mix: f"{gap:.0f} ms" for mix, gap in gaps.items()}), max(gaps, key=lambda mix: gaps[mix]) == "COM_H"


def _claim_18(results: Results) -> Found:
    found = {mix: [results.value(mix, config, "slowdown") for config in (_L25, _L50, _L100)] for mix in _MIXES}
    holds = all(one <= two <= three < 3 for one, two, three in found.values())
    return _words({mix: ", ".join(f"{each:.2f}" for each in three) for mix, three in found.items()}), holds


_SHARE: Final = (
    Claim("CCS-11", "L from 1 to 0.5 costs 10 % of speedup", "5 to 15 %", _claim_11),
    Claim("CCS-12", "L from 0.5 to 0.25 costs 25 %", "15 to 35 %, more than the step before", _claim_12),
    Claim("CCS-13", "the effect of L decreases with communication", "falls from COM_L to COM_H", _claim_13),
    Claim("CCS-14", "L = 1 gains jobs little and disturbs local users", "≤ 15 %, the worst of the three", _claim_14),
    Claim("CCS-15", "system calls take at most 400 ms with L = 0.5, 0.25", "longest ≤ 400 ms", _claim_15),
    Claim("CCS-16", "more than 800 ms with L = 1 and other techniques", "> 800 ms, ≥ 2 × CCS-15", _claim_16),
    Claim("CCS-17", "the gap between L = 1 and 0.5 is largest in COM_H", "p99, order", _claim_17),
    Claim("CCS-18", "slowdown grows with L, and stays below MPL", "rises, < 3", _claim_18),
)

# ccs-hetero

_NOWS: Final = ("C(0)", "C(.15)", "C(.25)")


def _claim_19(results: Results) -> Found:
    found = _each(results, _NOWS, "pred", "speedup")
    return _words(found), found["C(.25)"].value < found["C(0)"].value


def _claim_20(results: Results) -> Found:
    found = _each(results, _NOWS, "pred", "slowdown")
    return _words(found), found["C(.25)"].value > 3


def _claim_21(results: Results) -> Found:
    gains = {
        f"{config} over {other}": [results.times(now, config, other, "speedup").value for now in _NOWS]
        for config in ("ccs", "poly")
        for other in ("pred", "dyn")
    }
    words = {name: ", ".join(f"{each:.2f}" for each in three) + " ×" for name, three in gains.items()}
    return _words(words), all(three[2] > three[0] for three in gains.values())


def _claim_22(results: Results) -> Found:
    speedup = {now: results.times(now, "poly", "ccs", "speedup") for now in _NOWS}
    slowdown = {now: results.times(now, "poly", "ccs", "slowdown") for now in _NOWS}
    holds = all(abs(1 - each.value) <= 0.15 for each in speedup.values())
    holds &= all(each.value >= 1.5 for each in slowdown.values())
    return f"speedup {_words(speedup)} ×; slowdown {_words(slowdown)} ×", holds


def _claim_23(results: Results) -> Found:
    slowdown = _each(results, _NOWS, "zhang", "slowdown")
    slower = {now: results.times(now, "zhang", "ccs", "speedup") for now in _NOWS}
    low = all(slowdown[now].value < 2.25 for now in _NOWS[:2])
    rises = slowdown["C(.25)"].value > slowdown["C(.15)"].value
    holds = low and rises and all(each.value < 1 for each in slower.values())
    return f"slowdown {_words(slowdown)}; speedup {_words(slower)} × ccs (< 5 says nothing of 2 nodes)", holds


_HETERO: Final = (
    Claim("CCS-19", "Predictive degrades as heterogeneity rises", "speedup falls", _claim_19),
    Claim("CCS-20", "its local slowdown exceeds 3", "> 3 at C(.25)", _claim_20),
    Claim("CCS-21", "CCS and Poly gain on the others with heterogeneity", "gain grows", _claim_21),
    Claim("CCS-22", "Poly is as fast as CCS, with much more slowdown", "± 15 %; ≥ 1.5×", _claim_22),
    Claim("CCS-23", "Zhang: slowdown low but in C(.25), slower than CCS", "< 2.25, rises at C(.25); < 1×", _claim_23),
)

CLAIMS: Final[Mapping[str, tuple[Claim, ...]]] = {
    "ccs-modules": (*_MODULES, *GOALS), "fit": _GOALS_OF_FIT, "fit-4": _GOALS_OF_FOUR,
    "ccs-share": _SHARE, "ccs-hetero": _HETERO, "waiting-jobs": (),
}
