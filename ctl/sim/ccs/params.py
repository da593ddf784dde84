# SPDX-License-Identifier: GPL-2.0-or-later
"""The parameters of model `ccs` (CCS §5, T. 2 to 4)."""

from __future__ import annotations

from collections.abc import Mapping

from ctl.errors import USAGE, CoschedError
from ctl.policy import KNOBS
from ctl.sim.ccs.inputs import NOWS, USERS, WORKLOADS
from ctl.sim.params import Parameter, Value, by_name

__all__ = ["PARAMETERS", "TRIALS", "check"]

TRIALS = {"fig3": 5, "stop": 4}
"""Trials with given jobs, and their nodes (trials.py)."""


def _of_knob(name: str) -> Value:
    """The default of the kernel side's knob of this name."""
    default = KNOBS[name].default
    assert default is not None
    return default


_ON = ("policy", "on", "off")
_P = Parameter
PARAMETERS = by_name(
    _P("now", "C(.15)", "", 0, 0, "the cluster: its nodes' weights and memories", "CCS T. 1, B-CCS-20", tuple(NOWS)),
    _P("nodes", 16, "nodes", 1, 64, "nodes of the cluster, in the table's proportions, fastest first", "CCS T. 1"),
    _P("workload", "COM_M", "", 0, 0, "the parallel jobs' programs, uniform", "CCS T. 3", tuple(WORKLOADS)),
    _P("jobs", 48, "jobs", 0, 1_000_000, "parallel jobs of a replication", "CCS §5"),
    _P("mit_s", 10.0, "s", 1e-6, 1e9, "mean time between two jobs' arrivals", "default: the queue is never empty"),
    _P("size_from", 4, "tasks", 1, 64, "least size of a job; sizes are powers of 2, uniform", "CCS §5"),
    _P("size_to", 16, "tasks", 1, 64, "largest size of a job", "CCS §5"),
    _P("mpl", 3, "tasks", 1, 64, "parallel tasks on a node of weight 1, on others mpl W", "CCS eq. 4"),
    _P("mpl_of", "now", "", 0, 0, "mpl also bounds the jobs in the whole cluster, or each node's tasks only",
       "CCS §5 default: as worded", ("now", "node")),
    _P("work_scale", 1.0, "", 1e-6, 1e6, "factor on the programs' CPU times", "inputs.py default:"),
    _P("memory_scale", 2.0, "", 1e-6, 1e3, "factor on their memory", "default: most with which §5.1's Shell users fit"),
    _P("gap_scale", 1.0, "", 1e-3, 1e3, "factor on their CPU time between messages", "inputs.py default:"),
    _P("delay_scale", 1.0, "", 1e-3, 1e3, "factor on their messages' delays", "inputs.py default:"),
    _P("base_mb", 10.0, "MB", 0, 1e6, "memory of each task beside its part of the job's", "default: PVM and program"),
    _P("locals", 8, "users", 0, 64, "local users, each on a node without another", "CCS §5.1"),
    _P("users", "mix", "", 0, 0, "what they are", "CCS T. 2, T. 4, B-CCS-19", tuple(USERS)),
    _P("place", "any", "", 0, 0, "users come to any free node, or to the first", "CCS §5 default:", ("any", "first")),
    _P("stay_short_min", 10.0, "min", 1e-3, 1e6, "how long users stay: mean of the first phase", "CCS §5"),
    _P("stay_long_min", 60.0, "min", 1e-3, 1e6, "mean of the second phase", "CCS §5"),
    _P("stay_short", 0.6, "", 0, 1, "P(first phase)", "CCS §5"),
    _P("cycle_ms", 200.0, "ms", 1e-2, 1e6, "a local task's CPU burst and wait, mean of both together",
       "default: a key pressed, a page read"),
    _P("idle_s", 60.0, "s", 0, 1e6, "time for which a gone user still counts as present", "CCS §4.4, B-CCS-18"),
    _P("share_l", _of_knob("share_l"), "", 0, 1, "L", "CCS §3.2, §5.1"),
    _P("quantum_ms", 210.0, "ms", 1, 1e5, "Def_Q of the operating system", "CCS §5.1"),
    _P("quantum", "policy", "", 0, 0, "Set_Quantum; policy: the policy's row decides", "CCS Alg. 2", _ON),
    _P("memory", "policy", "", 0, 0, "Set_Memory; likewise", "CCS Alg. 3", _ON),
    _P("events", "policy", "", 0, 0, "Sending_Events and Receiving_Events; likewise", "CCS §4.3", _ON),
    _P("epoch_ms", float(_of_knob("epoch_ms")), "ms", 1, 1e6, "the longest epoch", "default: the knob epoch_ms"),
    _P("event_ms", 1.0, "ms", 0, 1e5, "latency of an event", "default:"),
    _P("jitter_ms", 0.0, "ms", 0, 1e5, "additional delay, uniform from 0; events may pass each other", "default:"),
    _P("loss", 0.0, "", 0, 1, "P(an event is lost)", "default:"),
    _P("lease_s", 9.0, "s", 0.1, 60, "how long an event holds without repetition",
       "B-CCS-12 default: the relay's"),
    _P("credit", "off", "", 0, 0, "a local task with more than a quantum left goes ahead when it wakes",
       "B-CCS-5, B-CCS-31 default: as printed", ("off", "on")),
    _P("mnol", _of_knob("mnol"), "overtakes", 0, 64, "overtakes a local task may suffer", "CCS §4.1"),
    _P("mnod", _of_knob("mnod"), "overtakes", 0, 64, "overtakes a parallel task may suffer", "CCS §4.1"),
    _P("p", _of_knob("p"), "", 0, 1, "weight of the past in mes, for pred", "CSM eq. 2"),
    _P("top", "preempt", "", 0, 0, "a task past the running task runs, or is next", "B-CCS-3", ("preempt", "next")),
    _P("switch_us", 10.0, "us", 0, 1e5, "cost of putting another task on the CPU", "default: Monito §5.2"),
    _P("spin_us", 20.0, "us", 0, 1e6, "implicit: how long a task polls before it blocks", "CCS §5: two switches"),
    _P("wrk_local", 0.5, "", 0, 1, "mean working set of a local task, part of its memory", "CSM §5.1"),
    _P("wrk_parallel", 0.8, "", 0, 1, "mean working set of a parallel task", "CSM §5.1"),
    _P("wrk_sd", 0.1, "", 0, 1, "standard deviation of working sets, part of the memory", "default:"),
    _P("touch_ms", 1.0, "ms", 0, 1e5, "CPU time between two references to pages; 0: one at each dispatch, as CSM §5.1",
       "default: a quantum must not hide faults"),
    _P("fault_ms", 10.0, "ms", 0, 1e4, "service of a page fault, one disk for each node, first come, first served",
       "default: as LoadShare §2.2.1"),
    _P("cluster", 8, "pages", 1, 1024, "pages that a fault brings", "default: Linux 2.4's page_cluster"),
    _P("enter", "rescale", "", 0, 0, "a new task's pages by CSM eq. 7, or only free ones", "CSM eq. 7 default:",
       ("rescale", "free")),
    _P("governor", "off", "", 0, 0, "kills the last job if a node has too much load", "CCS §5.2, B-CCS-30",
       ("off", "on")),
    _P("sample_s", 30.0, "s", 0.1, 1e5, "how often it looks", "CCS §5.2"),
    _P("cpu_max", 1.7, "tasks", 0, 100, "ready and running tasks of a node that the governor tolerates", "CCS-31"),
    _P("memory_max", 0.8, "", 0, 100, "part of a node's memory asked for that the governor tolerates", "CCS-31"),
    _P("calm", 4, "samples", 1, 10_000, "samples without overload until one more job may run", "default:"),
    _P("trial", "none", "", 0, 0, "given jobs instead of drawn jobs", "CCS Fig. 3, §4.2",
       ("none", *TRIALS)),
)  # fmt: skip


def check(values: Mapping[str, Value]) -> None:
    """Refuse values that do not go together."""
    nodes, users, trial = int(values["nodes"]), int(values["locals"]), str(values["trial"])
    low, high = int(values["size_from"]), int(values["size_to"])
    if trial != "none" and nodes != TRIALS[trial]:
        raise CoschedError(f"parameter nodes cannot be {nodes} in trial {trial}: allowed is {TRIALS[trial]}", USAGE)
    if users and not USERS[str(values["users"])]:
        raise CoschedError(f"parameter locals cannot be {users} with users=nobody: allowed is 0 users", USAGE)
    if users > nodes:
        raise CoschedError(f"parameter locals cannot be {users}: allowed is 0 to {nodes}, one on a node", USAGE)
    if not low <= high <= nodes and trial == "none":
        raise CoschedError(
            f"parameter size_to cannot be {high}: allowed is {low} (size_from) to {nodes} (nodes) tasks", USAGE
        )
    for name, size in (("size_from", low), ("size_to", high)):
        if size & (size - 1):
            raise CoschedError(f"parameter {name} cannot be {size}: allowed is a power of 2, 1 to 64 tasks", USAGE)
