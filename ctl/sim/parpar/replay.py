# SPDX-License-Identifier: GPL-2.0-or-later
"""The estimator on a log: how far from what jobs used were their estimates (ParPar §2.1.3, F. 2)?

Jobs are taken in the order of their submission; a job's history is the jobs that ended before. A job of which nothing
like it is known has no estimate: it is counted, and is in no other number (B-PP-5).
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ctl.errors import USAGE, CoschedError
from ctl.sim.params import Value
from ctl.sim.parpar.estimator import Estimator, Kind
from ctl.sim.parpar.workload import kind_of
from ctl.sim.workloads.trace import log_of

__all__ = ["run"]

_KB = 1024


def _within(bucket: int, reach: int) -> int:
    return max(-reach - 1, min(bucket, reach))


def run(values: Mapping[str, Value]) -> dict[str, Any]:
    """Parts of the jobs with an estimate: within 5 MB, within 1 MB, below what was used; and F. 2's histograms.

    `buckets_mb` are pairs of a 1 MB bucket of estimate less use (its lower edge, MB) and jobs, `buckets_percent` of the
    difference in percent of what was used, by 50. Values beyond 20 MB or 400 % are in the outermost buckets.
    """
    estimator = Estimator(float(values["deviations"]), float(values["period_days"]) * 86400)
    running: list[tuple[float, Kind, float]] = []
    nearest: Counter[int] = Counter()
    absolute: Counter[int] = Counter()
    percent: Counter[int] = Counter()
    jobs = known = near_5 = near_1 = under = 0
    for job in sorted(log_of(str(values["trace"])).jobs, key=lambda job: job.submit_s):
        if not job.used_memory_kb or not job.processors or job.run_s is None:
            continue
        if jobs == values["jobs"]:
            break
        jobs += 1
        at = float(job.submit_s)
        while running and running[0][0] <= at:
            ended, kind, used = heapq.heappop(running)
            estimator.observe(kind, used, ended)
        kind, used = kind_of(job, str(values["identify"])), float(job.used_memory_kb)
        heapq.heappush(running, (at + float(job.wait_s or 0) + float(job.run_s), kind, used))
        estimate = estimator.estimate(kind, at)
        if estimate is None:
            continue
        off = estimate - used
        known += 1
        near_5 += abs(off) < 5 * _KB
        near_1 += abs(off) < _KB
        under += off < 0  # strictly (B-PP-14)
        nearest[math.floor(off / _KB)] += 1
        absolute[_within(math.floor(off / _KB), 20)] += 1
        percent[50 * _within(math.floor(2 * off / used), 8)] += 1
    if not known:
        raise CoschedError("the log has no two jobs alike whose used memory is known", USAGE)
    return {
        "events": jobs,
        "jobs": jobs,
        "known_percent": 100 * known / jobs,
        "within_5mb_percent": 100 * near_5 / known,
        "within_1mb_percent": 100 * near_1 / known,
        "under_percent": 100 * under / known,
        "modal_bucket_mb": nearest.most_common(1)[0][0],
        "buckets_mb": sorted(absolute.items()),
        "buckets_percent": sorted(percent.items()),
    }
