#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""How the simulator's time and memory grow with the cluster: `python -m tests.bench.simulator`.

Model csm, ten jobs for each node, local ones and small ones of 2 to nodes / 8 tasks; three of ten tasks are a job's,
and tasks ask for six tenths of the CPUs, whatever the size of the cluster. Each run has a process of its own, so its
peak memory is its own. "to n log n" is what the time grew by since the smallest cluster, divided by what n log n did,
n being the nodes, and so the jobs: 1 or less is growth no worse than that.
"""

from __future__ import annotations

import json
import math
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import click

from ctl.sim.csm.model import MODEL, run

__all__ = ["Measured", "main", "markdown"]

_JOBS_PER_NODE = 10
_PARALLEL = 0.3  # of the tasks
_BUSY = 0.6  # of the CPUs
_SEED = 1
_HEADINGS = ("nodes", "jobs", "policy", "events", "CPU, s", "ns an event", "to n log n", "peak memory, MB")


class Measured(NamedTuple):
    """One replication."""

    nodes: int
    policy: str
    events: int
    cpu_s: float
    memory_mb: float


def _workload(nodes: int) -> dict[str, object]:
    """As many tasks for each node on every cluster: the larger the jobs, the fewer."""
    sizes = [2**k for k in range(1, (nodes // 8).bit_length())]
    mean = statistics.mean(sizes)
    pdt = _PARALLEL / (_PARALLEL + (1 - _PARALLEL) * mean)  # pdt * mean / (pdt * mean + 1 - pdt) is _PARALLEL
    tasks = 1 - pdt + pdt * mean  # a job
    mit_s = tasks * float(MODEL.parameters["tc_local_s"].default) / (_BUSY * nodes)
    return {"nodes": nodes, "jobs": _JOBS_PER_NODE * nodes, "mix": "two", "pdt": pdt, "mit_s": mit_s}


def _measure(nodes: int, policy: str) -> Measured:
    """In this process."""
    values = MODEL.complete(_workload(nodes))
    began = time.process_time()
    events = run(policy, values, _SEED)["events"]
    cpu_s = time.process_time() - began
    return Measured(nodes, policy, events, cpu_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def _apart(nodes: int, policy: str, repeat: int) -> Measured:
    """In processes of its own: the median time."""
    command = [sys.executable, "-m", "tests.bench.simulator", "--one", str(nodes), policy]
    found = [
        Measured(*json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
        for _ in range(repeat)
    ]
    return found[0]._replace(cpu_s=statistics.median(one.cpu_s for one in found))


def _n_log_n(nodes: int) -> float:
    return nodes * math.log2(nodes)


def markdown(measured: Sequence[Measured]) -> str:
    """The table; the first of each policy is what the others are compared with."""
    first: dict[str, Measured] = {}
    lines = ["| " + " | ".join(_HEADINGS) + " |", "|" + "---|" * len(_HEADINGS)]
    for one in measured:
        base = first.setdefault(one.policy, one)
        grew = one.cpu_s / base.cpu_s / (_n_log_n(one.nodes) / _n_log_n(base.nodes))
        cells = (
            f"{one.nodes:,}",
            f"{_JOBS_PER_NODE * one.nodes:,}",
            one.policy,
            f"{one.events / 1e6:,.1f} million",
            f"{one.cpu_s:.2f}",
            f"{one.cpu_s / one.events * 1e9:.0f}",
            f"{grew:.2f}",
            f"{one.memory_mb:.0f}",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--nodes", default="100,1000,10000", show_default=True, help="Sizes of the cluster, smallest first.")
@click.option("--policies", default="rr,csm", show_default=True)
@click.option("--repeat", default=1, show_default=True, type=click.IntRange(1, 100), metavar="N", help="Runs of each.")
@click.option("--one", nargs=2, hidden=True, type=(int, str))
def main(nodes: str, policies: str, repeat: int, one: tuple[int, str] | None) -> None:
    """Measure how time and memory grow with the cluster; prints a table. A machine that does nothing else is best."""
    if one:
        print(json.dumps(_measure(*one)))
        return
    sizes = [int(size) for size in nodes.split(",")]
    print(markdown([_apart(size, policy, repeat) for policy in policies.split(",") for size in sizes]), end="")


if __name__ == "__main__":
    main()
