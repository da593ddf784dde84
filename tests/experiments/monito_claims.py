# SPDX-License-Identifier: GPL-2.0-or-later
"""Monito's claims that need real nodes, with tolerances that were set before measuring."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tests.experiments.monito_plan import MODES
from tests.experiments.verdicts import Claim, Found, Missing

__all__ = ["CLAIMS", "Results"]

_ALIKE: Final = 0.2  # "about the same": within so much of the larger
_SMALL: Final = 10.0  # percent: a slowdown that is scarcely one


class Results:
    """What was measured, by kind; medians over the seeds."""

    def __init__(self, measured: Iterable[Mapping[str, Any]]) -> None:
        self.measured = list(measured)

    def _median(self, what: str, values: list[float]) -> float:
        if not values:
            raise Missing(what)
        return statistics.median(values)

    def of(self, kind: str, **wanted: object) -> list[Mapping[str, Any]]:
        """The measurements of a kind that have these values."""
        return [
            one
            for one in self.measured
            if one["kind"] == kind and all(one.get(key) == value for key, value in wanted.items())
        ]

    def loads(self, program: str) -> list[int]:
        """The loads beside which a program ran. Raises Missing."""
        found = sorted({one["load"] for one in self.of("time", program=program)})
        if not found:
            raise Missing(f"no run of {program}")
        return found

    def whole(self, program: str) -> list[int]:
        """The loads beside which it ran in all modes; if none are whole, all. Raises Missing."""
        loads = self.loads(program)
        have = {(one["mode"], one["load"]) for one in self.of("time", program=program)}
        return [load for load in loads if all((mode, load) in have for mode in MODES)] or loads

    def time(self, program: str, mode: str, load: int) -> float:
        """Seconds that a program took. Raises Missing."""
        runs = self.of("time", program=program, mode=mode, load=load)
        return self._median(f"no run of {program} in mode {mode} with load {load}", [run["seconds"] for run in runs])

    def times(self, program: str, load: int) -> dict[str, float]:
        """The same of all modes."""
        return {mode: self.time(program, mode, load) for mode in MODES}

    def compile(self, program: str, mode: str) -> float:
        """Seconds that a compiler took beside a program, mean of the nodes. Raises Missing."""
        runs = self.of("local", program=program, mode=mode)
        return self._median(
            f"no compiler beside {program} in mode {mode}", [statistics.mean(run["compile_s"]) for run in runs]
        )

    def slowdown(self, program: str, mode: str) -> float:
        """Table 3: how much longer a compiler takes than in mode PVM, percent. Raises Missing."""
        base = self.compile(program, "PVM")
        return 100 * (self.compile(program, mode) - base) / base

    def slowdowns(self, program: str) -> dict[str, float]:
        """The same of all other modes."""
        return {mode: self.slowdown(program, mode) for mode in MODES if mode != "PVM"}

    def switches(self, name: str) -> float:
        """A figure of tests/progs/switches.c, us. Raises Missing."""
        return self._median(f"no {name}", [run[name] for run in self.of("switches")])

    def peaks(self, figure: str) -> dict[int, float]:
        """The largest value of a figure of `ctl netmon`, by load. Raises Missing."""
        found: dict[int, float] = {}
        for run in self.of("queues"):
            if run["peaks"].get(figure) is not None:
                found[run["load"]] = max(found.get(run["load"], 0), run["peaks"][figure])
        if not found:
            raise Missing(f"no {figure}")
        return found


def _by_load(results: Results, program: str, modes: Iterable[str]) -> str:
    each = (
        f"load {load}: " + ", ".join(f"{mode} {results.time(program, mode, load):.2f}" for mode in modes)
        for load in results.whole(program)
    )
    return "; ".join(each) + " s"


def _everywhere(results: Results, holds: Callable[[Mapping[str, float]], bool]) -> bool:
    """Whether it holds for sintree's times beside each load."""
    return all(holds(results.times("sintree", load)) for load in results.whole("sintree"))


def _prio_first(results: Results) -> Found:
    first = [min((times := results.times("sintree", load)), key=times.__getitem__)
             for load in results.whole("sintree")]  # fmt: skip
    numbers = ", ".join(f"load {load}: {mode}" for load, mode in zip(results.whole("sintree"), first, strict=True))
    return all(mode == "PRIO" for mode in first), f"the first is, {numbers}"


def _explicit_last(results: Results) -> Found:
    times = results.times("sintree", 0)
    last = max(times, key=times.__getitem__)
    return last == "EXPLICIT", f"the last is {last}, {times[last]:.2f} s; EXPLICIT {times['EXPLICIT']:.2f} s"


def _explicit_steady(results: Results) -> Found:
    most = results.whole("sintree")[-1]
    times = results.time("sintree", "EXPLICIT", most) / results.time("sintree", "EXPLICIT", 0)
    return times < 1.2 and most > 0, f"load {most}: {times:.2f} times as long as without"


def _between(results: Results) -> Found:
    holds = _everywhere(results, lambda times: all(times["PRIO"] <= times[mode] <= times["PVM"]
                                                   for mode in ("MXI", "SPIN")))  # fmt: skip
    return holds, _by_load(results, "sintree", ("PRIO", "MXI", "SPIN", "PVM"))


def _spin_faster(results: Results) -> Found:
    holds = _everywhere(results, lambda times: times["SPIN"] < times["PVM"])
    return holds, _by_load(results, "sintree", ("SPIN", "PVM"))


def _spin_in_vain(results: Results) -> Found:
    pairs = (("PRIOSPIN", "PRIO"), ("MXISPIN", "MXI"))
    holds = _everywhere(results, lambda times: all(times[more] > times[less] for more, less in pairs))
    return holds, _by_load(results, "sintree", ("PRIO", "PRIOSPIN", "MXI", "MXISPIN"))


def _spin_gain(results: Results, program: str) -> float:
    """Of all loads, the part of PVM's time that SPIN saves; percent."""
    return 100 * statistics.mean(
        1 - results.time(program, "SPIN", load) / results.time(program, "PVM", load) for load in results.whole(program)
    )


def _is_gains_less(results: Results) -> Found:
    gains = {program: _spin_gain(results, program) for program in ("mg", "is")}
    numbers = f"SPIN saves {gains['mg']:.1f} % of PVM's time with mg, {gains['is']:.1f} % with is"
    return gains["is"] < gains["mg"], numbers


def _percent(values: Mapping[str, float]) -> str:
    return ", ".join(f"{mode} {value:.1f}" for mode, value in values.items()) + " %"


def _all_small(program: str, *, spin_highest: bool = False) -> Callable[[Results], Found]:
    def test(results: Results) -> Found:
        found = results.slowdowns(program)
        others = [value for mode, value in found.items() if mode not in ("SPIN", "MXISPIN")]
        highest = min(found["SPIN"], found["MXISPIN"]) > max(others)
        return max(found.values()) < _SMALL and (highest or not spin_highest), _percent(found)

    return test


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= _ALIKE * max(abs(one), abs(other))


def _mg_order(results: Results) -> Found:
    """The text's order is of the program that computes (B-MO-12)."""
    found = results.slowdowns("mg")
    holds = (
        _alike(found["PRIO"], found["PRIOSPIN"])
        and min(found["PRIO"], found["PRIOSPIN"]) >= 2 * found["EXPLICIT"]
        and found["EXPLICIT"] >= 4 * found["SPIN"]
        and _alike(found["SPIN"], found["MXISPIN"])
        and min(found["SPIN"], found["MXISPIN"]) > found["MXI"]
    )
    return holds, _percent(found)


def _t_im(results: Results) -> Found:
    took = results.switches("switch_us")
    return 5 <= took <= 20, f"2 W = {took:.1f} µs, and sp is that"


def _t_ex(results: Results) -> Found:
    expected = 2 * results.switches("switch_us") + results.switches("signal_us")
    took = {name: results.switches(f"{name}_us") for name in ("start", "stop")}
    numbers = f"4 W + S_sig = {expected:.1f} µs; T_start {took['start']:.1f}, T_stop {took['stop']:.1f} µs"
    return all(abs(each / expected - 1) <= 0.25 for each in took.values()), numbers


def _receive_queue_full(results: Results) -> Found:
    fills = results.peaks("sockets.rcv_fill")
    there = results.peaks("sockets.rcv_bytes")
    numbers = ", ".join(
        f"load {load}: {fill:.0f} % of SO_RCVBUF, {there[load]:,.0f} bytes" for load, fill in fills.items()
    )
    return max(fills.values()) >= 90, numbers


def _others_not_full(results: Results) -> Found:
    parts: dict[str, float] = {}
    for run in results.of("queues"):
        for figure, capacity in run["capacities"].items():
            parts[figure] = max(parts.get(figure, 0.0), 100 * (run["peaks"].get(figure) or 0) / capacity)
    if not parts:
        raise Missing("no queues")
    return max(parts.values()) < 90, ", ".join(f"{figure} {part:.1f} %" for figure, part in parts.items())


def _tells_of_itself(results: Results) -> Found:
    runs = results.of("queues")
    if not runs:
        raise Missing("no report of netmon")
    numbers = "; ".join(
        f"load {run['load']}: {run['report']['samples']} samples of {1e3 * run['report']['period_s']:.0f} ms, "
        f"{100 * run['report']['cpu_share']:.1f} % of a CPU, {100 * run['report']['overlapped']:.1f} % overlapped, "
        f"longest excess {1e3 * run['report']['longest_excess_s']:.1f} ms"
        for run in runs
    )
    return all(run["report"]["samples"] > 0 for run in runs), numbers


CLAIMS: Final[tuple[Claim[Results], ...]] = (
    Claim("MO-1", "PRIO is best for sintree", "the shortest time beside each load", _prio_first),
    Claim("MO-2", "EXPLICIT is worst without local tasks", "the longest time, load 0", _explicit_last),
    Claim("MO-3", "EXPLICIT scarcely degrades with local load", "< 1.2 times", _explicit_steady),
    Claim("MO-4", "MXI and SPIN scale, between PVM and PRIO", "order beside each load", _between),
    Claim("MO-5", "SPIN is faster than PVM", "beside each load", _spin_faster),
    Claim("MO-6", "PRIOSPIN is worse than PRIO, MXISPIN than MXI", "signs beside each load", _spin_in_vain),
    Claim("MO-7", "mg behaves as sintree, is does worse in the SPIN cases", "SPIN gains less with is", _is_gains_less),
    Claim("MO-8", "Table 3, sintree: SPIN's family highest", "all < 10 %, SPIN, MXISPIN highest",
          _all_small("sintree", spin_highest=True)),
    Claim("MO-9", "Table 3, is: scarcely slower", "all < 10 %", _all_small("is")),
    Claim("MO-10", "Table 3, mg: PRIO's far above EXPLICIT, that above SPIN's, these above MXI",
          "PRIO ≈ PRIOSPIN ≥ 2 × EXPLICIT ≥ 4 × SPIN ≈ MXISPIN > MXI; ≈: within 20 %", _mg_order),
    Claim("MO-11", "T_im = 2 W is about 10 µs, so sp is", "5 to 20 µs", _t_im),
    Claim("MO-12", "T_ex = 4 W + S_sig", "both within 25 %", _t_ex),
    Claim("MO-13", "CBL saturates at 14 = 16 - 2",
          "the driver of the nodes' virtio-net tells the bytes in its ring, no packets, and reserves none", None),
    Claim("MO-14", "receive_queue saturates at 65,535 bytes", "≥ 90 % of SO_RCVBUF", _receive_queue_full),
    Claim("MO-15", "pvmrxlist: its bytes by its packets are the size of a message",
          "MPI's tools interface counts the messages that wait in the library, and no bytes", None),
    Claim("MO-16", "no other layer saturates", "< 90 % of capacity", _others_not_full),
    Claim("MO-19", "Netmon tells how far sampling perturbs", "overlaps and longest excess are told", _tells_of_itself),
)  # fmt: skip
