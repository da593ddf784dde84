# SPDX-License-Identifier: GPL-2.0-or-later
"""Arrival rates of the papers' environments, as `ctl sim calibrate` found them (B-CSM-14), under rr at mfreq 100 ms.

CSM gives mem_load and mean tasks per node of each load. CSM computes one rate for each load, for all policies and
message frequencies (eq. 5); so does this file. Every run measures the load that it really met.

    ctl sim calibrate --mem-load 1.0 --tasks-per-node 3.2 --set jobs=4000
    ctl sim calibrate --mem-load 1.5 --tasks-per-node 4.1 --set jobs=4000
    ctl sim calibrate --mem-load 0.7 --set mix=two --set pdt=0.5         and the other values of pdt
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["LOADS"]

# mem_load 0.7: mean time between arrivals by pdt; tasks per node that came of it: 3.6 at 0.1, 2.2 at 0.5, 1.9 at 1
_PDT = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_LOW = dict(zip(_PDT, (9.637, 13.54, 17.08, 19.55, 22.53, 25.23, 27.66, 29.81, 31.66, 32.77), strict=True))

LOADS: Mapping[str, Mapping[str, float]] = {
    "1.0": {"mit_s": 13.55, "local_share": 0.997703},  # mem_load 1.01, 3.22 tasks per node, after 12 steps
    "1.5": {"mit_s": 13.2178, "local_share": 0.995546},  # 1.51 and 4.12, after 4
    **{f"0.7/{pdt}": {"mit_s": mit} for pdt, mit in _LOW.items()},
}
