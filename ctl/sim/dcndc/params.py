# SPDX-License-Identifier: GPL-2.0-or-later
"""The parameters of model `dcndc` (Monito §5.3). The paper names no unit of time: `unit` (B-MO-7)."""

from __future__ import annotations

from ctl.policy import KNOBS
from ctl.sim.params import Parameter, by_name

__all__ = ["PARAMETERS"]

_MNO = KNOBS["mno"].default
assert _MNO is not None

_P = Parameter
PARAMETERS = by_name(
    _P("mit", 2.0, "unit", 1e-3, 1e6, "mean time between two arrivals", "Monito §5.3; default: B-MO-7, swept"),
    _P("mst", 0.9, "unit", 1e-3, 1e6, "mean service time, exponential", "Monito §5.3"),
    _P("nst", 10_000, "tasks", 1, 100_000_000, "tasks served, at which the run ends", "Monito §5.3"),
    _P("pdt", 0.5, "", 0, 1, "P(a task is distributed)", "Monito §5.3; default: swept"),
    _P("mm", 5, "messages", 0, 16, "the most messages of a distributed task, uniform from 0", "Monito §5.3"),
    _P("offset", 2.0, "mst", 0, 1000, "time from a task's arrival in which its messages come, uniform",
       "default:"),
    _P("spin", 0.01, "unit", 0, 1e6, "implicit: how long a receive polls before it blocks", "Monito §5.3"),
    _P("share", 0.1, "unit", 0, 1e6, "dynamic: how much less CPU time the receiver must have had", "Monito §5.3"),
    _P("slice", 0.1, "mst", 1e-6, 1e9, "time slice, constant", "default:"),
    _P("mno", _MNO, "overtakes", 0, 1_000_000_000, "overtakes a task may suffer under sdca", "B-MO-1 default:"),
    _P("receive", "wait", "", 0, 0,
       "a distributed task waits for each message at a uniform point of its service, under all policies; or (except "
       "under implicit) no task waits, and a task reads messages on the CPU", "default:", ("wait", "async")),
    _P("wake", "top", "", 0, 0,
       "implicit: a blocked task goes to the top when its message comes, as in insert_rq.h; or to the bottom",
       "Monito §2.2 default:", ("top", "bottom")),
    _P("displaced", "bottom", "", 0, 0, "a displaced task goes to the bottom; or stays next", "Monito Alg. 1, B-MO-3",
       ("bottom", "head")),
)  # fmt: skip
