# SPDX-License-Identifier: GPL-2.0-or-later
"""Summaries of logs in numbers; and logs made by the Lublin-Feitelson model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ctl.sim.workloads import lublin
from ctl.sim.workloads.exact import Stream
from ctl.sim.workloads.swf import Header, Job, Log

__all__ = ["lublin_log", "summary"]

_KINDS = {"all": lublin.ALL, "batch": lublin.BATCH, "interactive": lublin.INTERACTIVE}


def lublin_log(seed: int, jobs: int, nodes: int, kind: str = "all") -> Log:
    """A log of the model's jobs for a machine of so many nodes; `kind`: all, batch or interactive.

    Times are whole seconds, as in the authors' own output, a run at least one.
    """
    made = lublin.generate(Stream(seed), jobs, lublin.for_nodes(nodes, _KINDS[kind]))
    header = (
        "; Version: 2.2",
        f"; Note: made by the Lublin-Feitelson model (2003), jobs of kind {kind}, seed {seed}",
        f"; MaxJobs: {jobs}",
        f"; MaxRecords: {jobs}",
        f"; MaxProcs: {nodes}",
    )
    lines = (
        Job(number, int(job.submit_s), run_s=max(int(job.run_s), 1), processors=job.size, status=1)
        for number, job in enumerate(made, 1)
    )
    return Log(Header(header), tuple(lines))


def _quantiles(values: Sequence[float]) -> dict[str, float] | None:
    """Mean, median, nine tenths, most; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    mean = sum(ordered) / len(ordered)
    return {"mean": mean, "median": ordered[len(ordered) // 2], "90 %": ordered[int(0.9 * len(ordered))],
            "most": ordered[-1]}  # fmt: skip


def summary(log: Log) -> dict[str, Any]:
    """A log's numbers: span in days, load (work done / (processors x span)), sizes, times in s, memory in KB."""
    processors = log.header.count("MaxProcs") or log.header.count("MaxNodes")
    submits = [job.submit_s for job in log.jobs]
    span = max(submits) - min(submits) if submits else 0
    known = [(job.run_s, job.processors) for job in log.jobs if job.run_s is not None and job.processors]
    sizes = Counter(size for _, size in known)
    work = sum(run * size for run, size in known)
    powers = sum(n for size, n in sizes.items() if size & (size - 1) == 0)
    kinds = {(job.application, job.processors, job.user) for job in log.jobs if job.application is not None}
    return {
        "jobs": len(log.jobs),
        "skipped_lines": len(log.skipped),
        "with_run_and_size": len(known),
        "span_days": span / 86400,
        "processors": processors,
        "load": work / (processors * span) if processors and span else None,
        "users": len({job.user for job in log.jobs if job.user is not None}),
        "applications": len({job.application for job in log.jobs if job.application is not None}),
        "job_kinds": len(kinds),  # (application, size, user), as ParPar §2.1.1 tells jobs apart
        "size": _quantiles([size for _, size in known]),
        "serial_part": sizes[1] / len(known) if known else None,
        "power_of_two_part": powers / len(known) if known else None,
        "run_s": _quantiles([run for run, _ in known]),
        "wait_s": _quantiles([job.wait_s for job in log.jobs if job.wait_s is not None]),
        "used_memory_kb": _quantiles([job.used_memory_kb for job in log.jobs if job.used_memory_kb is not None]),
        "requested_memory_kb": _quantiles(
            [job.requested_memory_kb for job in log.jobs if job.requested_memory_kb is not None]
        ),
    }
