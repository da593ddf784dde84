# SPDX-License-Identifier: GPL-2.0-or-later
"""Model `dcndc`: its parameters in the engine's units, a run in the making, and NodeCoDe (Monito §5.3, B-MO-8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ctl.sim.engine import EngineRun, ratio, rule_of
from ctl.sim.native import Engine, load
from ctl.sim.params import Value

__all__ = ["MESSAGES", "UNIT_NS", "Record", "Simulation", "Task", "metrics"]

UNIT_NS = 10**9
"""The paper's unit of time, in the engine's."""

MESSAGES = 16
"""The most messages that a task receives: SIM_MESSAGES."""

_COUNTERS = (
    *("events", "arrivals", "messages", "ends", "expiries", "receives", "blocks", "spins", "spins_met", "late"),
    *("dispatches", "preempts", "insertions", "promotions", "passed"),
    *("at_dispatch", "taken_at_dispatch", "at_arrival", "taken_at_arrival"),
)


class Task(NamedTuple):
    """A task given to the engine instead of drawn; times in ns."""

    arrives: int
    service: int
    parallel: bool = False
    offsets: tuple[int, ...] = ()  # when its messages come, after its arrival
    points: tuple[int, ...] = ()  # CPU time at which it receives, ascending, below service


class Record(NamedTuple):
    """The outcome of a task; times in ns, `ended` 0 if the task is still there."""

    arrived: int
    service: int
    ended: int
    parallel: bool


def _fill(engine: Engine, name: str, values: Mapping[str, Value], seed: int) -> Any:
    """struct sim_params of a complete set of values."""
    v: Mapping[str, Any] = values
    p = engine.ffi.new("struct sim_params *")
    p.seed, p.rule = seed, rule_of(engine, name)
    p.served, p.mm, p.mno, p.pdt = v["nst"], v["mm"], v["mno"], v["pdt"]
    implicit = name == "implicit"
    p.async_ = v["receive"] == "async" and not implicit
    p.to_head = v["displaced"] == "head"
    p.wake_bottom = implicit and v["wake"] == "bottom"
    p.mit_ns, p.mst_ns = v["mit"] * UNIT_NS, v["mst"] * UNIT_NS
    p.offset_ns = v["offset"] * p.mst_ns
    p.slice_ns = max(1, round(v["slice"] * p.mst_ns))
    p.spin_ns = round(v["spin"] * UNIT_NS) if implicit else 0
    p.share_ns = round(v["share"] * UNIT_NS)
    return p


class Simulation(EngineRun):
    """A run in progress.

    >>> from ctl.sim.dcndc.model import MODEL
    >>> with Simulation("sdca", MODEL.complete({"nst": 50}), 1) as simulation:
    ...     simulation.advance()
    ...     simulation.stats().ends
    True
    50
    """

    def __init__(
        self, name: str, values: Mapping[str, Value], seed: int, tasks: Sequence[Task] = (), *, kind: str = ""
    ) -> None:
        """Make it ready; `tasks` instead of the generator's, `kind` of engine as in native.load()."""
        engine = load("dcndc", kind)
        ffi = engine.ffi
        self._params = _fill(engine, name, values, seed)
        self._script = ffi.new("struct sim_script[]", max(len(tasks), 1))
        for out, task in zip(self._script, sorted(tasks), strict=False):
            out.arrives, out.service, out.parallel = task.arrives, task.service, task.parallel
            out.messages = len(task.offsets)
            out.offset[0 : len(task.offsets)] = task.offsets
            out.point[0 : len(task.points)] = task.points
        super().__init__(engine, engine.lib.sim_new(self._params, self._script, len(tasks)))

    def records(self) -> list[Record]:
        """Each arrived task, in the order of arrival."""
        records = self.engine.ffi.new("struct sim_record **")
        n = self.engine.lib.sim_records(self._sim, records)
        return [Record(r.arrived, r.service, r.ended, bool(r.parallel)) for r in records[0][0:n]]


def metrics(stats: Any) -> dict[str, Any]:
    """The numbers a run is kept by. None without a count; times in the paper's unit."""
    found: dict[str, Any] = {name: getattr(stats, name) for name in _COUNTERS}
    for kind, name in enumerate(("local", "distributed")):
        found[f"served_{name}"] = stats.served[kind]
        found[f"response_{name}"] = ratio(stats.response[kind], stats.served[kind])
        found[f"slowdown_{name}"] = ratio(stats.response[kind], stats.service[kind])
    taken = stats.taken_at_dispatch + stats.taken_at_arrival
    return found | {
        "node_code": ratio(taken, stats.at_dispatch + stats.at_arrival),  # B-MO-8
        "node_code_dispatch": ratio(stats.taken_at_dispatch, stats.at_dispatch),
        "node_code_arrival": ratio(stats.taken_at_arrival, stats.at_arrival),
        "utilisation": stats.busy * 1e9 / stats.now,
        "spun": ratio(stats.spun, stats.busy),
        "tasks": stats.task_area * 1e9 / stats.now,
        "end": stats.now / UNIT_NS,
    }
