# SPDX-License-Identifier: GPL-2.0-or-later
"""The types that several rooms share, so that these rooms need not know each other.

    State, Decision, Sizes, Local, Peers    between a node's agent and the cluster, in both directions
    NodeFacts, JobFacts                     what nodes tell each other of their jobs' memory (policy `fit`)
    OnHold                                  what nodes tell each other of jobs that their owners put on hold
    JobQueue                                between the agent and ctl/jobs, which decides whose memory fits
    View and its parts                      between the agent and the dashboard: the answer of `view`
    Measured, Render                        between the agent and the exporter: the figures of a scrape

The agent fills a `View`, the dashboard draws it and asks for nothing else. All keys are always present unless marked
NotRequired; an unknown value is None, never a made-up 0. Sizes are bytes, times seconds, rates per second over the
agent's newest sampling interval (about 1 s), shares fractions of one CPU (0..number of CPUs).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NotRequired, Protocol, TypedDict

__all__ = [
    "IN_MEMORY",
    "MAX_SKEW",
    "ON_HOLD",
    "SUSPENDED",
    "Cluster",
    "ClusterNode",
    "Cpu",
    "Decision",
    "Event",
    "Job",
    "JobFacts",
    "JobQueue",
    "Join",
    "Load",
    "Local",
    "Measured",
    "Memory",
    "Modes",
    "NodeFacts",
    "OnHold",
    "Overload",
    "Peers",
    "Queue",
    "QueuedJob",
    "Render",
    "RuleRate",
    "Sizes",
    "State",
    "Task",
    "View",
    "Wish",
    "in_words",
]

# between agent and cluster

MAX_SKEW: Final = 60.0  # seconds that two nodes' clocks may be apart
SUSPENDED: Final = "its processes are stopped (SIGSTOP or a debugger)"  # a job that its owner has stopped
ON_HOLD: Final = "on_hold"  # a state of a Job and of a QueuedJob: until its owner releases it
IN_MEMORY: Final = ("runs", "held", "suspended")  # states of a QueuedJob whose memory the room holds


def in_words(state: str) -> str:
    """A job's state for people.

    >>> in_words(ON_HOLD)
    'on hold'
    """
    return state.replace("_", " ")


class State(StrEnum):
    """The state of a job on this node: the papers' NULL, LOCAL and STOP (CCS §3.2)."""

    FREE = "free"
    SLOWED = "slowed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision for a job on this node, with the reason; `by` are the nodes that caused it."""

    jid: str
    state: State
    by: tuple[str, ...] = ()
    why: str = ""

    def elsewhere(self, node: str) -> bool:
        """Whether another node is among the causes."""
        return any(other != node for other in self.by)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of the other nodes for Set_Quantum and Set_Memory (CCS eq. 1 and 5)."""

    nodes: int
    speed_max: float  # in the unit nodes measure theirs in
    memory_min: int  # bytes: M_Paral = memory_min * L


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What a node knows of one of its jobs; times are Unix seconds."""

    jid: str
    need: int  # bytes on this node
    arrival: int = 0  # the job's number in the order of arrival; 0: not numbered yet
    behind: float = 0.0  # when it last went behind all others, at the end of a turn
    since: float = 0.0  # since when it runs; where nobody waited before, since somebody does
    passed: int = 0  # jobs that began while it waited before them
    here: bool = True  # it has processes on this node; else it asks whether it may begin
    runs: bool = False
    now: bool = False  # its owner wants it to run whether or not it fits
    suspended: bool = False  # its owner has stopped its processes here: it gives way to all others


@dataclass(frozen=True, slots=True)
class Load:
    """A node's load, for the placement of jobs."""

    cpus: int = 1
    speed: float = 0.0  # in the unit nodes measure theirs in; 0: not measured yet
    runnable: float = 0.0  # tasks that run or could run, mean of some seconds
    faults_s: float = 0.0  # major faults per second


@dataclass(frozen=True, slots=True)
class OnHold:
    """What a job's owner, or root, said last: the job is on hold until it is released, or it is released.

    Of two such words about a job the later counts, on all nodes.
    """

    jid: str
    at: float  # Unix seconds
    by: str  # the user who said so
    on: bool  # on hold; else released


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node tells the others of its memory and its jobs."""

    room: int  # bytes, for all jobs
    turn_s: float  # the length of a turn that this node wants
    jobs: tuple[JobFacts, ...]
    load: Load = field(default=Load(), compare=False)  # it changes all the time, and is no news
    on_hold: tuple[OnHold, ...] = ()
    fits: bool = True  # it has a queue of jobs; else it tells of jobs on hold alone


class Local(Protocol):
    """The calls of the cluster to a node's agent, from the event loop's thread. No call may block."""

    def apply(self, decision: Decision) -> None:
        """Slow a job down, freeze it, or let it run; called when a decision differs from the one before."""

    def sizes(self, sizes: Sizes) -> None:
        """The fastest node's speed or the smallest node's memory has changed."""

    def facts(self, others: Mapping[str, NodeFacts]) -> None:
        """The facts of the other nodes, by node; called when they differ from the last time."""

    def arrived(self, arrivals: Mapping[str, int]) -> None:
        """Jobs of this node have got their numbers in the order of arrival."""

    def tell(self, kind: str, text: str, **details: object) -> None:
        """Report an event to people."""


class Peers(Protocol):
    """The calls of the agent to the cluster. Each call returns at once, and works without a connection."""

    @property
    def node(self) -> str:
        """This node's name in the cluster."""

    def hold(self, jid: str, user: str) -> None:
        """A job of this user has its first task here."""

    def release(self, jid: str) -> None:
        """The job's last task here has ended."""

    def local_user(self, why: str) -> None:
        """A local user is present, by this sign; an empty string: no user."""

    def stops(self, wants: list[tuple[str, str]]) -> None:
        """All jobs that this node wants stopped, each with a reason."""

    def facts(self, facts: NodeFacts | None) -> None:
        """This node's facts, when they differ from the last time; None: this node has no queue of jobs."""

    def describe(self, speed: float, memory: int, share_l: float) -> None:
        """This node's speed, its memory in bytes, and its L."""

    async def check_user(self, jid: str, user: str) -> None:
        """Raise CoschedError (status 2) if a node holds this job for another user."""

    def status(self) -> dict[str, Any]:
        """The whole state, for people."""

    def start(self) -> None:
        """Connect, and stay connected."""

    async def end(self) -> None:
        """Take back this node's events at the others, and disconnect."""


Join = Callable[[Local], "Peers | None"]
"""Make the peers of an agent; None: this node is in no cluster. May take a second, and runs in a thread."""

# between agent and ctl/jobs


@dataclass(frozen=True, slots=True)
class Wish:
    """A job that wants to begin on this node."""

    jid: str
    user: str
    program: str = ""  # the key of its history; empty: unknown
    need: int = 0  # bytes, as declared by its owner; 0: not declared
    now: bool = False  # it begins whether or not it fits
    again: bool = False  # it has asked before
    static: int = 0  # bytes, of the program's segments, for each of its processes; 0: unknown
    ranks: int = 0  # processes of its program on this node; 0: unknown
    requested: int = 0  # bytes, as asked of Slurm, which users set high: it counts until there is a history


class JobQueue(Protocol):
    """The calls of the agent to the queue of jobs (ctl/jobs/queue.py); sizes in bytes, times in Unix seconds."""

    def ask(self, wish: Wish, at: float) -> str:
        """May this job begin here? The empty string, or why it has to wait; then ask again."""

    def meet(self, wish: Wish, at: float) -> None:
        """A job has begun here without asking this agent, as those of Slurm do: what is known of it."""

    def linger(self, jid: str, lingers: bool) -> None:
        """Whether the command of a job here has ended and other processes of it live on: then it needs what it has."""

    def suspend(self, jid: str, suspended: bool) -> None:
        """Whether a job's owner has stopped its processes here: then it gives way to all others, on all its nodes."""

    def notice(self, jid: str, working: int, ranks: int) -> None:
        """What a running job here gets by with, bytes, and its ranks, each at most so far: for its history."""

    def look(
        self,
        at: float,
        sizes: Mapping[str, int],
        room: int,
        turn_s: float = 0.0,
        load: Load = ...,
        stays: Mapping[str, int] = ...,
    ) -> list[tuple[str, str]]:
        """The jobs to be stopped, each with a reason, by what the jobs here have, what of it stays in memory if they
        are stopped, and the room beside what stays."""

    def decide(self, at: float) -> list[tuple[str, str]]:
        """The same by what is known: after news of other nodes, and at the end of a turn."""

    def on_hold(self, reasons: Mapping[str, str]) -> None:
        """The jobs on hold, of all nodes, each with the reason in words; look() or decide() then."""

    def due(self, at: float) -> float | None:
        """When the turn ends; None: there are no turns, or not more than one job."""

    def order(self) -> list[str]:
        """The jobs in their order, on all nodes the same."""

    def outgrown(self) -> list[tuple[str, str]]:
        """The jobs that run here and outgrew this node, while another node has room for them, each with the way."""

    def join(self, node: str) -> None:
        """This node's name in the cluster."""

    def hear(self, others: Mapping[str, NodeFacts]) -> None:
        """The facts of the other nodes, by node."""

    def arrived(self, arrivals: Mapping[str, int]) -> None:
        """Jobs of this node have got their numbers in the order of arrival."""

    def facts(self) -> NodeFacts:
        """The facts of this node."""

    def place(self, count: int, need: int, by: str) -> list[str]:
        """The nodes where a job should run; see ctl/jobs/placing.py. Raises CoschedError."""

    def cancel(self, jid: str) -> bool:
        """Forget a job that asks and has no process here; False if there is none."""

    def user(self, jid: str) -> str | None:
        """The user for whom a job waits outside; None if no such job does."""

    def clear(self) -> None:
        """Forget all."""

    def rows(self, at: float) -> dict[str, Any]:
        """The queue, for people."""

    def history(self) -> list[dict[str, Any]]:
        """What jobs needed so far, for people."""

    def forget(self, program: str, user: str | None) -> int:
        """Forget what jobs of this key needed, of this user or of all (None); the number of runs."""


# between agent and dashboard


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
    nr_expired: int  # tasks that used their quantum and wait for the next epoch, in no order but arrival


class Modes(TypedDict):
    """Insertions decided in each mode since load (all CPUs, all rules); the dashboard takes differences."""

    predictive: int  # by mes or COM
    dynamic: int  # by received messages
    csm: int  # by page faults


class Overload(TypedDict):
    """Whether Mem > M, and the source of this verdict."""

    mode: str  # the knob: auto, on, off
    verdict: bool  # what the scheduler acts on now
    why: str  # one clause for people, e.g. "swap-ins 210/s for 3 s"


class Memory(TypedDict):
    """The node's memory: M is the memory for tasks, Mem their need for running without paging."""

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
    state: NotRequired[str]  # its state here: "free", "slowed", "stopped" or "on_hold"
    why: NotRequired[str]


class RuleRate(TypedDict):
    """The rates of an insert rule, per second."""

    insertions_s: float
    overtakes_s: float


class Event(TypedDict):
    """An event on the node, newest last."""

    time: float  # Unix time
    text: str  # one sentence


class ClusterNode(TypedDict):
    """A node of the cluster; None: it has told no sizes."""

    jobs: int  # of this node's jobs, those that it holds, too
    speed: float | None  # in the unit nodes measure theirs in
    memory: int | None  # bytes
    share_l: float | None


class Cluster(TypedDict):
    """The cluster that this node is in."""

    node: str  # this node's name in it
    broker: str  # host and port; empty: not connected
    nodes: dict[str, ClusterNode]  # every known node
    holders: dict[str, list[str]]  # this node's jobs, and the other nodes that hold each


class QueuedJob(TypedDict):
    """One job of the queue."""

    jid: str
    # "runs", "held" (runs, and waits for memory), "suspended" (its owner has stopped its processes, and it is in
    # memory), "waits" (not begun yet), "stopped" (and pushed out) or "on_hold" (begun or not: until it is released)
    state: str
    need: int  # bytes on this node: declared, else estimated, or what it had so far if that is more
    stays: int  # bytes of the need that are in memory also when it is stopped; 0 for another node's job
    needs: dict[str, int]  # bytes, by node
    declared: int | None  # bytes, by its owner; 0: not declared; None: another node's job
    estimated: int | None  # bytes, by history, Slurm or the program; 0: unknown; None: another node's job
    passed: int  # jobs that began while it waited
    why: str  # why it does not run or is held, or that it outgrew its node while another has room; or empty


class Queue(TypedDict):
    """The queue of jobs under policy `fit`: the answer of `queue`."""

    room: int  # bytes, for jobs on this node
    rooms: dict[str, int]  # bytes, by node, this one among them
    loads: dict[str, dict[str, float]]  # the fields of Load, by node
    turn_left_s: float | None  # None: nobody waits, or there are no turns
    turns: int  # that ended
    left_behind: int  # bytes of files in shared memory that ended jobs have left, beside the room
    jobs: list[QueuedJob]  # in the order of all nodes


class View(TypedDict):
    """One frame of the dashboard."""

    time: float  # Unix time of the snapshot
    node: str  # host name
    policy: str | None  # row of ctl/policy; None: our scheduler is not loaded
    rule: str | None
    knobs: dict[str, Any]  # knob name -> value, as `ctl get --json`
    modes: Modes
    overload: Overload
    memory: Memory
    cpus: list[Cpu]  # online CPUs in order
    jobs: list[Job]  # sorted by jid
    rules: dict[str, RuleRate]  # rules that inserted anything since load
    events: list[Event]  # the newest, at most 50
    local_user: NotRequired[str | None]  # the sign of a local user: "keyboard"; None: no user
    cluster: NotRequired[Cluster | None]  # None: this node works alone
    queue: NotRequired[Queue | None]  # None: the policy has none
    since: NotRequired[float]  # Unix time of load
    traced_lost: NotRequired[int]  # decisions lost since load, ring buffer full


# between agent and exporter


class Measured(TypedDict):
    """A node's figures now."""

    status: dict[str, Any]  # the answer of `status`
    jobs: list[dict[str, Any]]  # the answer of `jobs`
    rules: dict[str, dict[str, int]]  # rule to the scheduler's statistics by name
    queued: dict[int, int]  # CPU to the number of tasks in its ready queue
    paging: dict[str, float]  # since boot: swapins and refaults, pages; stalled, seconds


Render = Callable[[Measured], bytes]
"""Make the text of a scrape; called in a thread of its own."""
