# SPDX-License-Identifier: GPL-2.0-or-later
"""The sizes of the demo: one node with one CPU, as the papers' nodes, and more work than fits its memory.

Each working set fits beside the local task, but both together do not: `small` + `large` + local > room > `large` +
local. This is the example of CSM §2.2, J1 and J2 on node N3. In the scenario "crowded" any one of three jobs fits
beside the local task, and no two do. "read-ahead" is the first with the read-ahead of swap that Linux has by default.
"cores" is about CPUs and not about memory: a job with a rank on each CPU, beside a user who compiles.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Final

__all__ = ["CORES", "EEVDF", "FREEZER", "NICE", "PEERS", "SCENARIOS", "STATIC", "Job", "LocalTask", "Scenario"]

EEVDF: Final = "eevdf"  # the configuration that loads nothing: the kernel's own scheduler
STATIC: Final = "static"  # the same, with the weights and the protection that systemd and uresourced set
FREEZER: Final = "freezer"  # the same, and the newest job is frozen while tasks stall on memory (freezer.py)
NICE: Final = "nice19"  # the kernel's own scheduler, and the jobs at nice 19
PEERS: Final = (EEVDF, STATIC, FREEZER, NICE)  # configurations without a scheduler of ours


@dataclass(frozen=True, slots=True)
class Job:
    """An MPI job of `ranks` ranks on the node: ctl/demo/progs/mpi_sweep.c and its arguments."""

    kb_per_rank: int
    sweeps: int
    passes: int  # over each page in each sweep: the CPU time a page is worth
    exchange: int = 128  # pages between two halo exchanges
    ranks: int = 2

    @property
    def mb(self) -> float:
        """Its working set in MB."""
        return self.kb_per_rank * self.ranks / 1024


@dataclass(frozen=True, slots=True)
class LocalTask:
    """The user's task: ctl/demo/progs/local_task.c and its arguments."""

    period_ms: int = 20
    work_ms: int = 1
    kb: int = 4096
    pages_per_wake: int = 16


def _jobs() -> dict[str, Job]:
    return {
        "small": Job(kb_per_rank=14 * 1024, sweeps=8, passes=30),
        "large": Job(kb_per_rank=24 * 1024, sweeps=15, passes=10),
    }


@dataclass(frozen=True, slots=True)
class Scenario:
    """The machine and its programs; memory in MB, latency in ms of guest time.

    page_cluster is vm.page-cluster: a fault brings 2^page_cluster pages from swap. Without read-ahead a fault is a
    page, so that the figures do not depend on what lies side by side on swap.
    """

    cpus: int = 1
    memory: int = 640
    room: int = 60  # MB available to the jobs and the local task; the rest is held; 0: all, and nothing is held
    swap: int = 320
    swap_ms: int = 2
    page_cluster: int = 0
    jobs: dict[str, Job] = field(default_factory=_jobs)
    local: LocalTask = field(default_factory=LocalTask)
    compilers: int = 0  # of the user, beside each other, with `files` files each
    files: int = 0

    def to_json(self) -> str:
        """One line that `from_json` reads back."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Scenario:
        """The scenario that `to_json` wrote; raises ValueError or TypeError for anything else."""
        values = json.loads(text)
        values["jobs"] = {name: Job(**job) for name, job in values["jobs"].items()}
        values["local"] = LocalTask(**values["local"])
        return cls(**values)


CORES: Final = "cores"
_CROWD: Final = Job(kb_per_rank=20 * 1024, sweeps=8, passes=20)
SCENARIOS: Final = {
    "two": Scenario(),
    "crowded": Scenario(jobs={"first": _CROWD, "second": _CROWD, "third": _CROWD}),
    "read-ahead": Scenario(page_cluster=3),
    CORES: Scenario(
        cpus=2,
        memory=1024,
        room=0,
        jobs={"ranks": Job(kb_per_rank=4096, sweeps=40, passes=10, exchange=2)},
        compilers=2,
        files=5,
    ),
}
