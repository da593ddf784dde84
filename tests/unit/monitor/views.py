# SPDX-License-Identifier: GPL-2.0-or-later
"""Views that tests of the dashboard draw, and the drawing."""

from __future__ import annotations

from typing import Any

from ctl.contract import Cluster, ClusterNode, Cpu, Job, Queue, QueuedJob, Task, View
from ctl.monitor.panels import History, frame

__all__ = ["cluster", "draw", "fitted", "job", "jobs_queue", "many", "queue_of", "task", "view"]


def task(tid: int, comm: str = "rank", jid: str | None = "large", de: int = 0, **known: Any) -> Task:
    """A task of job `jid`; None: a local task."""
    made: Task = {
        "tid": tid,
        "comm": comm,
        "parallel": jid is not None,
        "de": de,
        "mes": known.get("mes", 0.0),
        "com": known.get("com", 0),
        "rec": known.get("rec", 0),
        "flt": known.get("flt", 0),
        "jid": jid,
    }
    return made


def queue_of(
    cpu: int, tasks: list[Task], running: Task | None = None, queued: int | None = None, expired: int = 0
) -> Cpu:
    return {
        "cpu": cpu,
        "running": running,
        "queue": tasks,
        "nr_queued": len(tasks) if queued is None else queued,
        "nr_expired": expired,
    }


def job(jid: str, **known: Any) -> Job:
    made: Job = {
        "jid": jid,
        "tasks": 2,
        "cpu_share": 0.5,
        "majflt_s": 12.5,
        "overtakes_given": 31,
        "overtakes_suffered": 7,
        "memory": 200 << 20,
        "swap": 30 << 20,
    }
    made.update(known)  # type: ignore[typeddict-item]
    return made


def fitted(jid: str, state: str = "runs", need: int = 48 << 20, **known: Any) -> QueuedJob:
    """A job of policy fit's queue, alone on node1 unless `needs` says otherwise."""
    made: QueuedJob = {
        "jid": jid,
        "state": state,
        "need": need,
        "stays": 0,
        "needs": {"node1": need},
        "declared": need,
        "estimated": 0,
        "passed": 0,
        "why": "" if state == "runs" else f"needs {need >> 20} MiB, 31 are free; after sweep",
    }
    made.update(known)  # type: ignore[typeddict-item]
    return made


def jobs_queue(*jobs: QueuedJob, room: int = 60 << 20, **other: Any) -> Queue:
    load = {"cpus": 2, "speed": 5000.0, "runnable": 1.5, "faults_s": 0.0}
    made: Queue = {
        "room": room,
        "rooms": {"node1": room},
        "loads": {"node1": load},
        "turn_left_s": 12.4,
        "turns": 0,
        "left_behind": 0,
        "jobs": list(jobs),
    }
    made.update(other)  # type: ignore[typeddict-item]
    return made


def cluster(broker: str = "node1:4222", holders: dict[str, list[str]] | None = None) -> Cluster:
    """node1 and all other nodes that hold one of its jobs; node2 is always there."""
    holders = holders or {}
    names = sorted({"node1", "node2", *(node for nodes in holders.values() for node in nodes)})

    def shared(name: str) -> int:
        return sum(name == "node1" or name in nodes for nodes in holders.values())

    def node(name: str) -> ClusterNode:
        return {"jobs": shared(name), "speed": 5000.0, "memory": 480 << 20, "share_l": 0.5}

    return {"node": "node1", "broker": broker, "nodes": {name: node(name) for name in names}, "holders": holders}


def view(cpus: list[Cpu] | None = None, jobs: list[Job] | None = None, **other: Any) -> View:
    """A loaded node: policy csm, overloaded, one CPU with a local and a parallel task."""
    made: View = {
        "time": 1_700_000_000.0,
        "node": "node1",
        "policy": "csm",
        "rule": "csm",
        "knobs": {"mno": 2, "mnol": 2, "mnod": 3, "p": 0.3, "share_l": 0.5, "quantum_ms": 20},
        "modes": {"predictive": 10, "dynamic": 30, "csm": 60},
        "overload": {"mode": "auto", "verdict": True, "why": "swap-ins 210/s for 3 s"},
        "memory": {
            "m": 480 << 20,
            "mem": 612 << 20,
            "swap_total": 512 << 20,
            "swap_used": 140 << 20,
            "swapins_s": 210.0,
            "psi_some": 34.2,
            "psi_full": 12.1,
        },
        "cpus": [queue_of(0, [task(11, "editor", None, 2), task(12, flt=211)], task(10))] if cpus is None else cpus,
        "jobs": [job("large"), job("small")] if jobs is None else jobs,
        "rules": {"csm": {"insertions_s": 231.2, "overtakes_s": 45.6}},
        "events": [{"time": 1_699_999_990.0, "text": "overload began: swap-ins 210/s for 3 s"}],
        "since": 1_699_999_800.0,
    }
    made.update(other)  # type: ignore[typeddict-item]
    return made


def draw(shown: View, width: int = 80, height: int | None = 24, **options: Any) -> list[str]:
    """The frame's lines as plain text, each checked to be exactly as wide as asked for."""
    history = options.pop("history", None) or History()
    history.add(shown)
    lines = frame(shown, history, width, height, **options)
    assert [text.cell_len for text in lines] == [width] * len(lines)
    assert height is None or len(lines) == height
    return [text.plain for text in lines]


def many(cpus: int, queued: int) -> list[Cpu]:
    """CPUs with queues of alternating classes, the record's limit of 128 tasks respected."""
    return [
        queue_of(
            c,
            [task(c * 1000 + i, jid="j" if i % 2 else None, de=i % 3) for i in range(min(queued, 128))],
            None,
            queued,
        )
        for c in range(cpus)
    ]
