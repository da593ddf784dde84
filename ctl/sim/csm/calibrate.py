# SPDX-License-Identifier: GPL-2.0-or-later
"""Arrival rates for a load: mem_load is a target, not a formula (B-CSM-14).

CSM gives two numbers for each environment, mem_load and mean tasks per node. These numbers fix two unknowns, the rates
of parallel and of local jobs (B-CSM-19). Under rr, at one message frequency, the calibration changes both rates until
the replications' mean load is right. Small and local jobs alone (mix two) have one unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import mean
from typing import Any, NamedTuple

from ctl.errors import CoschedError
from ctl.sim.csm.model import MODEL, run
from ctl.sim.params import Value

__all__ = ["Load", "calibrate"]

_MOST = 2.0  # a step changes a rate by no more than this factor


class Load(NamedTuple):
    """The result of a calibration."""

    mit_s: float
    local_share: float
    mem_load: float
    tasks_per_node: float
    steps: int


def _measure(
    values: Mapping[str, Value], seeds: Sequence[int], workers: int, events: int
) -> tuple[float, float, float]:
    """mem_load, tasks per node, and their local part; three times as much for an overloaded system."""

    def one(seed: int) -> dict[str, Any]:
        return run("rr", values, seed, events=events)

    try:
        with ThreadPoolExecutor(workers) as pool:
            runs = list(pool.map(one, seeds))
    except CoschedError:
        return 9.0, 12.0, 0.2
    tasks = mean(r["tasks_per_node"] for r in runs)
    local = mean(r["local_residents"] * r["tasks_per_node"] for r in runs)
    return mean(r["mem_load"] for r in runs), tasks, local / tasks


def calibrate(
    given: Mapping[str, object],
    mem_load: float,
    tasks_per_node: float | None,
    *,
    seeds: Sequence[int],
    workers: int = 1,
    events: int = 400_000_000,
    steps: int = 20,
    tell: Callable[[str], None] = lambda _: None,
) -> Load:
    """Find mit_s and local_share (mix three) or mit_s (mix two, where tasks_per_node follows).

    A step moves each rate by the square root of the missing tasks, damped near the goal. Ends within 2 %.
    """
    values = dict(MODEL.complete(given))
    two = values["mix"] == "two"
    local, parallel = _start(values, two, mem_load, tasks_per_node)
    best, least = Load(0, 0, 0, 0, 0), 9e9
    gain = 0.5
    missed = [0.0, 0.0]
    for step in range(1, steps + 1):
        values["mit_s"] = 1 / (local + parallel)
        if not two:
            values["local_share"] = local / (local + parallel)
        load, tasks, part = _measure(values, seeds, workers, events)
        off = abs(load / mem_load - 1) + (0 if tasks_per_node is None else abs(tasks / tasks_per_node - 1))
        tell(f"step {step}: mit {values['mit_s']:.4g} s, local share {values['local_share']:.6g}: "
             f"mem_load {load:.3f}, tasks per node {tasks:.3f}")  # fmt: skip
        if off < least:
            share = float(values["local_share"])
            best, least = Load(float(values["mit_s"]), share, load, tasks, step), off
        if off < 0.02:
            break
        if two:
            wanted = [mem_load / load, mem_load / load]
        else:
            assert tasks_per_node is not None
            # memory per task of each kind as measured here, so that both targets become numbers of tasks
            memory, mest = float(values["memory"]), float(values["mest"])
            of_local = (1 + mest) / 2
            of_parallel = (load * memory - of_local * part * tasks) / max((1 - part) * tasks, 1e-9)
            want_parallel = (mem_load * memory - of_local * tasks_per_node) / (of_parallel - of_local)
            wanted = [
                max(tasks_per_node - want_parallel, 0.1) / max(part * tasks, 1e-3),
                want_parallel / max((1 - part) * tasks, 1e-3),
            ]
        if any((w - 1) * m < 0 for w, m in zip(wanted, missed, strict=True)):
            gain = max(gain * 0.7, 0.1)
        missed = [w - 1 for w in wanted]
        local *= min(max(wanted[0], 1 / _MOST), _MOST) ** gain
        parallel *= min(max(wanted[1], 1 / _MOST), _MOST) ** gain
    return best


def _start(values: Mapping[str, Value], two: bool, mem_load: float, tasks: float | None) -> tuple[float, float]:
    """Rates of local and of parallel jobs to begin with, from the tasks wanted and a slowdown of 4."""
    nodes, pdt, mest = int(values["nodes"]), float(values["pdt"]), float(values["mest"])
    memory = float(values["memory"])
    small, large = (3.0, 1.5 * mest), (nodes * 7 / 12, 3 * mest)  # mean size, memory
    if two:
        work = (1 - pdt) * 300 * mest / 2 + pdt * 300 * small[0] * small[1]
        rate = mem_load * memory * nodes / (work * 3)
        return rate * (1 - pdt), rate * pdt
    assert tasks is not None
    want_parallel = (mem_load * memory - mest / 2 * tasks) / (2.9 * mest - mest / 2) * nodes
    per_job = 4 * (pdt * large[0] * 3600 + (1 - pdt) * small[0] * 300)
    return (tasks * nodes - want_parallel) / (300 * 4), want_parallel / per_job
