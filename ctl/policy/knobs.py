# SPDX-License-Identifier: GPL-2.0-or-later
"""The knobs. Each is a row: name, meaning, unit, range, default. values.py checks what users write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ctl.errors import USAGE, CoschedError

__all__ = ["AGENT_FIELDS", "KNOBS", "Knob", "Value", "defaults", "find_knob"]

Value = int | float | str | None
"""A knob's value: an int, a number, or one of its words. None: `mno` where mnol and mnod differ."""

AGENT_FIELDS = ("rule", "overloaded", "trace", "set_quantum", "local_user", "slowed_jobs", "stretch")
"""Fields of struct knobs that no knob sets: the policy's rule, the agent's verdicts, a reader of decisions."""

@dataclass(frozen=True)
class Knob:
    """One row of the knob table; `fields` are what it sets in struct knobs, nothing for a knob of the loader."""

    name: str
    kind: str  # "integer", "number" or "choice"
    default: Value
    meaning: str
    reference: str
    unit: str = ""
    low: float = 0
    high: float = 0
    choices: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    encoding: str = "integer"  # of the fields: "integer", "fixed" point, "ms" kept as ns, "enum", "flag"
    live: bool = True  # may change while the scheduler runs

    @property
    def range(self) -> str:
        """What is allowed, in words: "1 to 64 overtakes", "auto, on or off"."""
        if self.choices:
            return f"{', '.join(self.choices[:-1])} or {self.choices[-1]}"
        limits = f"{self.low:g} to {self.high:g}"
        return f"{limits} {self.unit}" if self.unit else limits


_KNOBS = (
    Knob("mno", "integer", 2, "how often a task may be overtaken before it is protected; sets `mnol` and `mnod`",
         "CCS §4.1, B-MO-1", unit="overtakes", low=1, high=64, fields=("mnol", "mnod")),
    Knob("mnol", "integer", 2, "the same, for local tasks only",
         "CSM §4.1, CSM-35", unit="overtakes", low=1, high=64, fields=("mnol",)),
    Knob("mnod", "integer", 2, "the same, for tasks of parallel jobs only",
         "CSM §5.2, CSM-22", unit="overtakes", low=1, high=64, fields=("mnod",)),
    Knob("p", "number", 0.3, "weight of the past in mes := p·mes + (1-p)·COM",
         "CSM eq. 2, CSM-38", high=1, fields=("p",), encoding="fixed"),
    Knob(
        "share_l",
        "number",
        0.5,
        "L, the part of CPU and memory that is kept for parallel jobs while a local user is present",
        "CCS §3.2, §5.1",
        high=1,
        fields=("share_l",),
        encoding="fixed",
    ),
    Knob(
        "quantum_ms",
        "integer",
        20,
        "time slice of a task of nice 0",
        "CCS §3.1, eq. 3",
        unit="ms",
        low=1,
        high=1000,
        fields=("quantum_ns",),
        encoding="ms",
    ),
    Knob("quantum", "choice", "policy",
         "Set_Quantum: quanta are Def_Q / W, times L for jobs beside a local user; `policy`: as the policy's row says",
         "CCS Alg. 2", choices=("policy", "on", "off")),
    Knob("memory", "choice", "policy",
         "Set_Memory: jobs above their share of memory are stopped while a local user's node swaps; `policy`: as above",
         "CCS Alg. 3", choices=("policy", "on", "off")),
    Knob("events", "choice", "policy",
         "in a cluster: tell the other nodes of a job what happens here, and hear them; `policy`: as above",
         "CCS §4.3", choices=("policy", "on", "off")),
    Knob("slots", "choice", "policy",
         "all jobs run for `slot_run_ms` and are stopped for `slot_stop_ms`, by the clock; `policy`: as above",
         "Monito §2.1", choices=("policy", "on", "off")),
    Knob("slot_run_ms", "integer", 90, "slots: how long jobs run; the same on all nodes of a job",
         "Monito §5.2", unit="ms", low=1, high=10000),
    Knob("slot_stop_ms", "integer", 10, "slots: how long they are stopped then",
         "Monito §5.2", unit="ms", low=1, high=10000),
    Knob("epoch_ms", "integer", 1000, "an epoch: at its end shares are measured, and Set_Memory decides, at most once",
         "CCS §3.1, B-CCS-17", unit="ms", low=100, high=60000),
    Knob("mpl", "integer", 0, "Set_Memory: jobs that the fastest node runs at once, here that times W; 0: any number",
         "CCS eq. 4, B-CCS-22", unit="jobs", high=1000),
    Knob("speed", "number", 0, "this node's speed, of which W is made among the nodes of a cluster; 0: as measured",
         "CCS eq. 1", high=100000),
    Knob("memory_mb", "integer", 0, "this node's memory, of which M_Paral is made; 0: all there is",
         "CCS eq. 5", unit="MB", high=500_000),
    Knob("local_user", "choice", "auto", "is a local user present? auto: by keyboard, mouse and terminals",
         "CCS §4.4", choices=("auto", "on", "off")),
    Knob("local_idle_s", "integer", 60, "without input for so long a local user is gone",
         "CCS §4.4, B-CCS-18", unit="s", low=1, high=86400),
    Knob(
        "credit",
        "choice",
        "on",
        "a local task that slept more than it ran, or left part of its turn, goes ahead; off: to the tail, as printed",
        "CCS §4.4, B-CCS-31",
        choices=("on", "off"),
        fields=("credit",),
        encoding="flag",
    ),
    Knob(
        "credit_max_ms",
        "integer",
        40,
        "the most sleep, and rest of turns, that counts as credit",
        "B-CCS-31",
        unit="ms",
        high=1000,
        fields=("credit_max_ns",),
        encoding="ms",
    ),
    Knob(
        "walk_max",
        "integer",
        11,
        "tasks that one insertion may walk past; where this ends a walk it is counted",
        "design §4",
        unit="tasks",
        low=1,
        high=1024,
        fields=("walk_max",),
    ),
    Knob(
        "top_ms",
        "integer",
        50,
        "how long tasks led to the top, or ahead on credit, may keep the others waiting",
        "B-CSM-5",
        unit="ms",
        low=1,
        high=10000,
        fields=("top_ms",),
    ),
    Knob("starve_ms", "integer", 1000,
         "rule `prio`: how long jobs may keep local tasks off a CPU; whoever waits `watchdog_ms` / 4 is passed no more",
         "B-MO-14", unit="ms", low=10, high=10000, fields=("starve_ms",)),
    Knob(
        "unread_ms",
        "integer",
        1000,
        "CPU time a task may use without touching a socket before the messages in it no longer count; 0: never",
        "B-CSM-6, B-CCS-4",
        unit="ms",
        low=0,
        high=60000,
        fields=("unread_ms",),
    ),
    Knob(
        "spin_ms",
        "integer",
        2,
        "CPU time a parallel task may poll for a message before it is taken to wait: to the tail, at once; 0: never",
        "Monito §2.2, B-MO-10, B-CCS-25, design §4",
        unit="ms",
        low=0,
        high=1000,
        fields=("spin_ns",),
        encoding="ms",
    ),
    Knob(
        "overload",
        "choice",
        "auto",
        "does memory not fit (Mem > M)? auto: decided from the memory's state",
        "CSM eq. 4, CCS §3.2",
        choices=("auto", "on", "off"),
        fields=("overload",),
        encoding="enum",
    ),
    Knob(
        "flt",
        "choice",
        "rate",
        "FLT of a task: its major faults of the last second, or the per mille of its process's pages on swap",
        "CCS §3.2; CSM eq. 3, B-CSM-1",
        choices=("rate", "probability"),
        fields=("flt",),
        encoding="enum",
    ),
    Knob(
        "classify",
        "choice",
        "cgroup",
        "which tasks are parallel: those in job cgroups, or those whose mes is not zero",
        "CSM §3.1, B-CSM-7",
        choices=("cgroup", "mes"),
        fields=("classify",),
        encoding="enum",
    ),
    Knob(
        "sensors",
        "choice",
        "on",
        "observe page faults, socket queues and user input; off: every rule sees none",
        "CCS §4.4",
        choices=("on", "off"),
        fields=("sensors",),
        encoding="flag",
    ),
    Knob(
        "reinsert",
        "choice",
        "on",
        "a message for a task that is already queued inserts it anew",
        "Monito Alg. 2",
        choices=("on", "off"),
        fields=("reinsert",),
        encoding="flag",
    ),
    Knob(
        "share_ms",
        "integer",
        100,
        "policy `dynamic`: how much less CPU time the receiver must have used",
        "Monito §5.3, B-MO-7",
        unit="ms",
        high=60000,
        fields=("share_ns",),
        encoding="ms",
    ),
    Knob(
        "watchdog_ms",
        "integer",
        30000,
        "a runnable task that waits longer ends the scheduler; fixed when it is loaded",
        "design §2",
        unit="ms",
        low=1000,
        high=30000,
        live=False,
    ),
)

KNOBS: Mapping[str, Knob] = {knob.name: knob for knob in _KNOBS}


def find_knob(name: str) -> Knob:
    """The knob of this name. Raises CoschedError (status 2) that names those there are."""
    knob = KNOBS.get(name)
    if knob is None:
        raise CoschedError(f"no knob is called {name!r}: choose one of {', '.join(KNOBS)}", USAGE)
    return knob


def defaults() -> dict[str, Value]:
    """Every knob but `mno` at its default."""
    return {knob.name: knob.default for knob in KNOBS.values() if knob.name != "mno"}
