# SPDX-License-Identifier: GPL-2.0-or-later
"""Beyond the papers: their queue orders on 1,024 nodes of 16 CPUs, one ready queue for each CPU.

Local tasks ask for 45 % of the CPUs, jobs of 2 to 2,048 tasks for 40 %. A job takes one CPU for each task; a large job
takes whole nodes. The papers' large jobs are left out, because a run would have too few of them. A page stands for 128
KB, which is what a fault brings in, so 32 K pages for each CPU are 4 GB. Tasks do not change their CPU. Times are
today's: slices of 20 ms (knob quantum_ms), a message each 20 ms of CPU time, 20 µs on its way. Lives are short, 2 s, so
that jobs come during ten lives, 20 s.
"""

from __future__ import annotations

from collections.abc import Mapping

from ctl.sim.csm.model import MODEL
from ctl.sim.experiment import Experiment, Line, Panel
from ctl.sim.params import Value

__all__ = ["EXPERIMENTS"]

_CPUS = 16
_MEMORY = tuple(_CPUS * pages for pages in (8192, 12288, 16384, 32768))
_TODAY: Mapping[str, Value] = {
    "nodes": 1024,
    "cpus": _CPUS,
    "memory": _MEMORY[-1],
    "mix": "two",
    "pdt": 0.0024,
    "mit_s": 0.000271,
    "jobs": 80_000,
    "tc_local_s": 2.0,
    "tc_small_s": 2.0,
    "tc_cv": 1.0,
    "slice_ms": 20.0,
    "mfreq_ms": 20.0,
    "latency_ms": 0.02,
    "smq_ms": 0.05,
}
_POLICIES = ("rr", "pred", "csm", "ccs")
_FITTING = ("rr", "pred", "ccs")
_FAULT_MS = {"disk": 20.0, "NVMe": 0.1}
_LINES: Mapping[str, Line] = {
    f"{p}, {kind}": (p, {"fault_ms": ms}) for kind, ms in _FAULT_MS.items() for p in _POLICIES
}

EXPERIMENTS = (
    Experiment(
        "scale",
        "1,024 nodes of 16 CPUs, by memory",
        MODEL,
        lines=_LINES,
        x="memory",
        xs=_MEMORY,
        panels=tuple(
            Panel(f"late_slowdown_{who}", f"{said}, a fault takes {_FAULT_MS[kind]:g} ms", "slowdown / that of rr",
                  tuple(f"{p}, {kind}" for p in _POLICIES if p != "rr"), f"rr, {kind}")
            for who, said in (("small", "jobs"), ("local", "local tasks"))
            for kind in _FAULT_MS
        ),
        at=_TODAY,
        xlabel="memory of a node, pages of 128 KB",
        log=True,
        seeds=3,
    ),
    Experiment(
        "scale-messages",
        "1,024 nodes of 16 CPUs, memory for all, by message interval",
        MODEL,
        lines={p: (p, {}) for p in _FITTING},  # csm is pred while memory suffices
        x="mfreq_ms",
        xs=(10, 20, 100, 500),
        panels=(
            Panel("late_slowdown_small", "jobs", "slowdown / that of rr", _FITTING[1:], "rr"),
            Panel("late_slowdown_local", "local tasks", "slowdown / that of rr", _FITTING[1:], "rr"),
            Panel("correlation", "correlation", "correlation, %"),
        ),
        at=_TODAY,
        xlabel="mean CPU time between messages, ms",
        log=True,
        seeds=3,
    ),
)  # fmt: skip
