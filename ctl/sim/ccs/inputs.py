# SPDX-License-Identifier: GPL-2.0-or-later
"""CCS's inputs: the NOWs of T. 1, the local users of T. 2 and T. 4, the parallel workloads of T. 3.

T. 3 names benchmarks. The paper measured them; a model must describe their behaviour. Of each: CPU time of the whole
job on the fastest node and its memory, as NAS 2.3's operation counts and arrays come to on a PIV of 3 GHz; and how its
tasks talk: CPU time between two messages, and how long one takes on Fast Ethernet. All numbers are ours, not the
paper's (CCS T. 3 has only names and classes): work_scale, memory_scale, gap_scale and delay_scale change them
together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["NOWS", "PROFILES", "USERS", "WORKLOADS", "Kind", "Profile", "Program"]


class Kind(NamedTuple):
    """Nodes that are alike."""

    of_16: int  # how many of 16 nodes
    weight: float  # W (CCS eq. 1, B-CCS-20)
    memory_mb: int


NOWS: Mapping[str, tuple[Kind, ...]] = {
    "C(0)": (Kind(16, 1.0, 512),),
    "C(.15)": (Kind(8, 1.0, 512), Kind(8, 0.7, 256)),
    "C(.25)": (Kind(8, 1.0, 256), Kind(8, 0.5, 256)),
}
"""CCS T. 1."""


class Profile(NamedTuple):
    """A kind of local user: part of a CPU and of the node's memory, mean and standard deviation (B-CCS-19)."""

    cpu: float
    cpu_sd: float
    memory: float
    memory_sd: float


PROFILES: Mapping[str, Profile] = {
    "shell": Profile(0.4, 0.2, 0.20, 0.15),
    "xwin": Profile(0.15, 0.1, 0.35, 0.55),
    "internet": Profile(0.2, 0.1, 0.60, 0.75),
    "open": Profile(0.15, 0.25, 0.40, 0.50),
    "statistic": Profile(0.35, 0.12, 0.60, 0.10),
    "edi": Profile(0.10, 0.07, 0.35, 0.07),
    "busy": Profile(1.0, 0.0, 0.05, 0.0),
}
"""CCS T. 2 (the first three) and T. 4 (the next three); `busy` never waits, for CCS Fig. 3."""

USERS: Mapping[str, Mapping[str, float]] = {
    "mix": {"shell": 0.05, "xwin": 0.62, "internet": 0.33},
    **{name: {name: 1.0} for name in PROFILES},
    "nobody": {},
}
"""The users of a run: T. 2's mix, one kind, or none."""


class Program(NamedTuple):
    """A NAS benchmark."""

    work_s: float  # of the whole job, on the fastest node
    memory_mb: float  # of the whole job
    gap_ms: float  # CPU time of a task between two messages
    delay_ms: float  # of a message


_NAS: Mapping[str, Program] = {
    "EP.A": Program(40, 2, 1000, 1),
    "EP.B": Program(160, 2, 1000, 1),
    "LU.A": Program(240, 45, 20, 0.5),
    "SP.A": Program(290, 80, 40, 3),
    "BT.B": Program(1440, 340, 80, 5),
    "FT.A": Program(24, 400, 40, 60),
    "MG.B": Program(45, 456, 10, 2),
    "CG.B": Program(366, 400, 8, 4),
    "IS.A": Program(3, 100, 20, 40),
    "IS.B": Program(12, 400, 20, 40),
}

WORKLOADS: Mapping[str, Mapping[str, Program]] = {
    name: {program: _NAS[program] for program in programs.split()}
    for name, programs in {
        "COM_L": "EP.A LU.A SP.A EP.B BT.B",
        "COM_M": "LU.A FT.A MG.B SP.A BT.B",
        "COM_H": "IS.A IS.B FT.A MG.B CG.B",
    }.items()
}
"""CCS T. 3."""
