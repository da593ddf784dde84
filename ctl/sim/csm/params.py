# SPDX-License-Identifier: GPL-2.0-or-later
"""The parameters of model `csm` (CSM §5.1)."""

from __future__ import annotations

from collections.abc import Mapping

from ctl.errors import USAGE, CoschedError
from ctl.policy import KNOBS
from ctl.sim.csm.trials import TRIALS
from ctl.sim.params import Parameter, Value, by_name

__all__ = ["PARAMETERS", "check"]


def _of_knob(name: str) -> Value:
    """The default of the kernel side's knob of this name."""
    default = KNOBS[name].default
    assert default is not None
    return default


_MOST_CPUS = 200_000

_P = Parameter
PARAMETERS = by_name(
    _P("nodes", 32, "nodes", 1, _MOST_CPUS, "n, all alike", "CSM §5.1"),
    _P("cpus", 1, "CPUs", 1, 1024, "CPUs of a node, each with its own ready queue; they share the node's memory",
       "default: the papers' nodes have one"),
    _P("jobs", 1000, "jobs", 1, 10_000_000, "jobs of a replication, of all classes", "CSM §5.2"),
    _P("memory", 32768, "pages", 1, 2**31, "M of a node", "CSM §5.1"),
    _P("mest", 8192, "pages", 1, 2**29, "memory of tasks: 1..mest, mest..2mest, 2mest..4mest by class", "CSM §5.1"),
    _P("mix", "three", "", 0, 0, "classes: local, small and large; or small and local", "B-CSM-18", ("three", "two")),
    _P("pdt", 0.5, "", 0, 1, "P(large) of parallel jobs; in mix two P(small) of all jobs", "CSM §5.1, B-CSM-18"),
    _P("local_share", 0.997703, "", 0, 1, "P(local) of all jobs, in mix three", "B-CSM-19; default: calibrated"),
    _P("mit_s", 13.55, "s", 1e-6, 1e9, "mean time between two arrivals of any class", "B-CSM-14; default: calibrated"),
    _P("tc_local_s", 300.0, "s", 1e-3, 1e7, "mean CPU time of a local job", "CSM §5.1"),
    _P("tc_small_s", 300.0, "s", 1e-3, 1e7, "mean CPU time of each task of a small job", "CSM §5.1"),
    _P("tc_large_s", 3600.0, "s", 1e-3, 1e7, "mean CPU time of each task of a large job", "CSM §5.1"),
    _P("tc_cv", 2.0, "", 0, 20, "their coefficient of variation, hyper-exponential; below 1: constant", "default:"),
    _P("small_from", 2, "tasks", 1, 2**16, "least size of a small job", "B-CSM-20 default:"),
    _P("slice_ms", 100.0, "ms", 1e-3, 1e7, "mean time slice, exponential", "CSM §5.1"),
    _P("slices", "exponential", "", 0, 0, "time slices are drawn, or all are the mean", "CSM §5.1",
       ("exponential", "equal")),
    _P("tick_ms", 0.0, "ms", 0, 1000, "a slice ends with the first tick after it, as in a kernel; 0: by itself",
       "default:"),
    _P("mfreq_ms", 100.0, "ms", 1e-2, 1e7, "mean CPU time of a task between two messages", "CSM §5.1; default: range"),
    _P("gaps", "job", "", 0, 0, "messages fall due at the same progress in all tasks of a job; or each by its own",
       "B-CSM-24 default: by itself a job takes its CPU time", ("job", "task")),
    _P("latency_ms", 0.2, "ms", 0, 1e4, "of a message", "default:"),
    _P("smq_ms", 0.5, "ms", 0, 1e4, "time of a message in the send queue", "default:"),
    _P("fault_ms", 20.0, "ms", 0, 1e4, "of a page fault", "CSM §5.1"),
    _P("switch_ms", 0.0, "ms", 0, 100, "cost of putting another task on the CPU", "CSM §5.2"),
    _P("wrk_local", 0.5, "", 0, 1, "mean working set of a local task, part of its memory", "CSM §5.1"),
    _P("wrk_parallel", 0.8, "", 0, 1, "mean working set of a parallel task", "CSM §5.1"),
    _P("wrk_sd", 0.1, "", 0, 1, "standard deviation of working sets, part of the memory", "default:"),
    _P("phase", 0.1, "", 0, 100, "mean phase, part of the CPU time; 0: one phase", "CSM §5.1"),
    _P("enter", "rescale", "", 0, 0, "a new task's pages by eq. 7: the others shrink for it, or only free ones",
       "CSM eq. 7 default:", ("rescale", "free")),
    _P("refs", 1, "pages", 0, 1000, "pages referred to at a dispatch", "CSM §5.1, B-CSM-23"),
    _P("p", _of_knob("p"), "", 0, 1, "weight of the past in mes", "CSM eq. 2"),
    _P("mnol", _of_knob("mnol"), "overtakes", 0, 64, "overtakes a local task may suffer", "CSM §4.1"),
    _P("mnod", _of_knob("mnod"), "overtakes", 0, 64, "overtakes a parallel task may suffer", "CSM §5.2"),
    _P("classify", "label", "", 0, 0, "parallel: by the job, or if mes is not zero", "B-CSM-7", ("label", "mes")),
    _P("c_mes", "flow", "", 0, 0, "messages since the last insertion and backlog; or backlog", "B-CSM-8",
       ("flow", "backlog")),
    _P("eq3", "corrected", "", 0, 0, "page fault probability", "B-CSM-1", ("corrected", "printed")),
    _P("top", "preempt", "", 0, 0, "a task past the running task runs, or is next", "B-CSM-4", ("preempt", "next")),
    _P("inject_every_s", 0.0, "s", 0, 1e9, "mean time between two injected faults, each of a parallel task; 0: none",
       "default: CSM-40"),
    _P("inject_node", 0, "node", 0, 199_999, "the node where they are", "default: CSM-40"),
    _P("trial", "none", "", 0, 0, "given jobs instead of drawn jobs", "CSM Figs. 2 and 4, §4.2", ("none", *TRIALS)),
)  # fmt: skip


def check(values: Mapping[str, Value]) -> None:
    """Refuse values that do not go together."""
    nodes, small, trial = int(values["nodes"]), int(values["small_from"]), str(values["trial"])
    cpus = int(values["cpus"])
    if int(values["inject_node"]) >= nodes:
        raise CoschedError(
            f"parameter inject_node cannot be {values['inject_node']} of {nodes} nodes: allowed is 0 to {nodes - 1}",
            USAGE,
        )
    if trial != "none":
        if nodes != (wanted := TRIALS[trial].nodes):
            raise CoschedError(f"parameter nodes cannot be {nodes} in trial {trial}: allowed is {wanted}", USAGE)
        if cpus != 1:
            raise CoschedError(f"parameter cpus cannot be {cpus} in trial {trial}: allowed is 1", USAGE)
        return
    if nodes * cpus > _MOST_CPUS:
        raise CoschedError(f"parameter cpus cannot be {cpus} on {nodes} nodes: allowed is {_MOST_CPUS} in all", USAGE)
    if values["mix"] == "three" and nodes * cpus // 8 < small and values["local_share"] != 1:
        raise CoschedError(
            f"parameter nodes cannot be {nodes} in mix three: small jobs have {small} to CPUs/8 tasks, so allowed is "
            f"{8 * small} or more nodes (or local_share=1)",
            USAGE,
        )
