# SPDX-License-Identifier: GPL-2.0-or-later
"""The knobs. Each is a row: name, meaning, unit, range, default. values.py checks users' values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ctl.errors import USAGE, CoschedError, brief

__all__ = ["AGENT_FIELDS", "KNOBS", "Knob", "Value", "defaults", "find_knob"]

Value = int | float | str | None
"""A knob's value: an int, a number, or one of its words. None: `mno` if mnol and mnod differ."""

AGENT_FIELDS = ("rule", "overloaded", "trace", "set_quantum", "local_user", "slowed_jobs", "stretch", "epochs")
"""Fields of struct knobs that no knob sets: the policy's rule, the agent's verdicts, a reader of decisions."""

@dataclass(frozen=True)
class Knob:
    """One row of the knob table; `fields` are the fields that it sets in struct knobs, empty for a knob of the
    loader."""

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
    live: bool = True  # can change while the scheduler runs

    @property
    def range(self) -> str:
        """The allowed values, in words: "1 to 64 overtakes", "auto, on or off"."""
        if self.choices:
            return f"{', '.join(self.choices[:-1])} or {self.choices[-1]}"
        limits = f"{self.low:g} to {self.high:g}"
        return f"{limits} {self.unit}" if self.unit else limits


_KNOBS = (
    Knob("mno", "integer", 2, "MNO: overtakes after which a task is protected; sets `mnol` and `mnod`",
         "CCS §4.1, B-MO-1", unit="overtakes", low=1, high=64, fields=("mnol", "mnod")),
    Knob("mnol", "integer", 2, "MNO of local tasks",
         "CSM §4.1, CSM-35", unit="overtakes", low=1, high=64, fields=("mnol",)),
    Knob("mnod", "integer", 2, "MNO of tasks of parallel jobs",
         "CSM §5.2, CSM-22", unit="overtakes", low=1, high=64, fields=("mnod",)),
    Knob("p", "number", 0.3, "weight of the past in mes := p·mes + (1-p)·COM",
         "CSM eq. 2, CSM-38", high=1, fields=("p",), encoding="fixed"),
    Knob("c_mes", "choice", "flow",
         "the messages that mes takes; flow: those sent and received since its last update, and those queued now; "
         "backlog: those queued now", "CSM eq. 2, B-CSM-8", choices=("flow", "backlog"), fields=("c_mes",),
         encoding="enum"),
    Knob(
        "share_l",
        "number",
        0.5,
        "L, the part of CPU and memory reserved for parallel jobs while a local user is present; without this knob at "
        "load the policy's",
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
    Knob("contract", "choice", "queue",
         "queue: all tasks stand in one ready queue, and quanta keep the contract; class: local tasks stay on the "
         "kernel's own scheduler, with their weights and limits, and jobs have L of each CPU; fixed while loaded, and "
         "without this knob the first contract of the policy's row",
         "docs/design.md, The contract", choices=("queue", "class"), live=False),
    Knob("contract_period_ms", "integer", 20, "contract=class: jobs have L of each CPU in every such period",
         "docs/design.md, The contract", unit="ms", low=2, high=400),
    Knob("contract_step", "choice", "off",
         "contract=class: on: while there are jobs, periods begin by the clock, on all nodes at once; off: on each CPU "
         "when a job's task wakes", "docs/design.md, The contract", choices=("on", "off")),
    Knob("quantum", "choice", "policy",
         "Set_Quantum: quanta are Def_Q / W, times L for jobs beside a local user; `policy`: the policy's row decides",
         "CCS Alg. 2", choices=("policy", "on", "off")),
    Knob("memory", "choice", "policy",
         "Set_Memory: while a local user's node swaps, jobs above their memory share are stopped; `policy`: as above",
         "CCS Alg. 3", choices=("policy", "on", "off")),
    Knob("fit", "choice", "policy",
         "those jobs run whose memory fits beside local tasks, the others wait; `policy`: the policy's row decides",
         "ParPar §3.2, docs/design.md, Jobs that fit", choices=("policy", "on", "off")),
    Knob("turn_s", "integer", 30,
         "fit: while jobs wait, those that waited go first after so long; 0: a job runs to its end",
         "docs/design.md, Jobs that fit", unit="s", high=86400),
    Knob("share_mem", "number", 0,
         "fit: the part of this node's memory that its owner leaves to jobs even when local tasks need it",
         "docs/design.md, Jobs that fit", high=0.9),
    Knob("events", "choice", "policy",
         "in a cluster: exchange events with the other nodes that hold a job; `policy`: as above",
         "CCS §4.3", choices=("policy", "on", "off")),
    Knob("slots", "choice", "policy",
         "all jobs run for `slot_run_ms` and are stopped for `slot_stop_ms`, by the clock; `policy`: as above",
         "Monito §2.1", choices=("policy", "on", "off")),
    Knob("slot_run_ms", "integer", 90, "slots: how long jobs run; the same on all nodes of a job",
         "Monito §5.2", unit="ms", low=1, high=10000),
    Knob("slot_stop_ms", "integer", 10, "slots: how long jobs are stopped after each run",
         "Monito §5.2", unit="ms", low=1, high=10000),
    Knob("epochs", "choice", "policy",
         "what a task has in an epoch of a ready queue before it waits for the next one; task: its quantum; jobs: the "
         "same, and the tasks of jobs together have L of the CPU; off: a quantum at each wake-up; `policy`: task where "
         "Set_Quantum is on under contract=queue, else off",
         "CCS §3.1, B-CCS-15, B-CCS-31", choices=("policy", "task", "jobs", "off")),
    Knob("epoch_ms", "integer", 1000,
         "longest epoch of a ready queue; also how often shares are measured and Set_Memory decides",
         "CCS §3.1, B-CCS-17", unit="ms", low=100, high=60000, fields=("epoch_ns",), encoding="ms"),
    Knob("mpl", "integer", 0, "Set_Memory: jobs that the fastest node runs at once (others: times W); 0: no limit",
         "CCS eq. 4, B-CCS-22", unit="jobs", high=1000),
    Knob("speed", "number", 0, "this node's speed, from which W among the nodes of a cluster follows; 0: as measured",
         "CCS eq. 1", high=100000),
    Knob("memory_mb", "integer", 0, "this node's memory, from which M_Paral follows; 0: all memory",
         "CCS eq. 5", unit="MB", high=500_000),
    Knob("local_user", "choice", "auto", "whether a local user is present; auto: by keyboard, mouse and sessions",
         "CCS §4.4", choices=("auto", "on", "off")),
    Knob("local_seat", "choice", "on",
         "whether a desktop of this node makes a local user while it is in the foreground, not locked and does not "
         "call itself idle to logind: who reads does not type; one that never called itself idle is not believed. Also "
         "input at a text console",
         "docs/design.md, The contract", choices=("on", "off")),
    Knob("local_remote", "choice", "on",
         "whether input by ssh makes a local user, and a remote desktop as one here: who works here from elsewhere "
         "waits for this node all the same; the ssh of an MPI launcher has no terminal, and is none",
         "docs/design.md, The contract", choices=("on", "off")),
    Knob("local_inhibit", "choice", "on",
         "whether a program that keeps an unlocked desktop from going idle makes a local user: a film is watched, not "
         "typed",
         "docs/design.md, The contract", choices=("on", "off")),
    Knob("local_user_tty", "choice", "off",
         "whether a line typed on a terminal makes a local user, too; any program can type on a terminal of its own",
         "CCS §4.4, B-CCS-18", choices=("off", "on")),
    Knob("local_idle_s", "integer", 60, "time without input after which a local user counts as gone",
         "CCS §4.4, B-CCS-18", unit="s", low=1, high=86400),
    Knob("slurm_extend", "choice", "off",
         "whether Slurm's time limit of a job grows by the time that the job was stopped, a minute at a time; on the "
         "job's first node, whose root slurmctld must trust as an operator",
         "docs/slurm.md", choices=("off", "on")),
    Knob(
        "credit",
        "choice",
        "on",
        "a local task goes ahead if it slept more than it ran, or left part of its turn; off: to the tail, as printed",
        "CCS §4.4, B-CCS-31",
        choices=("on", "off"),
        fields=("credit",),
        encoding="flag",
    ),
    Knob(
        "credit_max_ms",
        "integer",
        40,
        "limit on the sleep, and on the rest of turns, that count as credit",
        "B-CCS-31",
        unit="ms",
        high=1000,
        fields=("credit_max_ns",),
        encoding="ms",
    ),
    Knob(
        "waker_stays",
        "choice",
        "on",
        "a task that wakes another and loses the CPU to it keeps it until it waits, at most to the next tick; off: it "
        "loses the CPU at once",
        "B-CSM-4",
        choices=("on", "off"),
        fields=("waker_stays",),
        encoding="flag",
    ),
    Knob(
        "walk_max",
        "integer",
        11,
        "number of tasks that one insertion may walk past; a counter shows how often the limit ends a walk",
        "docs/design.md, Limits in full",
        unit="tasks",
        low=1,
        high=1024,
        fields=("walk_max",),
    ),
    Knob(
        "top_ms",
        "integer",
        50,
        "how long tasks that go to the top, or ahead on credit, may keep the other tasks waiting",
        "B-CSM-5",
        unit="ms",
        low=1,
        high=10000,
        fields=("top_ms",),
    ),
    Knob("starve_ms", "integer", 1000,
         "rule `prio`: how long jobs may keep a local task off a CPU; after `watchdog_ms` / 4 no task passes it",
         "B-MO-14", unit="ms", low=10, high=10000, fields=("starve_ms",)),
    Knob("gang", "choice", "auto",
         "tasks of jobs have the CPUs of the node at the same time, in the first L of every `gang_ms`, and local tasks "
         "in the rest, in place of epochs; auto: where the node has several CPUs",
         "docs/design.md, Gangs", choices=("auto", "on", "off"), fields=("gang",), encoding="enum"),
    Knob("gang_ms", "integer", 80, "period of the windows of `gang`, by the clock, on all nodes at once",
         "docs/design.md, Gangs", unit="ms", low=10, high=1000, fields=("gang_ns",), encoding="ms"),
    Knob(
        "unread_ms",
        "integer",
        1000,
        "CPU time that a task may use without reading its messages before they no longer count; 0: no limit",
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
        "CPU time that a parallel task may poll before it counts as waiting and goes to the tail; 0: no limit",
        "Monito §2.2, B-MO-10, B-CCS-25, docs/design.md, Waiting ranks",
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
        "whether memory does not fit (Mem > M); auto: the agent decides from the memory's state",
        "CSM eq. 4, CCS §3.2",
        choices=("auto", "on", "off"),
        fields=("overload",),
        encoding="enum",
    ),
    Knob(
        "flt",
        "choice",
        "rate",
        "FLT of a task; rate: major faults of the last second; probability: per mille of its process's pages on swap",
        "CCS §3.2; CSM eq. 3, B-CSM-1",
        choices=("rate", "probability"),
        fields=("flt",),
        encoding="enum",
    ),
    Knob(
        "classify",
        "choice",
        "cgroup",
        "tasks that count as parallel; cgroup: tasks in cgroups of jobs; mes: tasks whose mes is not zero",
        "CSM §3.1, B-CSM-7",
        choices=("cgroup", "mes"),
        fields=("classify",),
        encoding="enum",
    ),
    Knob(
        "sensors",
        "choice",
        "on",
        "observe page faults, socket queues and user input; off: the rules work without observations",
        "CCS §4.4",
        choices=("on", "off"),
        fields=("sensors",),
        encoding="flag",
    ),
    Knob(
        "reinsert",
        "choice",
        "on",
        "a message for a queued task inserts the task anew",
        "Monito Alg. 2",
        choices=("on", "off"),
        fields=("reinsert",),
        encoding="flag",
    ),
    Knob(
        "share_ms",
        "integer",
        100,
        "policy `dynamic`: by how much less CPU time the receiver must have used than the running task",
        "Monito §5.3, B-MO-7",
        unit="ms",
        high=60000,
        fields=("share_ns",),
        encoding="ms",
    ),
    Knob("metrics_port", "integer", 0,
         "port of 127.0.0.1 on which every user of this node may read the figures for Prometheus; 0: the Unix socket "
         "alone", "docs/design.md, Figures for Prometheus", high=65535),
    Knob(
        "watchdog_ms",
        "integer",
        30000,
        "waiting time of a runnable task after which the kernel ends the scheduler; fixed while loaded",
        "Linux, struct sched_ext_ops: timeout_ms",
        unit="ms",
        low=1000,
        high=30000,
        live=False,
    ),
)

KNOBS: Mapping[str, Knob] = {knob.name: knob for knob in _KNOBS}


def find_knob(name: str) -> Knob:
    """The knob of this name. Raises CoschedError (status 2), which lists all names."""
    knob = KNOBS.get(name)
    if knob is None:
        raise CoschedError(f"no knob is called {brief(name)}: choose one of {', '.join(KNOBS)}", USAGE)
    return knob


def defaults() -> dict[str, Value]:
    """Every knob but `mno` at its default."""
    return {knob.name: knob.default for knob in KNOBS.values() if knob.name != "mno"}
