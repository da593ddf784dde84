# SPDX-License-Identifier: GPL-2.0-or-later
"""LoadShare's claims that placement alone can check, with tolerances set before measuring.

Policies are compared seed by seed: a ratio is the mean of the ratios of runs that had the same jobs. Where the paper's
figure belongs to a trace of a month, only its sign or its order is judged.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, Final

from tests.experiments import ccs_stats
from tests.experiments.ccs_stats import Mean
from tests.experiments.verdicts import Claim, Found, Missing

__all__ = ["CLAIMS", "FIGURES", "Results"]

Run = Mapping[str, Any]

FIGURES: Final = {
    "slowdown": "mean slowdown",
    "total_s": "all jobs' lives, s",
    "cpu_s": "CPU time, s",
    "queue_s": "queuing, s",
    "paging_s": "paging, s",
    "held_s": "held, s",
    "placed_s": "placement, s",
    "faults": "major faults",
    "remote": "jobs placed elsewhere",
    "makespan_s": "last completion, s",
    "unfinished": "jobs not ended",
}
_KNOWN: Final = ("cpu", "mem", "cpu-mem-hp", "cpu-mem-ht")
_BOTH: Final = ("cpu-mem-hp", "cpu-mem-ht")


class Results:
    """The runs of the experiment on clusters of one size, by configuration, figure and seed."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self.runs = list(runs)
        self.alone = {run["seed"]: run for run in self.runs if run["config"] == "alone"}
        self._values: dict[tuple[str, str], dict[int, float]] = {}
        for run in self.runs:
            if run["config"] != "alone" and run["seed"] in self.alone:
                for key, value in _figures(run, self.alone[run["seed"]]["jobs"]).items():
                    self._values.setdefault((run["config"], key), {})[run["seed"]] = value

    def values(self, config: str, key: str) -> dict[int, float]:
        """A figure, by seed. Raises Missing."""
        try:
            return self._values[config, key]
        except KeyError:
            raise Missing(f"no run of {config}") from None

    def mean(self, config: str, key: str) -> Mean:
        """Its mean over the seeds. Raises Missing."""
        found = ccs_stats.mean(list(self.values(config, key).values()))
        assert found is not None
        return found

    def times(self, of: str, to: str, key: str) -> Mean:
        """How many times as much `of` has as `to`. Raises Missing."""
        found = ccs_stats.ratio(self.values(of, key), self.values(to, key))
        if found is None:
            raise Missing(f"no seed has {key} of both {of} and {to}")
        return found


def _figures(run: Run, alone: Mapping[str, Run]) -> dict[str, float]:
    """All figures of a run. A job that had not ended counts as long as the run, and with none of its parts."""
    lives = {job["jid"]: (job["ended_s"] or run["makespan_s"]) - job["due_s"] for job in run["jobs"]}
    ended = [job for job in run["jobs"] if job["ended_s"] is not None]
    return {
        "slowdown": statistics.mean(lives[job["jid"]] / alone[job["program"]]["seconds"] for job in run["jobs"]),
        "total_s": sum(lives.values()),
        "cpu_s": sum(job["cpu_s"] for job in ended),
        "queue_s": sum(job["queue_s"] for job in ended),
        "paging_s": sum(_blocked_s(job) - _blocked_s(alone[job["program"]]) for job in ended),
        "held_s": sum(lives[job["jid"]] - job["placed_s"] - job["seconds"] for job in ended),
        "placed_s": sum(job["placed_s"] for job in run["jobs"]),
        "faults": float(sum(node["pgmajfault"] for node in run["nodes"])),
        "remote": statistics.mean(job["node"] != job["home"] for job in run["jobs"]),
        "makespan_s": float(run["makespan_s"]),
        "unfinished": float(len(run["jobs"]) - len(ended)),
    }


def _blocked_s(job: Run) -> float:
    """The time of a life in which the job neither ran nor was ready: it read, waited for pages, or was stopped."""
    return float(job["seconds"] - job["cpu_s"] - job["queue_s"])


def _shown(found: Mapping[str, Mean]) -> str:
    return ", ".join(f"{name} {each}" for name, each in found.items())


def _far_better(results: Results) -> Found:
    found = {f"{one} / {both}": results.times(one, both, "slowdown") for one in ("cpu", "mem") for both in _BOTH}
    return all(each.value > 1.3 for each in found.values()), _shown(found)


def _mem_slightly(results: Results) -> Found:
    found = results.times("cpu", "mem", "slowdown")
    return 1 <= found.value <= 1.15, f"cpu / mem {found}"


def _order(key: str, *best_first: str) -> Callable[[Results], Found]:
    """Each has less of the figure than the next."""

    def test(results: Results) -> Found:
        found = {name: results.mean(name, key) for name in best_first}
        less = [results.times(b, a, key).value > 1 for a, b in pairwise(best_first)]
        return all(less), _shown(found)

    return test


def _below(key: str) -> Callable[[Results], Found]:
    """Both combined policies have less of the figure than MEM, and MEM has less than CPU."""

    def test(results: Results) -> Found:
        reductions = {
            name: 100 * (1 - results.times(name, "cpu", key).value) for name in ("mem", "cpu-mem-hp", "cpu-mem-ht")
        }
        holds = 0 < reductions["mem"] < min(reductions[name] for name in _BOTH)
        return holds, ", ".join(f"{name} {percent:.1f} %" for name, percent in reductions.items()) + " below cpu"

    return test


def _cpu_time(results: Results) -> Found:
    off = {name: results.times(name, "cpu", "cpu_s").value - 1 for name in _KNOWN}
    most, part = max(map(abs, off.values())), max(_placement(results, name) for name in _KNOWN)
    return most <= 0.01 and part < 0.01, f"CPU time differs by at most {most:.1%}; placement takes {part:.2%} of lives"


def _placement(results: Results, config: str) -> float:
    """The part of all lives that was spent on asking for a node."""
    lives = results.values(config, "total_s")
    return statistics.mean(took / lives[seed] for seed, took in results.values(config, "placed_s").items())


def _hp_mostly(results: Results) -> Found:
    hp, ht = (results.values(name, "slowdown") for name in _BOTH)
    seeds = sorted(hp.keys() & ht.keys())
    if len(seeds) < 2:
        raise Missing("one seed has no majority")
    better = [seed for seed in seeds if hp[seed] <= ht[seed]]
    return len(seeds) / 2 < len(better) < len(seeds), f"HP is better with {len(better)} of {len(seeds)} seeds"


def _alone(results: Results) -> Found:
    if not results.alone:
        raise Missing("no program was run alone")
    jobs = [job for run in results.alone.values() for job in run["jobs"].values()]
    shares = {job["program"]: 100 * _blocked_s(job) / job["seconds"] for job in jobs}
    most, faults = max(shares, key=shares.__getitem__), max(job["faults"] for job in jobs)
    holds = faults == 0 and most == "r-wing" and abs(shares[most] - 58.38) <= 5
    return holds, f"at most {faults} major faults; {most} reads for {shares[most]:.1f} % of its life"


def _beats_blocking(results: Results) -> Found:
    found = results.times("blocking", "free", "slowdown")
    return 2 <= found.value <= 12, f"blocking / free {found}"


def _not(id_: str, says: str, why: str) -> Claim[Results]:
    return Claim(id_, says, why, None)


CLAIMS: Final[tuple[Claim[Results], ...]] = (
    _not("LS-1, 2, 6", "slowdown over the page fault rate", "there is one fault rate here, that of a real device"),
    Claim("LS-3", "CPU_MEM_* are far better than CPU and MEM", "slowdown > 1.3 × theirs", _far_better),
    Claim("LS-4", "MEM is slightly better than CPU", "1 ≤ CPU/MEM ≤ 1.15", _mem_slightly),
    Claim("LS-5", "HP is best, then HT, MEM, CPU", "order of slowdowns", _order("slowdown", "cpu-mem-hp", "cpu-mem-ht",
                                                                                "mem", "cpu")),
    Claim("LS-7", "CPU time is equal, migration (here: placement) negligible", "± 1 %; < 1 % of all lives", _cpu_time),
    Claim("LS-8", "MEM pages less than CPU, CPU_MEM_* far less", "order of paging times", _below("paging_s")),
    Claim("LS-9", "MEM queues less than CPU, CPU_MEM_* far less", "order of queuing times", _below("queue_s")),
    Claim("LS-10", "HP is better than HT, not always", "with most seeds, not with all", _hp_mostly),
    _not("LS-11, 12, 46", "months of a log, cited costs, sizes of traces", "these are inputs, or others' results"),
    _not("LS-13, 43", "lifetimes of T. 2 and T. 5", "the programs were made by T. 2"),
    Claim("LS-14", "no program pages alone; r-wing reads most, 58.38 %", "0 major faults; ± 5 points", _alone),
    _not("LS-15 to 22", "programs together on one node, R_p", "nobody is placed in them; results/loadshare.md"),
    _not("LS-23", "instrumentation adds 2.3 %", "the paper's tracer is not used"),
    _not("LS-24", "no load sharing completes 72 to 95 % of the jobs", "swap holds all jobs, so nobody is killed"),
    _not("LS-25", "blocking's slowdowns on three traces", "there is one trace here"),
    Claim("LS-26", "load sharing beats blocking 3 to 10 times", "2 to 12, by placement alone", _beats_blocking),
    _not("LS-27 to 42, 44, 45", "which running job to migrate, and from which MT on",
         "a job that has begun is not moved (docs/cluster.md, CRIU)"),
    _not("LS-47", "remote execution can beat migration", "a job that has begun is not moved"),
)  # fmt: skip
