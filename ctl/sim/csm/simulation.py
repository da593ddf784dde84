# SPDX-License-Identifier: GPL-2.0-or-later
"""Model `csm`: its parameters in the engine's units, a run in the making, and the metrics of CSM §5.1 (eq. 8 to 10)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ctl.sim.engine import EngineRun, ratio, rule_of
from ctl.sim.native import Engine, load
from ctl.sim.params import Value

__all__ = ["CLASSES", "Job", "Simulation", "View", "metrics"]

CLASSES = ("local", "small", "large")
_ANYWHERE = 2**32 - 1
_COUNTERS = (
    *("events", "arrivals", "messages", "wakes", "expiries", "ends", "blocks", "phases", "dispatches", "switches"),
    *("preempts", "faults", "insertions", "tails", "tops", "walks", "parallel_insertions", "by_mes", "by_rec"),
    *("by_flt", "promotions", "passed", "looks", "most_tasks"),
)


class Job(NamedTuple):
    """A job given to the engine instead of drawn."""

    arrives_s: float
    class_: str
    tc_s: float
    vir: int  # pages of each task
    size: int = 1
    node: int | None = None  # of its first task, the others on the next ones; None: mapped by load


class View(NamedTuple):
    """A task of a node, as of now."""

    job: int  # number, in the order of arrival
    vir: int
    res: int
    wrk: int
    cpu_s: float


def _fill(engine: Engine, name: str, values: Mapping[str, Value], seed: int) -> Any:
    """struct sim_params of a complete set of values."""
    v: Mapping[str, Any] = values
    p = engine.ffi.new("struct sim_params *")
    for field in ("cpus", "jobs", "memory", "mnol", "mnod", "refs", "tc_cv", "phase"):
        setattr(p, field, v[field])
    p.seed, p.rule, p.p = seed, rule_of(engine, name), round(v["p"] * 1024)
    p.classify_mes, p.backlog_only = v["classify"] == "mes", v["c_mes"] == "backlog"
    p.eq3_printed, p.top_next = v["eq3"] == "printed", v["top"] == "next"
    p.in_step = v["gaps"] == "job"
    p.equal_slices = v["slices"] == "equal"
    p.enter_free = v["enter"] == "free"
    n, mest = v["nodes"] * v["cpus"], v["mest"]
    p.nodes = n
    p.inject_ns, p.inject_node = v["inject_every_s"] * 1e9, v["inject_node"] * v["cpus"]
    p.mit_ns, p.slice_ns, p.mfreq_ns = v["mit_s"] * 1e9, v["slice_ms"] * 1e6, v["mfreq_ms"] * 1e6
    for field in ("latency", "smq", "fault", "tick", "switch"):
        setattr(p, f"{field}_ns", round(v[f"{field}_ms"] * 1e6))
    if v["mix"] == "two":
        p.local_share, p.large_share = 1 - v["pdt"], 0
    else:
        p.local_share, p.large_share = v["local_share"], v["pdt"]
    low = math.ceil(math.log2(v["small_from"]))
    sizes = [(0, 0), (low, max(low, _log2(n // 8))), (max(0, _log2(n // 4)), _log2(n))]
    pages = [(1, mest), (mest, 2 * mest), (2 * mest, 4 * mest)]
    for c, name_ in enumerate(CLASSES):
        p.tc_ns[c] = v[f"tc_{name_}_s"] * 1e9
        p.size_low[c], p.size_high[c] = (min(size, _log2(n)) for size in sizes[c])
        p.vir_low[c], p.vir_high[c] = pages[c]
        p.wrk_mean[c], p.wrk_sd[c] = v["wrk_local" if c == 0 else "wrk_parallel"], v["wrk_sd"]
    return p


def _log2(n: int) -> int:
    return max(n, 1).bit_length() - 1


class Simulation(EngineRun):
    """A run in progress.

    >>> from ctl.sim.csm.model import MODEL
    >>> with Simulation("rr", MODEL.complete({"jobs": 10, "local_share": 1}), 1) as simulation:
    ...     simulation.advance()
    ...     simulation.stats().sums[0].jobs
    True
    10
    """

    def __init__(
        self, name: str, values: Mapping[str, Value], seed: int, jobs: Sequence[Job] = (), *, kind: str = ""
    ) -> None:
        """Make it ready; `jobs` instead of the generator's, `kind` of engine as in native.load()."""
        engine = load("csm", kind)
        ffi = engine.ffi
        self._params = _fill(engine, name, values, seed)
        self._script = ffi.new("struct sim_script[]", max(len(jobs), 1))
        for out, job in zip(self._script, sorted(jobs), strict=False):
            out.arrives, out.tc = round(job.arrives_s * 1e9), round(job.tc_s * 1e9)
            out.class_, out.size, out.vir = CLASSES.index(job.class_), job.size, job.vir
            out.node = _ANYWHERE if job.node is None else job.node
        self.jobs = len(jobs) or self._params.jobs
        super().__init__(engine, engine.lib.sim_new(self._params, self._script, len(jobs)))

    def records(self) -> Iterable[Any]:
        """struct sim_record of each job, in the order of arrival."""
        records = self.engine.lib.sim_records(self._sim)
        return (records[i] for i in range(self.jobs))

    def gaps_s(self, job: int, count: int) -> list[float]:
        """The CPU time between messages of this job's tasks, the first few; jobs are numbered as they arrive."""
        ns = self.engine.ffi.new("uint64_t[]", count)
        self.engine.lib.sim_gaps(self._params, job, ns, count)
        return [one / 1e9 for one in ns]

    def node(self, number: int) -> list[View]:
        """The tasks that are on a node now."""
        views = self.engine.ffi.new("struct sim_view[]", 64)
        n = self.engine.lib.sim_node_tasks(self._sim, number, views, 64)
        return [View(v.job, v.vir, v.res, v.wrk, v.cpu_ns / 1e9) for v in views[0:n]]


def metrics(stats: Any) -> dict[str, Any]:
    """The numbers a run is kept by. None without such a job."""
    found: dict[str, Any] = {name: getattr(stats, name) for name in _COUNTERS}
    for c, name in enumerate(CLASSES):
        for prefix, sums in (("", stats.sums[c]), ("late_", stats.late[c])):
            found[f"{prefix}slowdown_{name}"] = ratio(sums.tr, sums.tc)
            found[f"{prefix}mean_ratio_{name}"] = ratio(sums.ratio, sums.jobs)
        found[f"jobs_{name}"] = stats.sums[c].jobs
        found[f"tr_{name}"], found[f"tc_{name}"] = stats.sums[c].tr, stats.sums[c].tc
    tr, tc = (found[f"{x}_small"] + found[f"{x}_large"] for x in ("tr", "tc"))
    spread = ratio(stats.correlation_sum, stats.correlation_jobs)
    found |= {
        "slowdown_parallel": ratio(tr, tc),
        "correlation": None if spread is None else 100 - 100 * spread,  # eq. 9, B-CSM-15
        "correlation_clipped": stats.correlation_clipped,
        "mean_pg_fault": stats.mean_pg_fault,  # eq. 8, B-CSM-16
        "mem_load": stats.mem_load,
        "tasks_per_node": stats.tasks_per_node,
        "local_residents": stats.local_residents,
        "window_s": stats.window,
        "end_s": stats.now / 1e9,
        "busy_s": stats.busy,
        "de": list(stats.de)[:8],
    }
    return found
