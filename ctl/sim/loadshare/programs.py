# SPDX-License-Identifier: GPL-2.0-or-later
"""The programs of the second part: measurements of each program alone (LoadShare T. 2, T. 5), and T. 3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["GROUPS", "SETS", "TRACES", "Group", "Program", "Trace"]


class Program(NamedTuple):
    """One program. The dedicated lifetime is cpu_s + io_s, because a program alone does not page (B-LS-15: summed)."""

    cpu_s: float  # k-time + u-time
    io_s: float
    ios: int  # reads and writes
    low_mb: float  # working set: its range
    high_mb: float
    grows: str = "no"  # "half": to the highest at a part of life (parameter growth); "life": all the time; or not

    @property
    def life_s(self) -> float:
        """Dedicated lifetime."""
        return self.cpu_s + self.io_s


# LoadShare T. 2; m-sort is the program whose demand grows (§3.2.2)
_SEVEN = {
    "bit-r": Program(0.57 + 191.85, 0.11, 9, 64.22, 64.22),
    "m-sort": Program(1.7 + 80.84, 0.22, 18, 0.0, 64.27, "half"),
    "m-m": Program(1.12 + 4901.12, 0.05, 4, 66.37, 66.37),
    "t-sim": Program(0.14 + 38.79, 2.7, 225, 4.64, 4.64),
    "metis": Program(8.06 + 112.85, 3.5, 292, 1.37, 4.30, "life"),
    "r-sphere": Program(0.97 + 298.18, 19.49, 1624, 36.84, 39.66, "life"),
    "r-wing": Program(1.31 + 28.98, 42.49, 3541, 19.53, 23.39, "life"),
}

# LoadShare T. 5: the highest working set and the lifetime are all that is given
_SPEC = {
    "apsi": Program(2619.0, 0.0, 0, 196.0, 196.0),
    "gcc": Program(228.0, 0.0, 0, 145.0, 145.0),
    "gzip": Program(249.0, 0.0, 0, 195.0, 195.0),
    "mcf": Program(969.0, 0.0, 0, 80.0, 80.0),
    "vortex": Program(345.0, 0.0, 0, 115.0, 115.0),
    "bzip": Program(403.0, 0.0, 0, 200.0, 200.0),
}

SETS: Mapping[str, Mapping[str, Program]] = {"seven": _SEVEN, "spec": _SPEC}


class Group(NamedTuple):
    """Programs run together on one machine (LoadShare T. 3), with their measurements."""

    programs: tuple[str, ...]
    oversize: float
    paging_s: tuple[float, ...]
    rate: float  # "paging rate", 1/s

    @property
    def name(self) -> str:
        """By its size, as the parameter `group` has it."""
        return {2: "two", 3: "three", 4: "four"}[len(self.programs)]


GROUPS: Mapping[str, Group] = {
    group.name: group
    for group in (
        Group(("m-m", "m-sort"), 0.0534, (258.99, 49.06), 12.52),
        Group(("bit-r", "m-sort", "r-wing"), 0.2475, (0.72, 63.45, 22.02), 44.12),
        Group(("bit-r", "m-m", "m-sort", "t-sim"), 0.6495, (323.17, 728.39, 769.94, 54.99), 102.03),
    )
}


class Trace(NamedTuple):
    """Arrivals: so many jobs in so long, by eq. 3.6 in a unit of time (B-LS-24)."""

    jobs: int
    end_s: float
    sigma: float
    mu: float
    unit_s: float


# LoadShare §3.4.2. the density in t itself is lognormal(mu + sigma^2, sigma), which sim_burst draws as printed
TRACES: Mapping[str, Trace] = {
    "trace1": Trace(503, 1365.0, 0.5, 0.5, 150.0),
    "trace2": Trace(420, 2503.0, 3.5, 3.5, 1.0),
    "trace3": Trace(359, 3634.0, 5.0, 5.0, 1.0),
}
