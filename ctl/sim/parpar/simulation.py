# SPDX-License-Identifier: GPL-2.0-or-later
"""Model `parpar`: its parameters in the engine's units, a run in the making, and the metrics of ParPar §4.3."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from ctl.sim.engine import EngineRun
from ctl.sim.native import Engine, load
from ctl.sim.params import Value
from ctl.sim.parpar.estimator import Estimator
from ctl.sim.parpar.program import miss_ratios, pages
from ctl.sim.parpar.workload import Job

__all__ = ["ADMIT", "GANG", "Record", "Simulation", "metrics"]

GANG, ADMIT = "gang", "admit"
"""The policies: gang scheduling as it was, by load factor alone; with memory admission (§3.2)."""

_NEVER = 2**64 - 1  # of a record: it has not happened
_ASK = 2**32 - 1
_ROOM = 1024


def _fill(engine: Engine, policy: str, values: Mapping[str, Value], seed: int) -> Any:
    """struct sim_params of a complete set of values."""
    v: Mapping[str, Any] = values
    p = engine.ffi.new("struct sim_params *")
    for field in ("nodes", "rows", "skips", "access_ns"):
        setattr(p, field, v[field])
    p.seed, p.memory, p.admits = seed, pages(v["free_mb"]), policy == ADMIT
    p.limit = math.floor(v["node_mb"] * v["c"] * 256 + 1e-6)
    p.measured, p.at_most = v["used"] == "measured", v["give_up"] if v["trial"] == "dynamic" else 0
    p.slot_ns = max(round(v["slot_s"] * 1e9), 1)
    p.switch_ns, p.fault_ns = round(v["switch_ms"] * 1e6), round(v["fault_ms"] * 1e6)
    p.footprint = pages(v["job_mb"])
    return p


class Record(NamedTuple):
    """The outcome of a job."""

    started_s: float | None  # None: not yet
    ended_s: float | None
    faults: int
    skips: int  # how often it was skipped in the queue
    queued: bool  # it did not start when it was first looked at
    row: int
    node: int  # its first


def _seconds(ns: int) -> float | None:
    return None if ns == _NEVER else ns / 1e9


class Simulation(EngineRun):
    """A run in progress.

    >>> from ctl.sim.parpar.model import MODEL
    >>> from ctl.sim.parpar.estimator import Kind
    >>> values = MODEL.complete({"nodes": 1})
    >>> with Simulation("gang", values, 1, [Job(0.0, s, 1, 100, 100, Kind(0, 1, 0)) for s in (1.5, 0.5)]) as two:
    ...     two.advance()
    ...     [record.ended_s for record in two.records()]
    True
    [2.0, 1.5]
    """

    def __init__(
        self, policy: str, values: Mapping[str, Value], seed: int, jobs: Sequence[Job], *, kind: str = ""
    ) -> None:
        """Make it ready for `jobs`, which are in order of arrival; `kind` of engine as in native.load()."""
        engine = load("parpar", kind)
        ffi = engine.ffi
        self.jobs, self.nodes = jobs, int(values["nodes"])
        history = values["estimate"] == "history"
        self._estimator = Estimator(float(values["deviations"]), float(values["period_days"]) * 86400)
        self._given = ffi.new("struct sim_job[]", max(len(jobs), 1))
        for out, job in zip(self._given, jobs, strict=False):
            out.arrives, out.cpu = round(job.arrives_s * 1e9), max(round(job.cpu_s * 1e9), 1)
            out.size, out.pages, out.estimate = job.size, job.pages, _ASK if history else job.static
        theta, job_mb = float(values["theta"]), float(values["job_mb"])
        miss = list(miss_ratios(theta, int(values["k_bytes"]), job_mb, int(values["accesses"])))
        self._ended = ffi.new("uint32_t[]", _ROOM)
        params = _fill(engine, policy, values, seed)
        super().__init__(engine, engine.lib.sim_new(params, self._given, len(jobs), miss))

    def _step(self, until_ns: int, events: int) -> int:
        """Have the engine go on, and tell it the estimates that it asks for."""
        while (status := super()._step(until_ns, events)) == self.engine.lib.SIM_ASKS:
            self.engine.lib.sim_estimate(self._sim, self._estimate(self.engine.lib.sim_asked(self._sim)))
        return status

    def _estimate(self, number: int) -> int:
        """Pages by the previous runs that have ended, else by the executable (§2)."""
        records = self.engine.lib.sim_records(self._sim)
        while n := self.engine.lib.sim_ended(self._sim, self._ended, _ROOM):
            for ended in self._ended[0:n]:
                job = self.jobs[ended]
                self._estimator.observe(job.kind, job.pages, records[ended].ended / 1e9)
        job = self.jobs[number]
        known = self._estimator.estimate(job.kind, job.arrives_s)
        return job.static if known is None else math.ceil(known - 1e-9)

    def records(self) -> list[Record]:
        """The outcome of each job so far, in the order of arrival."""
        records = self.engine.lib.sim_records(self._sim)[0 : len(self.jobs)]
        return [Record(_seconds(r.started), _seconds(r.ended), r.faults, r.skips, bool(r.queued), r.row, r.node)
                for r in records]  # fmt: skip

    def estimates(self) -> list[int]:
        """Pages that each job was thought to use."""
        return [job.estimate for job in self._given[0 : len(self.jobs)]]

    def residents(self, node: int) -> list[int]:
        """Resident pages of a node's processes, least recently run first."""
        out = self.engine.ffi.new("uint32_t[]", _ROOM)
        return list(out[0 : self.engine.lib.sim_residents(self._sim, node, out, _ROOM)])

    def ops(self) -> list[tuple[int, int, int, int]]:
        """The steps of a checked engine's resource manager since the last call: enum sim_what, job, row, first node."""
        out = self.engine.ffi.new("struct sim_op[]", 1 << 20)
        n = self.engine.lib.sim_ops(self._sim, out, 1 << 20)
        return [(op.what, op.job, op.row, op.node) for op in out[0:n]]


_COUNTERS = (
    *("events", "slots", "runs", "switches", "faults", "stolen", "arrivals", "starts", "ends", "scans", "alone"),
    *("barriers", "most_jobs", "most_rows", "most_load"),
)


def metrics(simulation: Simulation) -> dict[str, Any]:
    """The numbers a run is kept by; response and slowdown as in §4.3, times in s.

    A run that was given up has no times: they would grow with the run.
    """
    stats, jobs = simulation.stats(), simulation.jobs
    end_s, span = stats.now / 1e9, jobs[-1].arrives_s
    found: dict[str, Any] = {name: getattr(stats, name) for name in _COUNTERS}
    rows = [(job, r) for job, r in zip(jobs, simulation.records(), strict=True) if job.arrives_s <= end_s]
    found |= {
        "queued_percent": 100 * sum(r.queued for _, r in rows) / len(rows),
        "most_skips": max(r.skips for _, r in rows),
        "saturated_percent": 100 * stats.overload,
        "time_s": end_s,  # of a static trial: until all have ended
        "busy_s": stats.busy,
        "paging_s": stats.paging,
        "mean_jobs": stats.job_area / end_s if end_s else 0.0,
        # the load with run times weighted by size; §4.3's formula multiplies the means
        "work_load": math.fsum(job.cpu_s * job.size for job in jobs) / (span * simulation.nodes) if span else None,
        "jobs": len(rows),
    }
    done = [(job, r.ended_s) for job, r in rows if r.ended_s is not None]
    return found | (_times(done) if len(done) == len(rows) else dict.fromkeys(_TIMES))


_TIMES = ("response_s", "slowdown", "median_slowdown", "short_slowdown")


def _times(done: Sequence[tuple[Job, float]]) -> dict[str, float]:
    """Means over the jobs; `short_slowdown` is what those of the median run time or less add to the mean slowdown."""
    response = [ended_s - job.arrives_s for job, ended_s in done]
    slowdown = [t / job.cpu_s for t, (job, _) in zip(response, done, strict=True)]
    middle = median(job.cpu_s for job, _ in done)
    short = [s for s, (job, _) in zip(slowdown, done, strict=True) if job.cpu_s <= middle]
    response_s, mean, short_part = (math.fsum(of) / len(done) for of in (response, slowdown, short))
    return dict(zip(_TIMES, (response_s, mean, median(slowdown), short_part), strict=True))
