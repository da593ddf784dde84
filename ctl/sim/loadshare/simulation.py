# SPDX-License-Identifier: GPL-2.0-or-later
"""Both models of load sharing: parameters in the engine's units, workloads, a run in the making, and its metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ctl.errors import FAILED, CoschedError
from ctl.sim.engine import EngineRun
from ctl.sim.loadshare.params import MONTHS
from ctl.sim.loadshare.programs import GROUPS, SETS, TRACES, Program
from ctl.sim.native import Engine, load
from ctl.sim.params import Value

__all__ = ["KNOWN_POLICIES", "UNKNOWN_POLICIES", "Job", "Simulation", "fill", "from_log", "metrics", "workload"]

KNOWN_POLICIES = {"none": "NONE", "cpu": "CPU", "mem": "MEM", "cpu-mem-hp": "HP", "cpu-mem-ht": "HT"}
UNKNOWN_POLICIES = {
    "none": "NONE", "blocking": "BLOCKING", "pf-rate": "PF_RATE", "worksize": "WORKSIZE", "age": "AGE",
    "combined": "COMBINED",
}  # fmt: skip
"""The engine's names of the policies."""

_ENDLESS = "longer than the clock's range"  # the engine's own words
_OVERLOAD = "this load is more than the nodes bear"
_DAYS = 32  # of a trace, each a node's (LoadShare §2.2.2)
_MB = 1024  # KB
_COUNTERS = ("events", "done", "killed", "holds", "submissions", "moves", "checks", "retries")
_SUMS = {"response": "wall", "service": "cpu", **{name: name for name in ("io", "queue", "paging", "migration")}}


class Job(NamedTuple):
    """A job given to the engine. Its working set is high_mb from the start, or grows from low_mb over ramp_s of CPU."""

    arrives_s: float
    node: int
    cpu_s: float
    high_mb: float
    request_mb: float = 0.0
    low_mb: float = 0.0
    ramp_s: float = 0.0
    io_s: float = 0.0
    ios: int = 0


def fill(engine: Engine, policy: str, values: Mapping[str, Value]) -> Any:
    """struct sim_params of a complete set of values; of the second part where these have a memory threshold."""
    v: Mapping[str, Any] = values
    unknown = "mt" in v
    p = engine.ffi.new("struct sim_params *")
    names = UNKNOWN_POLICIES if unknown else KNOWN_POLICIES
    p.policy, p.unknown = getattr(engine.lib, "POLICY_" + names[policy]), unknown
    for field in ("nodes", "ct"):
        setattr(p, field, v[field])
    for field in ("fault", "quantum", "switch"):
        setattr(p, f"{field}_ns", round(v[f"{field}_ms"] * 1e6))
    p.remote_ns, p.refresh_ns = round(v["remote_s"] * 1e9), round(v["refresh_s"] * 1e9)
    if not unknown:
        p.memory = round(v["memory_mb"] * _MB)
        p.sigma, p.mips = v["sigma"], v["mips"]
        p.include_arrival, p.place = v["include_arrival"] == "yes", v["all_refuse"] == "place"
        return p
    memory, swap = (121.0, 128.0) if v["programs"] == "seven" else (384 * 121 / 128, 380.0)
    p.memory, p.swap = round((v["memory_mb"] or memory) * _MB), round((v["swap_mb"] or swap) * _MB)
    p.remote_ns = round((v["remote_s"] or (0.1 if v["network_mbps"] <= 10 else 0.05)) * 1e9)
    p.rate = getattr(engine.lib, "RATE_" + v["rate"].upper())
    p.literal_target, p.bus = v["target"] == "literal", v["bus"] == "shared"
    for field in ("r_max", "alpha", "beta", "gamma", "delta", "eta", "mu", "stable", "useful"):
        setattr(p, field, v[field])
    for field in ("mt", "internal", "block_at"):
        setattr(p, field, v[field] / 100)
    p.delay_ns, p.check_ns = round(v["delay_s"] * 1e9), round(v["check_s"] * 1e9)
    p.tick_ns = round(v["tick_ms"] * 1e6)
    p.kb_ns = 8192 * 1000 / v["network_mbps"]
    return p


# --- workloads ---


def from_log(path: str, nodes: int, first_day: int) -> list[Job]:
    """The jobs of `nodes` days of a log, the jobs of each day on a node of its own, made sequential as in LoadShare
    §2.2.2.

    CPU time and memory are sums over a job's processors. Jobs without run time or memory are left out.
    """
    from ctl.sim.workloads import swf  # type: ignore[import-not-found, import-untyped, unused-ignore]

    jobs = []
    for job in swf.read(path).jobs:
        day = int(job.submit_s // 86400) - first_day
        cpu_s = job.cpu_s or job.run_s
        kb = job.requested_memory_kb or job.used_memory_kb
        if 0 <= day < nodes and cpu_s and kb and job.processors:
            mb = kb * job.processors / _MB
            jobs.append(Job(job.submit_s - first_day * 86400, day, cpu_s * job.processors, 0.0, mb))
    if not jobs:
        raise CoschedError(f"{path} has no job with CPU time and memory in days {first_day} to {first_day + nodes}")
    return jobs


def _given(out: Any, jobs: Sequence[Job], load_share: float) -> None:
    """struct sim_job of each job; jobs that only request memory use a share of the request."""
    for to, job in zip(out, sorted(jobs, key=lambda job: job.arrives_s), strict=False):
        to.arrives, to.node = round(job.arrives_s * 1e9), job.node
        to.cpu, to.io, to.ios = round(job.cpu_s * 1e9), round(job.io_s * 1e9), job.ios
        to.request = round(job.request_mb * _MB)
        to.high = round((job.high_mb or job.request_mb * load_share) * _MB)
        to.low, to.ramp = (round(job.low_mb * _MB), round(job.ramp_s * 1e9)) if job.ramp_s else (to.high, 0)


def _of(program: Program, at_s: float, node: int, growth: float) -> Job:
    ramp_s = {"no": 0.0, "half": growth * program.cpu_s, "life": program.cpu_s}[program.grows]
    return Job(
        at_s, node, program.cpu_s, program.high_mb, 0.0, program.low_mb, ramp_s, program.io_s, program.ios
    )  # fmt: skip


def _group(v: Mapping[str, Any], memory_kb: int) -> list[Job]:
    """The jobs of parameter `group`, all on node 0 at time 0."""
    programs = SETS[v["programs"]]
    if v["group"] == "equal":
        each = memory_kb / _MB * (1 + v["oversize"] / 100) / v["count"]
        return [Job(0.0, 0, 100.0, each)] * v["count"]
    names = (v["program"],) if v["group"] == "alone" else GROUPS[v["group"]].programs
    return [_of(programs[name], 0.0, 0, v["growth"]) for name in names]


def workload(engine: Engine, values: Mapping[str, Value], seed: int, memory_kb: int) -> tuple[Any, int]:
    """The jobs that the values name: an array of struct sim_job in the order of arrival, and how many."""
    v: Mapping[str, Any] = values
    ffi = engine.ffi
    if "mt" not in v:
        return _month(engine, v, seed)
    if v["group"] != "trace":
        jobs = _group(v, memory_kb)
        out = ffi.new("struct sim_job[]", len(jobs))
        _given(out, jobs, 1.0)
        return out, len(jobs)
    trace, programs = TRACES[v["trace"]], list(SETS[v["programs"]].values())
    n = v["jobs"] or trace.jobs
    out, which = ffi.new("struct sim_job[]", n), ffi.new("uint32_t[]", n)
    shares = [1 / program.life_s if v["mix"] == "work" else 1.0 for program in programs]
    shares = [share / math.fsum(shares) for share in shares]
    at = (trace.end_s, trace.mu, trace.sigma, trace.unit_s)
    engine.lib.sim_burst(seed, n, *at, v["nodes"], len(programs), shares, out, which)
    kinds = ffi.new("struct sim_job[]", len(programs))
    for kind, program in zip(kinds, programs, strict=True):
        _given([kind], [_of(program, 0.0, 0, v["growth"])], 1.0)
    for job, k in zip(out, which, strict=True):
        kind = kinds[k]
        job.cpu, job.io, job.ios, job.low, job.high = kind.cpu, kind.io, kind.ios, kind.low, kind.high
        job.ramp = kind.ramp
    return out, n


def _month(engine: Engine, v: Mapping[str, Any], seed: int) -> tuple[Any, int]:
    if v["trace"] not in MONTHS:
        jobs = from_log(v["trace"], v["nodes"], v["first_day"])
        out = engine.ffi.new("struct sim_job[]", len(jobs))
        _given(out, jobs, v["load_share"])
        return out, len(jobs)
    jobs_, mi, mb = MONTHS[v["trace"]]
    n = v["jobs"] or jobs_
    out = engine.ffi.new("struct sim_job[]", n)
    cpu_s = mi / v["mips"]
    engine.lib.sim_month(seed, n, _DAYS, cpu_s, v["cpu_cv"], mb * _MB, v["memory_cv"], v["day_ratio"], out)
    share, nodes = v["load_share"], v["nodes"]
    for job in out:
        job.low = job.high = round(job.request * share)
        job.node %= nodes
    return out, n


# --- runs ---


class Simulation(EngineRun):
    """A run in progress.

    >>> from ctl.sim.loadshare.model import KNOWN
    >>> with Simulation("none", KNOWN.complete({"nodes": 1}), 1, [Job(0, 0, 2.0, 10.0)]) as simulation:
    ...     simulation.advance()
    ...     simulation.stats().now
    True
    2000000000
    """

    def __init__(
        self, policy: str, values: Mapping[str, Value], seed: int, jobs: Sequence[Job] = (), *, kind: str = ""
    ) -> None:
        """Make it ready; `jobs` instead of those the values name, `kind` of engine as in native.load()."""
        engine = load("loadshare", kind)
        self._params = fill(engine, policy, values)
        if jobs:
            self.given, self.jobs = engine.ffi.new("struct sim_job[]", len(jobs)), len(jobs)
            _given(self.given, jobs, 1.0)
        else:
            self.given, self.jobs = workload(engine, values, seed, self._params.memory)
        super().__init__(engine, engine.lib.sim_new(self._params, self.given, self.jobs))

    def _broken(self, trouble: str) -> CoschedError:
        """The meaning of the engine's trouble: a load may exceed the engine's clock."""
        return CoschedError(f"{_OVERLOAD}: {trouble}", FAILED) if _ENDLESS in trouble else super()._broken(trouble)

    def records(self) -> Iterable[Any]:
        """struct sim_record of each job, in the order of arrival."""
        records = self.engine.lib.sim_records(self._sim)
        return (records[i] for i in range(self.jobs))

    def tasks(self, node: int) -> list[Any]:
        """struct sim_task of the jobs that are on a node now."""
        tasks = self.engine.ffi.new("struct sim_task[]", self.jobs)
        return list(tasks[0 : self.engine.lib.sim_tasks(self._sim, node, tasks, self.jobs)])


def metrics(stats: Any) -> dict[str, Any]:
    """The numbers a run is kept by; times in seconds, sums over the jobs that have ended."""
    found: dict[str, Any] = {name: getattr(stats, name) for name in _COUNTERS}
    found |= {f"{name}_s": getattr(stats, field) for name, field in _SUMS.items()}
    found["slowdown"] = stats.slowdown / stats.done if stats.done else None
    return found | {"faults": stats.faults, "end_s": stats.now / 1e9, "oversized_s": stats.oversized_ns / 1e9}


def group_metrics(simulation: Simulation, names: Sequence[str]) -> dict[str, Any]:
    """For jobs that run together: their node's first state, and the time to the end of each job."""
    simulation.advance(until_s=1e-6)
    tasks = simulation.tasks(0)
    found: dict[str, Any] = {
        "fault_rate": math.fsum(t.faults_s for t in tasks),
        "useful": math.fsum(t.cpu_share for t in tasks),
    }
    simulation.advance()
    for name, r in zip(names, simulation.records(), strict=True):
        wall = (r.ended - r.arrived) / 1e9
        found |= {f"life_s {name}": wall, f"paging_share {name}": r.paging / 1e9 / wall}
    return found
