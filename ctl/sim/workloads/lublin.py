# SPDX-License-Identifier: GPL-2.0-or-later
"""The Lublin-Feitelson workload model: sizes, run times and arrivals with a daily cycle of rigid parallel jobs.

Source: U. Lublin, D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics of rigid
jobs", J. Parallel Distrib. Comput. 63(11), 2003; the constants are those of the authors' program m_lublin99.c
(Parallel Workloads Archive), whose text is not used here.

- Size: 1 with probability `serial`; else 2^x, x two-stage uniform, rounded to a whole x for a part `pow2` of all jobs.
- Run time: e^g, g from one of two gamma distributions, from the first with probability pa size + pb; e^12 s at most.
- Arrivals: intervals e^g, g gamma, pass in a time of their own that runs as fast as jobs come: as a gamma distribution
  over the half hours of a day that begins at 5:00 says. Intervals are e^13 s at most.

>>> [job.size for job in generate(Stream(1), 3, for_nodes(16))]
[2, 2, 2]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from ctl.sim.workloads.exact import Stream, exp, ln

__all__ = ["ALL", "BATCH", "INTERACTIVE", "Job", "Parameters", "daily_cycle", "for_nodes", "generate"]

MOST_RUN = 12.0
"""ln of the longest run time, s: two days."""

MOST_INTERVAL = 13.0
"""ln of the longest interval between arrivals, s: five days."""

_BUCKETS = 48  # half hours of a day
_BUCKET_S = 1800.0
_FIRST = 10  # half hour at which the cycle's day begins: 5:00
_LN2 = ln(2.0)


@dataclass(frozen=True)
class Parameters:
    """The model's constants for one kind of job; times are in ln s, sizes in log2 nodes."""

    serial: float  # P(size 1)
    pow2: float  # P(size a power of two by design), of all jobs
    low: float  # two-stage uniform: [low, medium] with probability `first`, else [medium, high]
    medium: float
    high: float
    first: float
    a1: float  # run time: shape and scale of the short jobs' gamma, of the long jobs'
    b1: float
    a2: float
    b2: float
    pa: float  # P(short) = pa size + pb
    pb: float
    a_arrival: float  # intervals at rush hours: shape and scale
    b_arrival: float
    rush: float  # ratio of a_arrival at all hours to that at rush hours
    a_day: float  # arrivals over the day, in half hours from 5:00 less ten: shape and scale
    b_day: float


# constants of m_lublin99.c for a machine of 128 nodes: all jobs alike, and batch and interactive jobs apart
ALL = Parameters(
    0.244, 0.576, 0.8, 4.5, 7.0, 0.86,
    4.2, 0.94, 312.0, 0.03, -0.0054, 0.78,
    10.2303, 0.4871, 1.0225, 8.1737, 3.9631,
)  # fmt: skip
BATCH = Parameters(
    0.2927, 0.6686, 1.2, 5.0, 7.0, 0.875,
    6.57, 0.823, 639.1, 0.0156, -0.003, 0.6986,
    6.0415, 0.8531, 1.0519, 6.1271, 5.2740,
)  # fmt: skip
INTERACTIVE = Parameters(
    0.1541, 0.625, 1.0, 3.0, 5.5, 0.705,
    3.8351, 0.6605, 7.073, 0.6856, -0.0118, 0.9156,
    6.5510, 0.6621, 0.9797, 8.9186, 3.6680,
)  # fmt: skip


def for_nodes(nodes: int, of: Parameters = ALL) -> Parameters:
    """The constants for another machine: the largest size is all its nodes, the break 2.5 below it, as the authors say.

    On fewer than 8 nodes the break is no lower than the least size.
    """
    high = ln(float(nodes)) / _LN2
    low = min(of.low, high)
    return replace(of, low=low, medium=max(high - 2.5, low), high=high)


class Job(NamedTuple):
    """A job that the model made."""

    submit_s: float
    size: int  # nodes
    run_s: float


def _below(draw: Callable[[], float], most: float) -> float:
    """The first draw that is no more than `most`."""
    while (value := draw()) > most:
        pass
    return value


def _size(stream: Stream, p: Parameters) -> int:
    u = stream.uniform()
    if u <= p.serial:
        return 1
    low, high = (p.low, p.medium) if stream.uniform() <= p.first else (p.medium, p.high)
    x = low + stream.uniform() * (high - low)
    if u <= p.serial + p.pow2:
        x = min(math.floor(x + 0.5), math.floor(p.high))  # no more than the machine has
    return math.floor(exp(x * _LN2) + 0.5)


def _run(stream: Stream, p: Parameters, size: int) -> float:
    def draw() -> float:
        short = stream.uniform() <= p.pa * size + p.pb
        return stream.gamma(p.a1, p.b1) if short else stream.gamma(p.a2, p.b2)

    return exp(_below(draw, MOST_RUN))


def daily_cycle(p: Parameters) -> list[float]:
    """The rate of arrivals in each half hour of the day from midnight, mean 1.

    The parts of the gamma distribution between i - 1/2 and i + 1/2, i = 11 to 58, are those of half hours i - 1, the
    last of them after midnight.
    """

    def density(x: float) -> float:
        return exp((p.a_day - 1) * ln(x) - x / p.b_day)

    rates = [0.0] * _BUCKETS
    steps = 16  # Simpson's rule; the distribution's constant goes as the mean is made 1
    for i in range(_FIRST + 1, _FIRST + 1 + _BUCKETS):
        xs = [i - 0.5 + k / steps for k in range(steps + 1)]
        weights = [1 if k in (0, steps) else 4 if k % 2 else 2 for k in range(steps + 1)]
        rates[(i - 1) % _BUCKETS] = math.fsum(w * density(x) for w, x in zip(weights, xs, strict=True))
    mean = math.fsum(rates) / _BUCKETS
    return [rate / mean for rate in rates]


def generate(stream: Stream, jobs: int, p: Parameters = ALL) -> list[Job]:
    """So many jobs, in order of arrival; the first day begins at midnight, time 0."""
    rates = daily_cycle(p)
    shape = p.a_arrival * p.rush
    made, bucket, left = [], 0, rates[0] * _BUCKET_S
    for _ in range(jobs):
        passes = exp(_below(lambda: stream.gamma(shape, p.b_arrival), MOST_INTERVAL))
        while passes > left:
            passes -= left
            bucket += 1
            left = rates[bucket % _BUCKETS] * _BUCKET_S
        left -= passes
        at = (bucket + 1) * _BUCKET_S - left / rates[bucket % _BUCKETS]
        size = _size(stream, p)
        made.append(Job(at, size, _run(stream, p, size)))
    return made
