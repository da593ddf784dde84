# SPDX-License-Identifier: GPL-2.0-or-later
"""The program of ParPar's experiments (§4.1, F. 4, read as B-PP-1 to B-PP-3), and its memory references.

A fractal random walk over an array: P(jump > u) = u^-theta, in units of K bytes, both signs alike.
"""

from __future__ import annotations

from functools import cache

from ctl.errors import FAILED, CoschedError
from ctl.sim.native import load

__all__ = ["PAGE", "coverage", "jumps", "miss_ratios", "pages"]

PAGE = 4096
_MB = 2**20
_SEED = 1  # of the walks: a program's references do not depend on the replication
_WALKS = 4


def pages(mb: float) -> int:
    """Pages of so many MB, at least one."""
    return max(round(mb * _MB / PAGE), 1)


@cache
def miss_ratios(theta: float, k_bytes: int, array_mb: float, accesses: int) -> tuple[float, ...]:
    """The part of accesses that miss with r pages resident, r = 0 to the array's pages, under LRU.

    Exact for the walks they are counted in (Mattson's stack distances): four of so many accesses each, which begin
    when each page has been touched.
    """
    engine = load("parpar")
    out = engine.ffi.new("double[]", pages(array_mb) + 1)
    length = pages(array_mb) * PAGE // k_bytes
    if engine.lib.sim_miss(theta, length, PAGE // k_bytes, _SEED, _WALKS, accesses, out):
        raise CoschedError("there is not enough memory to count this program's misses", FAILED)
    return tuple(out)


def jumps(theta: float, seed: int, n: int) -> list[float]:
    """The first n jumps of a walk, in units of K."""
    engine = load("parpar")
    out = engine.ffi.new("double[]", n)
    engine.lib.sim_jumps(theta, seed, out, n)
    return list(out)


def coverage(theta: float, k_bytes: int, array_mb: float, seed: int, accesses: int) -> float:
    """The part of the array's pages that so many accesses touch."""
    length = pages(array_mb) * PAGE // k_bytes
    touched = load("parpar").lib.sim_coverage(theta, length, PAGE // k_bytes, seed, accesses)
    return float(touched) / pages(array_mb)
