# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of README.md: what one gains and what one does not, beside EEVDF and what systemd can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ctl.demo import report as demo
from ctl.demo.results import Results
from docs.tables.measurements import BENCH, SMP, timed, together
from docs.tables.table import Grid, Source, Table, best, by_config, plain
from tests.experiments import ccs_claims, waiting

__all__ = ["TABLES"]

_CLUSTER: Final = "read-ahead"  # the workload of jobs of two nodes: a fault brings eight pages, as Linux has it
_SHOWN: Final = {"workload": [_CLUSTER], "config": ["alone", "eevdf", "static", "fit"]}
_HEADINGS: Final = ("measured", "EEVDF", "static", "cosched", "policy")

Value = Callable[[str], str]
"""The cell of a configuration."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A row: what is measured, the cosched configuration of the results, and what choose takes of the cells: min, max.

    against: the other configurations that have this figure.
    """

    says: str
    config: str
    policy: str
    against: Sequence[str] = ("eevdf", "static")
    choose: Callable[[Sequence[float]], float] = min

    def row(self, cell: Value) -> list[str]:
        """Its cells, each told by the configuration's name."""
        cells = [cell(one) if one in self.against else "" for one in ("eevdf", "static")]
        return [self.says, *best([*cells, cell(self.config)], self.choose), self.policy]


def _demo(kept: Results, key: str, digits: int | None) -> Value:
    runs = by_config(kept)
    return lambda config: plain(demo.values_of(runs[config])[key].median, digits)


def _waited(kept: Results, place: str, figure: str) -> Value:
    rows = {row[3]: row for row in waiting.rows(kept.runs) if row[:3] == ("mpich", place, "yes")}
    return lambda config: rows[config][waiting.HEADINGS.index(figure)]


def _bench(kept: Results, bench: str) -> Value:
    return lambda config: plain(timed(kept, bench, config)["value"], 0)


def _together(kept: Results, bench: str, key: str, digits: int) -> Value:
    return lambda config: plain(together(kept, bench, config)[key] / 1e6, digits)


def _cluster(kept: Results, key: str, digits: int) -> Value:
    runs = ccs_claims.Results(kept.runs)
    return lambda config: plain(runs.value(_CLUSTER, config, key), digits)


def _loopback(kept: Results) -> list[str]:
    def ratios(where: str, *sensors: str) -> list[float]:
        return [timed(kept, f"pingpong-{kind}{where}", sensor, "observations")["ratio"]
                for kind in ("unix", "udp", "tcp") for sensor in sensors]  # fmt: skip

    job, free = ratios("-job", "sockets", "sockets-all"), max(ratios("", "sockets"))
    says = f"loopback round trip in a job with the socket sensor on, times (on a node without jobs {free:.2f})"
    return [says, *best([plain(1, 2), "", f"{min(job):.2f} to {max(job):.2f}"]), "all"]


def _grid(waited: Results, two: Results, cluster: Results, bench: Results, smp: Results) -> Grid:
    one, both, mpi = ("eevdf",), "two nodes", "csm+spin_ms=2"
    return Grid(_HEADINGS, [
        _Line("a hog on each of 2 CPUs: threads at 1,000 barriers, sched_yield, ms", "csm", "csm", one)
        .row(_together(smp, "barriers-yield-hogs", "value", 0)),
        _Line("by futex, ms", "csm", "csm", one).row(_together(smp, "barriers-futex-hogs", "value", 0)),
        _Line("p99 delay of a local task that sleeps, ms", "csm", "csm", one)
        .row(_together(smp, "barriers-yield-hogs", "late_p99", 1)),
        _Line("CPU time of an MPI rank that waits 3 s beside a busy local task, s", mpi, "csm", one)
        .row(_waited(waited, both, "CPU in the wait, s")),
        _Line("the local task's part of the CPU meanwhile", mpi, "csm", one, max)
        .row(_waited(waited, both, "hog's part")),
        _Line("round trip between two such ranks on two nodes, ms", mpi, "csm", one)
        .row(_waited(waited, both, "round trip, ms")),
        _Line("two jobs, a local task, too little memory: both done after, s", "fit", "fit")
        .row(_demo(two, "last_completion", 1)),
        _Line("the same: mean completion, s", "fit", "fit").row(_demo(two, "mean_completion", 1)),
        _Line("the same: p99 response of the local task, ms", "fit", "fit").row(_demo(two, "local.p99", None)),
        _Line("jobs of two nodes, memory too small: mean completion, s", "fit", "fit")
        .row(_cluster(cluster, "completion", 0)),
        _Line("the same, p99 of system calls, ms", "fit", "fit").row(_cluster(cluster, "p99_ms", 1)),
        _Line("cost of a switch among 16 local tasks while a job sleeps, ns", "csm", "csm", one)
        .row(_bench(bench, "switch-16-beside")),
        _Line("the same, among 128, ns", "csm", "csm", one).row(_bench(bench, "switch-128-beside")),
        _Line("two jobs in too little memory: mean completion, s", "csm", "csm")
        .row(_demo(two, "mean_completion", 1)),
        _Line("the same: p99 response of the local task, ms, a user present", "ccs+local_user=on", "ccs")
        .row(_demo(two, "local.p99", None)),
        _Line("round trip of such ranks on one node, ms", mpi, "csm", one)
        .row(_waited(waited, "one node", "round trip, ms")),
        _loopback(bench),
    ])  # fmt: skip


TABLES: Final = (
    Table(
        "gains",
        (
            Source("waiting", ("library", "place", "hog", "config"), {"library": ["mpich"], "hog": [True]}),
            Source("demo", ("config",)),
            Source("fit", ("config",), _SHOWN, "means"),
            BENCH,
            SMP,
        ),
        _grid,
        brief=True,
    ),
)
