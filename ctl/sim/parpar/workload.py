# SPDX-License-Identifier: GPL-2.0-or-later
"""The jobs of ParPar's trials: the Lublin-Feitelson model's (§4.3), a log's, or all alike and at once (§4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ctl.errors import USAGE, CoschedError
from ctl.sim.params import Value
from ctl.sim.parpar.estimator import Kind
from ctl.sim.parpar.program import pages
from ctl.sim.workloads import lublin, swf
from ctl.sim.workloads.exact import Stream
from ctl.sim.workloads.trace import log_of

__all__ = ["Job", "jobs_of", "kind_of"]

_PAGE_KB = 4


class Job(NamedTuple):
    """A job given to the engine."""

    arrives_s: float
    cpu_s: float  # of each process: the run time on a machine of its own (B-PP-11)
    size: int  # processes
    pages: int  # of each
    static: int  # pages that the executable, or the user, says
    kind: Kind


def kind_of(job: swf.Job, identify: str) -> Kind:
    """The identity of a log's job (§2.1.1); by user: for logs that number each run's executable anew, or none."""
    path = job.user if identify == "user" else job.application
    return Kind(path, job.processors or 0, job.user)


def _in_log(values: Mapping[str, Value]) -> list[Job]:
    """A log's jobs that ran and fit on the nodes; unknown memory is job_mb."""
    nodes, usual = int(values["nodes"]), pages(float(values["job_mb"]))
    made = []
    for job in log_of(str(values["trace"])).jobs:
        if not job.run_s or not job.processors or job.processors > nodes:
            continue
        used, asked = (
            max(round(kb / _PAGE_KB), 1) if kb else usual for kb in (job.used_memory_kb, job.requested_memory_kb)
        )
        kind = kind_of(job, str(values["identify"]))
        made.append(Job(float(job.submit_s), float(job.run_s), job.processors, used, asked, kind))
        if len(made) == values["jobs"]:
            break
    return sorted(made, key=lambda job: job.arrives_s)


def _modelled(values: Mapping[str, Value], seed: int) -> list[Job]:
    size = pages(float(values["job_mb"]))
    made = lublin.generate(Stream(seed), int(values["jobs"]), lublin.for_nodes(int(values["nodes"])))
    return [Job(job.submit_s, job.run_s, job.size, size, size, Kind(0, job.size, 0)) for job in made]


def _scaled(jobs: list[Job], values: Mapping[str, Value]) -> list[Job]:
    """Run times of the mean wanted, intervals that give the load wanted (§4.3's formula), the first job at 0."""
    n, first = len(jobs), jobs[0].arrives_s
    mean_run = sum(job.cpu_s for job in jobs) / n
    stretch = float(values["mean_run_s"]) / mean_run if values["mean_run_s"] else 1.0
    squeeze = 1.0
    if values["load"] and n > 1 and jobs[-1].arrives_s > first:
        mean_size = sum(job.size for job in jobs) / n
        interval = mean_run * stretch * mean_size / (float(values["load"]) * int(values["nodes"]))
        squeeze = interval / ((jobs[-1].arrives_s - first) / (n - 1))
    return [job._replace(arrives_s=(job.arrives_s - first) * squeeze, cpu_s=job.cpu_s * stretch) for job in jobs]


def jobs_of(values: Mapping[str, Value], seed: int) -> list[Job]:
    """A replication's jobs, in order of arrival; of a log they are the same for each seed.

    Raises CoschedError (status 2) if a log has none that fit.
    """
    nodes, size = int(values["nodes"]), pages(float(values["job_mb"]))
    if values["trial"] == "static":
        cpu_s = float(values["accesses"]) * float(values["access_ns"]) / 1e9
        return [Job(0.0, cpu_s, nodes, size, size, Kind(0, nodes, 0))] * int(values["jobs"])
    jobs = _in_log(values) if values["trace"] else _modelled(values, seed)
    if not jobs:
        raise CoschedError(f"the log has no job that ran on 1 to {nodes} nodes: set nodes to more", USAGE)
    return _scaled(jobs, values)
