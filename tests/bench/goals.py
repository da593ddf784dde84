# SPDX-License-Identifier: GPL-2.0-or-later
"""The goals for speed, and whether results meet them."""

from __future__ import annotations

from typing import Any

__all__ = ["judge"]

Results = dict[str, Any]

_SLOWED = ("pingpong-pipe", "switch-16", "switch-128", "switch-1024")
_NODES = {"": "no job on the node", "-beside": "a job asleep", "-job": "all of one job"}


def judge(results: Results) -> list[Results]:
    """Return one verdict for each goal that was measured."""
    return [
        verdict
        for verdict in (
            *_ratios(results["time"]),
            *_growth(results["time"]),
            *_longest(results),
            *_sleeper(results["time"]),
            *_bursts(results["time"]),
        )
        if verdict
    ]


def _verdict(goal: str, value: float, limit: float, unit: str) -> Results:
    """Compare a figure with its limit; unit is "×" for a ratio, else a unit of time."""

    def text(number: float) -> str:
        return f"×{number:.3f}" if unit == "×" else f"{number:,.2f} {unit}"

    over = value - limit
    margin = f"{over:+.3f}" if unit == "×" else f"{over:+,.2f} {unit}"
    return {
        "goal": goal,
        "value": value,
        "limit": limit,
        "unit": unit,
        "met": value <= limit,
        "margin": over,
        "limit_text": "≤ " + text(limit),
        "value_text": text(value),
        "margin_text": margin,
    }


def _measured(part: Results, bench: str, scheduler: str) -> Results | None:
    return part[bench]["by"].get(scheduler) if bench in part else None


def _ratios(part: Results) -> list[Results]:
    found = []
    for scheduler, title, limit in (("csm", "sensors off", 1.0), ("csm-sensors", "sensors on", 1.1)):
        for bench in _SLOWED:
            for suffix, node in _NODES.items():
                row = _measured(part, bench + suffix, scheduler)
                if row:
                    found.append(_verdict(f"csm, {title}, to EEVDF: {bench}, {node}", row["ratio"], limit, "×"))
    return found


def _growth(part: Results) -> list[Results]:
    found = []
    for scheduler, title in (("csm", "sensors off"), ("csm-sensors", "sensors on")):
        for suffix, node in _NODES.items():
            few, many = (_measured(part, f"switch-{n}{suffix}", scheduler) for n in (16, 1024))
            if few and many:
                grown = many["value"] / few["value"]
                found.append(_verdict(f"csm, {title}, 1,024 to 16 runnable, {node}", grown, 1.1, "×"))
    return found


def _longest(results: Results) -> list[Results]:
    """The kernel's do_enqueue_task is one insertion as a whole: our program and the insertion into the queue. Its
    pick_task_scx has our dispatch, which re-inserts tasks for which messages came. Where messages come for all queued
    tasks, no function may hold a run queue's lock for longer than 25 µs; a task begins without this lock."""
    found = []
    for scheduler, title in (("csm", "sensors off"), ("csm-sensors", "sensors on")):
        loads = results["instructions"].get(scheduler, {})
        for load, rows in loads.items():
            if "do_enqueue_task" in rows:
                longest = rows["do_enqueue_task"]["max_ns"] / 1000
                found.append(_verdict(f"csm, {title}, longest insertion: {load}", longest, 20.0, "µs"))
            if load.startswith("receivers"):
                locked = {name: row["max_ns"] / 1000 for name, row in rows.items() if name != "cosched_init_task"}
                name = max(locked, key=locked.__getitem__)
                found.append(_verdict(f"csm, {title}, longest callback, {name}: {load}", locked[name], 25.0, "µs"))
    return found


def _sleeper(part: Results) -> list[Results]:
    found = []
    for scheduler, title in (("csm", "sensors off"), ("csm-sensors", "sensors on")):
        row = _measured(part, "late-job", scheduler)
        if row:
            goal = f"csm, {title}, local sleeper among 4 parallel hogs"
            found.append(_verdict(f"{goal}, mean", row["value"] / 1e6, 1.0, "ms"))
            found.append(_verdict(f"{goal}, p99", row["p99"] / 1e6, 4.0, "ms"))
    return found


def _bursts(part: Results) -> list[Results]:
    """How much longer a local task of 40 % load takes for its work, beside jobs' tasks that never sleep."""
    row = _measured(part, "bursts-4-job", "csm-class")
    if not row:
        return []
    return [_verdict("csm, contract=class, 80 ms of local work beside 4 parallel hogs", row["value"] / 80e6, 1.15, "×")]
