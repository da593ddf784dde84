# SPDX-License-Identifier: GPL-2.0-or-later
"""Model `ccs`: its parameters in the engine's units, a run in the making, and the metrics of CCS §5 (eq. 6, 7)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ctl import policy
from ctl.sim.ccs.inputs import NOWS, PROFILES, USERS, WORKLOADS
from ctl.sim.engine import EngineRun, ratio, rule_of
from ctl.sim.native import Engine, load
from ctl.sim.params import Value

__all__ = ["PAGES_MB", "Job", "Simulation", "View", "metrics", "nodes_of"]

PAGES_MB = 256
_ANYWHERE = 2**32 - 1
_COUNTERS = (
    *("events", "arrivals", "starts", "kills", "messages", "wakes", "expiries", "ends", "blocks", "dispatches"),
    *("switches", "preempts", "faults", "insertions", "tails", "tops", "walks", "parallel_insertions", "by_mes"),
    *("by_rec", "by_flt", "promotions", "passed", "looks", "credits", "epochs", "forced_epochs", "stops", "resumes"),
    *("said", "heard", "lost", "users", "sojourns", "calls", "most_jobs", "least_jobs"),
    *("mpl", "memory", "asked", "withheld", "short_of"),
)


class Job(NamedTuple):
    """A job given to the engine instead of drawn; CPU times are those of the fastest node."""

    arrives_s: float
    work_s: float  # of each task
    vir: int  # pages of each task
    size: int
    node: int | None = None  # of its first task, the others on the next ones; None: mapped
    gap_ms: float = 0.0
    delay_ms: float = 1.0


class View(NamedTuple):
    """A task of a node, as of now."""

    job: int
    local: bool
    state: int  # enum contract_state
    vir: int
    res: int
    faults: int
    cpu_s: float


def nodes_of(values: Mapping[str, Value]) -> list[tuple[float, int]]:
    """Weight and pages of each node, fastest first."""
    kinds = NOWS[str(values["now"])]
    n, nodes = int(values["nodes"]), list[tuple[float, int]]()
    for kind in kinds:
        nodes += [(kind.weight, kind.memory_mb * PAGES_MB)] * math.ceil(kind.of_16 * n / 16)
    return nodes[:n]


def _fill(engine: Engine, name: str, values: Mapping[str, Value], seed: int) -> Any:
    """struct sim_params of a complete set of values."""
    v: Mapping[str, Any] = values
    p = engine.ffi.new("struct sim_params *")
    for field in ("nodes", "jobs", "mnol", "mnod", "mpl", "cluster", "locals", "share_l", "loss", "cpu_max", "calm"):
        setattr(p, field, v[field])
    p.seed, p.rule, p.p = seed, rule_of(engine, name), round(v["p"] * 1024)
    row = policy.find_policy(name)
    for module in ("quantum", "memory"):
        setattr(p, f"set_{module}", policy.is_on(row, module, v))
    p.events = policy.is_on(row, "events", v)
    p.top_next, p.credit, p.enter_free = v["top"] == "next", v["credit"] == "on", v["enter"] == "free"
    p.jobs_at_once = v["mpl"] if v["mpl_of"] == "now" and v["governor"] == "off" else 0
    p.size_low, p.size_high = (v[f"size_{end}"].bit_length() - 1 for end in ("from", "to"))
    p.locals_first = v["place"] == "first"
    for field in ("quantum", "epoch", "event", "jitter", "fault"):
        setattr(p, f"{field}_ns", round(v[f"{field}_ms"] * 1e6))
    for field in ("switch", "spin"):
        setattr(p, f"{field}_ns", round(v[f"{field}_us"] * 1e3))
    for field in ("idle", "lease"):
        setattr(p, f"{field}_ns", round(v[f"{field}_s"] * 1e9))
    p.sample_ns = round(v["sample_s"] * 1e9) if v["governor"] == "on" else 0
    p.mit_ns, p.cycle_ns, p.touch_ns = v["mit_s"] * 1e9, v["cycle_ms"] * 1e6, v["touch_ms"] * 1e6
    p.user_ns, p.user_first = [v["stay_short_min"] * 6e10, v["stay_long_min"] * 6e10], v["stay_short"]
    p.wrk_mean, p.wrk_sd, p.memory_max = [v["wrk_local"], v["wrk_parallel"]], v["wrk_sd"], v["memory_max"]
    p.base = round(v["base_mb"] * PAGES_MB)
    for k, (weight, pages) in enumerate(nodes_of(values)):
        p.weight[k], p.frames[k] = weight, pages
    programs = WORKLOADS[v["workload"]].values()
    p.nr_programs = len(programs)
    for out, program in zip(p.programs, programs, strict=False):
        out.work_ns = program.work_s * 1e9 * v["work_scale"]
        out.memory = math.ceil(program.memory_mb * PAGES_MB * v["memory_scale"])
        out.gap_ns = program.gap_ms * 1e6 * v["gap_scale"]
        out.delay_ns = round(program.delay_ms * 1e6 * v["delay_scale"])
    users = USERS[v["users"]]
    p.nr_profiles = len(users)
    for out, (kind, part) in zip(p.profiles, users.items(), strict=False):
        of = PROFILES[kind]
        out.part, out.cpu, out.cpu_sd, out.memory, out.memory_sd = part, of.cpu, of.cpu_sd, of.memory, of.memory_sd
    return p


class Simulation(EngineRun):
    """A run in progress.

    >>> from ctl.sim.ccs.model import MODEL
    >>> with Simulation("dyn", MODEL.complete({"jobs": 2, "work_scale": 0.01}), 1) as simulation:
    ...     simulation.advance()
    ...     simulation.stats().arrivals
    True
    2
    """

    def __init__(
        self, name: str, values: Mapping[str, Value], seed: int, jobs: Sequence[Job] = (), *, kind: str = ""
    ) -> None:
        """Make it ready; `jobs` instead of the generator's, `kind` of engine as in native.load()."""
        engine = load("ccs", kind)
        ffi = engine.ffi
        self._params = _fill(engine, name, values, seed)
        self._script = ffi.new("struct sim_script[]", max(len(jobs), 1))
        for out, job in zip(self._script, sorted(jobs, key=lambda job: job.arrives_s), strict=False):
            out.arrives, out.work = round(job.arrives_s * 1e9), round(job.work_s * 1e9)
            out.gap, out.delay = job.gap_ms * 1e6, round(job.delay_ms * 1e6)
            out.vir, out.size = job.vir, job.size
            out.node = _ANYWHERE if job.node is None else job.node
        self.jobs = len(jobs) or self._params.jobs
        super().__init__(engine, engine.lib.sim_new(self._params, self._script, len(jobs)))

    def records(self) -> list[Any]:
        """struct sim_record of each job, in the order of arrival."""
        self._records = self.engine.ffi.new("struct sim_record[]", max(self.jobs, 1))
        self.engine.lib.sim_records(self._sim, self._records)
        return [self._records[i] for i in range(self.jobs)]

    def contract(self, node: int) -> Any:
        """struct sim_node_view: a node's present values by eq. 3 to 5 and Alg. 2."""
        view = self.engine.ffi.new("struct sim_node_view *")
        self.engine.lib.sim_node(self._sim, node, view)
        return view

    def node(self, number: int) -> list[View]:
        """The tasks that are on a node now."""
        views = self.engine.ffi.new("struct sim_view[]", 128)
        n = self.engine.lib.sim_node_tasks(self._sim, number, views, 128)
        return [View(v.job, v.class_ == 0, v.state, v.vir, v.res, v.faults, v.cpu_ns / 1e9) for v in views[0:n]]


def _percentile(histogram: Sequence[int], part: float) -> float | None:
    """The bucket in which that part of the counts is reached."""
    left = part * sum(histogram)
    for at, count in enumerate(histogram):
        left -= count
        if count and left <= 0:
            return float(at + 1)
    return None


def _contract(simulation: Simulation) -> dict[str, Any]:
    """The quanta and pools of eq. 3 to 5 for the fastest and the slowest node, and the least difference of M_Local and
    M (1 - L)."""
    share_l, mpl = simulation._params.share_l, simulation._params.mpl
    views = [simulation.contract(node) for node in range(simulation._params.nodes)]
    ends = {"fast": max(views, key=lambda v: float(v.weight)), "slow": min(views, key=lambda v: float(v.weight))}
    found: dict[str, Any] = {f"mpl_{end}": v.mpl for end, v in ends.items()}
    found |= {f"epoch_{end}_ms": mpl * v.weight * v.quantum_local / 1e6 for end, v in ends.items()}
    return found | {"m_local_spare": min(v.m_local - v.frames * (1 - share_l) for v in views)}


def metrics(simulation: Simulation) -> dict[str, Any]:
    """The numbers a run is kept by. None without a measurement."""
    stats, records = simulation.stats(), simulation.records()
    found: dict[str, Any] = {name: getattr(stats, name) for name in _COUNTERS}
    done = [r for r in records if r.ended]
    ratios = [r.work / (r.ended - r.began) for r in done]
    talking = [r for r in done if r.size > 1 and r.any_run]
    scl = list(stats.scl)
    idle = max(stats.now / 1e9 * simulation._params.nodes, 1e-9)
    found |= {
        "speedup": ratio(math.fsum(ratios), len(done)),  # eq. 7, B-CCS-23: CPU time of all tasks / time in the NOW
        "speedup_response": ratio(math.fsum(r.work / (r.ended - r.arrived) for r in done), len(done)),
        "speedup_workload": ratio(sum(r.work for r in done), max((r.ended for r in done), default=0)),  # eq. 6
        "speedup_ratio": ratio(
            math.fsum(s / r.size for s, r in zip(ratios, done, strict=True)), len(done)
        ),  # of the number of tasks
        "half": ratio(sum(s > r.size / 2 for s, r in zip(ratios, done, strict=True)), len(done)),  # CCS-37
        "together": ratio(math.fsum(r.all_run / ((r.size - 1) * r.any_run) for r in talking), len(talking)),
        "slowdown_local": ratio(stats.local_wall, stats.local_alone),
        "scl_ms": ratio(1e3 * stats.scl_sum, stats.calls),
        "scl_p99_ms": _percentile(scl, 0.99),
        "scl_max_ms": 1e3 * stats.scl_max if stats.calls else None,
        "scl_over": ratio(sum(scl[400:]), stats.calls),  # part of the calls that take longer than 400 ms
        "cpu_load": stats.load,  # CCS T. 5
        "cpu_load_sd": math.sqrt(max(stats.load_square - stats.load**2, 0)),
        "memory_sd": math.sqrt(max(stats.memory_square - stats.memory**2, 0)),
        "stopped_s": stats.stopped,
        "busy": (stats.busy_local + stats.busy_parallel) / idle,
        "busy_local_s": stats.busy_local,
        "busy_parallel_s": stats.busy_parallel,
        "spun_s": stats.spun,
        "drawn_cpu": ratio(stats.drawn_cpu, stats.users),
        "drawn_memory": ratio(stats.drawn_memory, stats.users),
        "end_s": stats.now / 1e9,
        "de": list(stats.de)[:8],
    }
    return found | _contract(simulation)
