# SPDX-License-Identifier: GPL-2.0-or-later
"""What the dashboard shows, as one JSON object: the answer of the agent's `view` operation.

The agent fills a `View`, the dashboard draws it and asks for nothing else. All keys are always present
unless marked NotRequired; a value nobody knows is None, never a made-up 0. Sizes are bytes, times seconds,
rates per second over the agent's newest sampling interval (about 1 s), shares fractions of one CPU
(0..number of CPUs).
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

__all__ = ["Cluster", "Cpu", "Event", "Job", "Memory", "Modes", "Overload", "RuleRate", "Task", "View"]


class Task(TypedDict):
    """One task of a ready queue: T of the trace contract, with the job it belongs to."""

    tid: int
    comm: str
    parallel: bool
    de: int  # overtakes suffered since it reached the ready queue, 0..MNO
    mes: float  # P*mes + (1-P)*COM, messages
    com: int  # messages queued now, received and sent
    rec: int  # messages queued now, received
    flt: int  # major faults in the last second, or per mille of its pages on swap
    jid: NotRequired[str | None]  # the job, None for a local task; absent where the agent did not look it up


class Cpu(TypedDict):
    """One CPU's ready queue as the kernel's snapshot program saw it."""

    cpu: int
    running: Task | None  # None: idle, or a task of another scheduling class
    queue: list[Task]  # head first, at most MAX_TRACE
    nr_queued: int  # tasks really queued, >= len(queue)


class Modes(TypedDict):
    """Insertions decided in each mode since load (all CPUs, all rules); the dashboard takes differences."""

    predictive: int  # by mes or COM
    dynamic: int  # by received messages
    csm: int  # by page faults


class Overload(TypedDict):
    """Whether Mem > M, and who says so."""

    mode: str  # the knob: auto, on, off
    verdict: bool  # what the scheduler acts on now
    why: str  # one clause for people, e.g. "swap-ins 210/s for 3 s"


class Memory(TypedDict):
    """The node's memory: M is what tasks can have, Mem what they need to run without paging."""

    m: int  # bytes
    mem: int | None  # bytes; None until first measured
    swap_total: int  # bytes
    swap_used: int  # bytes
    swapins_s: float | None  # pages swapped in per second; None before the second sample
    psi_some: float | None  # /proc/pressure/memory some avg10, percent
    psi_full: float | None  # full avg10, percent


class Job(TypedDict):
    """One job: a cgroup under the jobs' parent."""

    jid: str
    tasks: int
    cpu_share: float | None  # CPUs used, 0..number of CPUs
    majflt_s: float | None
    overtakes_given: int  # its tasks overtook another, since load
    overtakes_suffered: int  # its tasks were overtaken, since load
    memory: int  # bytes resident (memory.current)
    swap: int  # bytes in swap (memory.swap.current)
    frozen: NotRequired[bool]  # stopped by cgroup.freeze
    state: NotRequired[str]  # what it is to be here: "free", "slowed" or "stopped"
    why: NotRequired[str]


class RuleRate(TypedDict):
    """What one insert rule does per second."""

    insertions_s: float
    overtakes_s: float


class Event(TypedDict):
    """Something that happened on the node, newest last."""

    time: float  # Unix time
    text: str  # one sentence


class Cluster(TypedDict):
    """The cluster that this node is in."""

    broker: str  # host and port; empty: not connected
    nodes: dict[str, int]  # every known node, and how many of this node's jobs it holds, too


class View(TypedDict):
    """One frame of the dashboard."""

    time: float  # Unix time of the snapshot
    node: str  # host name
    policy: str | None  # row of ctl/policy.py; None: our scheduler is not loaded
    rule: str | None
    knobs: dict[str, Any]  # knob name -> value, as `ctl get --json`
    modes: Modes
    overload: Overload
    memory: Memory
    cpus: list[Cpu]  # online CPUs in order
    jobs: list[Job]  # sorted by jid
    rules: dict[str, RuleRate]  # rules that inserted anything since load
    events: list[Event]  # the newest, at most 50
    local_user: NotRequired[str | None]  # what shows that one is present: "keyboard"; None: nobody is
    cluster: NotRequired[Cluster | None]  # None: this node works alone
    since: NotRequired[float]  # Unix time of load
    traced_lost: NotRequired[int]  # decisions lost since load, ring buffer full
