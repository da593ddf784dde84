# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of README.md: what one gains and what one does not, beside EEVDF and what systemd can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ctl.demo import report as demo
from ctl.demo.results import Results
from docs.tables.gangs import GANGS, gang
from docs.tables.measurements import BENCH, timed
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
    """A row: what is measured, and the cosched configuration of the results; less is better.

    against: the other configurations that have this figure.
    """

    says: str
    config: str
    policy: str
    against: Sequence[str] = ("eevdf", "static")

    def row(self, cell: Value) -> list[str]:
        """Its cells, each told by the configuration's name."""
        cells = [cell(one) if one in self.against else "" for one in ("eevdf", "static")]
        return [self.says, *best([*cells, cell(self.config)]), self.policy]


def _demo(kept: Results, key: str, digits: int | None) -> Value:
    runs = by_config(kept)
    return lambda config: plain(demo.values_of(runs[config])[key].median, digits)


def _waited(kept: Results, place: str, figure: str) -> Value:
    rows = {row[3]: row for row in waiting.rows(kept.runs) if row[:3] == ("mpich", place, "yes")}
    return lambda config: rows[config][waiting.HEADINGS.index(figure)]


def _bench(kept: Results, bench: str) -> Value:
    return lambda config: plain(timed(kept, bench, config)["value"], 0)


def _together(kept: Results, way: str, cpus: int, key: str, digits: int) -> Value:
    def cell(config: str) -> str:
        row = gang(kept, way, config, cpus)
        cut = key == "value" and 2 * row["cut"] > row["runs"]
        return plain(row[key] / 1e6, digits) + " or more" * cut

    return cell


def _cluster(kept: Results, key: str, digits: int) -> Value:
    runs = ccs_claims.Results(kept.runs)
    return lambda config: plain(runs.value(_CLUSTER, config, key), digits)


def _loopback(kept: Results) -> list[str]:
    def ratios(where: str, *sensors: str) -> list[float]:
        return [timed(kept, f"pingpong-{kind}{where}", sensor, "observations")["ratio"]
                for kind in ("unix", "udp", "tcp") for sensor in sensors]  # fmt: skip

    job, free = ratios("-job", "sockets", "sockets-all"), max(ratios("", "sockets"))
    says = f"loopback round trip in a job, socket sensor on, times (no job: {free:.2f})"
    return [says, *best([plain(1, 2), "", f"{min(job):.2f} to {max(job):.2f}"]), "all"]


def _grid(waited: Results, two: Results, cluster: Results, bench: Results, many: Results, cores: Results) -> Grid:
    one, both, mpi = ("eevdf",), "two nodes", "csm+spin_ms=2"
    return Grid(_HEADINGS, [
        *(_Line(f"{cpus} CPUs, a busy local task on each: barriers by sched_yield, ms", "csm", "csm", one)
          .row(_together(many, "yield", cpus, "value", 0)) for cpus in (2, 8)),
        _Line("the same: p99 delay of a sleeper, ms", "csm", "csm", one)
        .row(_together(many, "yield", 8, "late_p99", 1)),
        _Line("2 CPUs, an MPI job, a user's compilers: compilers done after, s", "csm", "csm", one)
        .row(_demo(cores, "compiled", 1)),
        _Line("the same: job done after, s", "csm", "csm", one).row(_demo(cores, "last_completion", 1)),
        _Line("the same: p99 response of a local task, ms", "csm", "csm", one).row(_demo(cores, "local.p99", 1)),
        _Line("CPU time of an MPI rank that waits 3 s beside a busy local task, s", mpi, "csm", one)
        .row(_waited(waited, both, "CPU in the wait, s")),
        _Line("two jobs, a local task, too little memory: both done after, s", "fit", "fit")
        .row(_demo(two, "last_completion", 1)),
        _Line("the same: p99 response of the local task, ms", "fit", "fit").row(_demo(two, "local.p99", None)),
        _Line("jobs of two nodes, memory too small: mean completion, s", "fit", "fit")
        .row(_cluster(cluster, "completion", 0)),
        _Line("the same, p99 of system calls, ms", "fit", "fit").row(_cluster(cluster, "p99_ms", 1)),
        _Line("cost of a switch among 128 local tasks while a job sleeps, ns", "csm", "csm", one)
        .row(_bench(bench, "switch-128-beside")),
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
            GANGS,
            Source("demo-cores", ("config",)),
        ),
        _grid,
        brief=True,
    ),
)
