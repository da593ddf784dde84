# SPDX-License-Identifier: GPL-2.0-or-later
"""CCS's experiments, Figs. 3 and 5 to 9, and what its claims need beside them.

Figs. 6 and 7 are made of the same runs. The other readings (READINGS) are experiments of their own, so that a claim can
report their results.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ctl.sim.ccs.inputs import PROFILES, WORKLOADS
from ctl.sim.ccs.model import MODEL
from ctl.sim.experiment import Experiment, Line, Panel
from ctl.sim.params import Value

__all__ = ["EXPERIMENTS", "LOCALS", "READINGS", "STAGES", "TECHNIQUES"]

LOCALS = (0, 4, 8, 12, 16)
"""Local users in Figs. 6 and 7; a step of 4 takes half the time of a step of 2."""

_ALONE: Mapping[str, Value] = {"quantum": "off", "memory": "off", "events": "off"}
STAGES: Mapping[str, Line] = {
    "DYN": ("dyn", {}),
    "RQ": ("ccs", _ALONE),
    "Memory": ("ccs", {"quantum": "off", "events": "off"}),
    "Quantum": ("ccs", {"events": "off"}),
    "Events": ("ccs", {}),
}
"""Fig. 5: each has what the one before it has (B-CCS-21)."""

TECHNIQUES: Mapping[str, Line] = {
    "implicit": ("implicit", {}),
    "dyn": ("dyn", {}),
    "pred": ("pred", {}),
    "ccs 25 %": ("ccs", {"share_l": 0.25}),
    "ccs 50 %": ("ccs", {"share_l": 0.5}),
    "ccs 100 %": ("ccs", {"share_l": 1.0}),
}

READINGS: Mapping[str, Mapping[str, Value]] = {
    "": {},
    "-node": {"mpl_of": "node"},
    "-short": {"memory_scale": 4.0, "mpl_of": "node", "touch_ms": 0.5},
    "-fine": {"cycle_ms": 50.0, "mpl_of": "node"},
    "-credit": {"credit": "on"},
    "-small": {"memory_scale": 1.0},
}
"""Suffixes: the defaults; 3 tasks on each node for any number of jobs; more memory asked for, referred to more often;
users who wait for the machine four times as often; local tasks go ahead after sleep; less memory asked for."""

_SPEEDUP = Panel("speedup", "parallel jobs", "average speedup (eq. 7)")
_SLOWDOWN = Panel("slowdown_local", "local tasks", "slowdown")
_LATENCY = Panel("scl_p99_ms", "local tasks", "system call latency, 99 %, ms")
_ccs = partial(Experiment, model=MODEL, seeds=5)


def _stages(suffix: str, at: Mapping[str, Value]) -> Experiment:
    said = ", ".join(f"{k}={v}" for k, v in at.items())
    return _ccs(
        f"ccs-fig5{suffix}",
        "Fig. 5: the modules, COM_M, 8 local users" + (f", {said}" if said else ""),
        lines=STAGES,
        x="users",
        xs=("shell", "internet"),
        panels=(_SPEEDUP, _SLOWDOWN),
        at=at,
        xlabel="local users",
    )


def _by_workload(metric: str, label: str) -> tuple[Panel, ...]:
    return tuple(Panel(metric, load, label, tuple(f"{name}, {load}" for name in TECHNIQUES)) for load in WORKLOADS)


_by_locals = partial(
    _ccs,
    lines={f"{name}, {load}": (p, {**own, "workload": load}) for load in WORKLOADS for name, (p, own) in
           TECHNIQUES.items()},
    x="locals",
    xs=LOCALS,
    xlabel="local users",
)  # fmt: skip

_KINDS: Mapping[str, Line] = {name: (name, {}) for name in ("implicit", "dyn", "pred", "zhang", "poly", "ccs")}

_SCENARIOS = ("open", "statistic", "edi", "nobody")
_LIMITS: Mapping[str, Mapping[str, Value]] = {
    "dyn": {"cpu_max": 1.7, "memory_max": 0.8},
    "pred": {"cpu_max": 1.7, "memory_max": 0.8},
    "ccs": {"cpu_max": 2.2, "memory_max": 1.2},
}
"""The slowdown that real users bore (CCS §5.2, CCS-31)."""


def _scenario(users: Value) -> Mapping[str, Value]:
    """CCS T. 4: users on 45 % of the nodes, or on all nodes; without users the governor has no user to protect."""
    if users == "nobody":
        return {"locals": 0, "mpl": 4}
    return {"locals": 7 if users == "open" else 16, "governor": "on", "mpl": 8}


def _governed(name: str, said: str, metric: str, label: str, at: Mapping[str, Value]) -> Experiment:
    return _ccs(
        name,
        f"Fig. 9: C(.15), a governed number of jobs{said}",
        lines={f"{p}, {load}": (p, {**_LIMITS[p], "workload": load}) for load in ("COM_L", "COM_H") for p in _LIMITS},
        x="users",
        xs=_SCENARIOS,
        panels=tuple(
            Panel(metric, load, label, tuple(f"{p}, {load}" for p in _LIMITS)) for load in ("COM_L", "COM_H")
        ),
        at=at,
        load=_scenario,
        xlabel="laboratory (T. 4); nobody: dedicated",
    )


_ALL = (
    *(_stages(suffix, READINGS[suffix]) for suffix in ("", "-node", "-short", "-fine", "-credit")),
    _by_locals("ccs-fig6", "Fig. 6: C(.15), MPL 3", panels=_by_workload("speedup", "average speedup (eq. 7)")),
    _by_locals(
        "ccs-fig7",
        "Fig. 7 left: C(.15), MPL 3",
        panels=_by_workload("scl_p99_ms", "system call latency, 99 %, ms"),
    ),
    _by_locals("ccs-fig7-slowdown", "Fig. 7 right: C(.15), MPL 3", panels=_by_workload("slowdown_local", "slowdown")),
    *(
        _ccs(
            f"ccs-fig8{suffix}",
            f"Fig. 8: COM_M, MPL 3, 8 local users{said}",
            lines=_KINDS,
            x="now",
            xs=("C(0)", "C(.15)", "C(.25)"),
            panels=(_SPEEDUP, _SLOWDOWN),
            at=READINGS[suffix],
            xlabel="heterogeneity",
        )
        for suffix, said in (("", ""), ("-node", ", on each node"))
    ),
    *(
        _governed(f"ccs-fig9{suffix}{which}", said, metric, label, READINGS[suffix])
        for suffix, said in (("", ""), ("-small", ", half the memory asked for"))
        for which, metric, label in (
            ("", "speedup_workload", "speedup of the workload (eq. 6)"),
            ("-mpl", "mpl", "mean parallel jobs at once"),
        )
    ),
)

_STAYING: Mapping[str, Value] = {"stay_short_min": 1e5, "stay_long_min": 1e5}
"""Users who are there for the whole trial."""

_OTHERS = (
    _ccs(
        "ccs-mpl",
        "Local users and the number of parallel tasks on a node, COM_M",
        lines=_KINDS,
        x="mpl",
        xs=(1, 2, 3, 4, 6),
        panels=(_SPEEDUP, _SLOWDOWN, _LATENCY, Panel("cpu_load", "nodes", "ready and running tasks")),
        at={"mpl_of": "node"},
        xlabel="MPL of the fastest node",
    ),
    _ccs(
        "ccs-mno",
        "MNO, COM_M, Insert_RQ alone (CCS §4.1)",
        lines={"RQ": ("ccs", {**_ALONE, "mnod": 2}), "RQ, 3 on a node": ("ccs", {**_ALONE, "mpl_of": "node"})},
        x="mnol",
        xs=(1, 2, 3, 4, 6),
        panels=(_SLOWDOWN, _LATENCY),
        xlabel="MNO of local tasks",
    ),
    _ccs(
        "ccs-faulty",
        "Events lost and late, COM_H, memory short",
        lines={
            "all events": ("ccs", {}),
            "1 % lost, 0 to 100 ms late": ("ccs", {"loss": 0.01, "jitter_ms": 100.0}),
            "none": ("ccs", {"events": "off"}),
        },
        x="locals",
        xs=(4, 16),
        panels=(_SPEEDUP, _SLOWDOWN),
        at={"workload": "COM_H", "mpl_of": "node", "memory_scale": 3.0},
        xlabel="local users",
    ),
    _ccs(
        "ccs-users",
        "The local users that are drawn (T. 2, T. 4)",
        lines={"drawn": ("rr", {})},
        x="users",
        xs=tuple(name for name in PROFILES if name != "busy"),
        panels=(Panel("drawn_cpu", "CPU load", "mean"), Panel("drawn_memory", "part of memory", "mean")),
        at={"jobs": 0, "nodes": 64, "locals": 64},
        xlabel="profile",
    ),
    _ccs(
        "ccs-fig3",
        "Fig. 3: the CPU shares",
        lines={"without events": ("ccs", {"events": "off"}), "with events": ("ccs", {})},
        x="share_l",
        xs=(0.1, 0.2, 0.3, 0.5, 0.75, 1.0),
        panels=tuple(
            Panel(f"{job}_N{k}", f"Job_{job[3:]} on N{k}", "part of the CPU")
            for job, k in (("job1", 1), ("job1", 3), ("job2", 3))
        ),
        at={**_STAYING, "trial": "fig3", "nodes": 5, "now": "C(0)", "locals": 2, "users": "busy", "place": "first"},
        xlabel="L",
        seeds=3,
    ),
    _ccs(
        "ccs-stop",
        "Faults around the first stop (CCS §4.2)",
        lines={"Set_Memory": ("poly", {}), "none": ("poly", {"memory": "off"})},
        x="share_l",
        xs=(0.25, 0.5, 0.75),
        panels=tuple(
            Panel(metric, title, "faults a second, 4 nodes", ("Set_Memory",) if metric != "later" else ())
            for metric, title in (("before", "before"), ("after", "after 5 s"), ("later", "in the minute after 10 s"))
        ),
        at={**_STAYING, "trial": "stop", "nodes": 4, "now": "C(0)", "locals": 4, "users": "statistic"},
        xlabel="L",
    ),
)  # fmt: skip

EXPERIMENTS = (*_ALL, *_OTHERS)
