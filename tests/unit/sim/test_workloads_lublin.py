# SPDX-License-Identifier: GPL-2.0-or-later
"""The Lublin-Feitelson model against its own definition: probabilities, means and the day, computed another way."""

from __future__ import annotations

import doctest
import math
from collections import Counter
from statistics import mean

import pytest

from ctl.sim.workloads import exact, lublin
from ctl.sim.workloads.exact import Stream

JOBS = 40_000
KINDS = [lublin.ALL, lublin.BATCH, lublin.INTERACTIVE]


def test_logarithm_and_exponential_are_libms() -> None:
    stream = Stream(3)
    for _ in range(20_000):
        x = exact.exp(60 * (stream.uniform() - 0.5))
        assert exact.ln(x) == pytest.approx(math.log(x), rel=2e-15, abs=1e-15)
        y = 600 * (stream.uniform() - 0.5)
        assert exact.exp(y) == pytest.approx(math.exp(y), rel=1e-14)


def test_a_stream_is_the_same_everywhere() -> None:
    stream = Stream(7, 2)
    assert [stream.uniform(), stream.normal(), stream.gamma(4.2, 0.94)] == [
        0.364683712372192, 1.5707163866381424, 1.863603146061075,
    ]  # fmt: skip
    jobs = lublin.generate(Stream(7), 500, lublin.for_nodes(16))
    assert jobs == lublin.generate(Stream(7), 500, lublin.for_nodes(16))
    assert jobs[-1] == EXPECTED


EXPECTED = lublin.Job(submit_s=896858.0973167203, size=3, run_s=45.6900873600797)


@pytest.mark.parametrize(("shape", "scale"), [(1.0, 2.0), (4.2, 0.94), (312.0, 0.03)])
def test_gamma_has_its_moments(shape: float, scale: float) -> None:
    stream = Stream(5)
    drawn = [stream.gamma(shape, scale) for _ in range(JOBS)]
    deviation = scale * math.sqrt(shape)
    assert mean(drawn) == pytest.approx(shape * scale, abs=4 * deviation / math.sqrt(JOBS))
    assert mean((x - shape * scale) ** 2 for x in drawn) == pytest.approx(deviation**2, rel=0.05)


@pytest.mark.parametrize("p", KINDS)
def test_sizes(p: lublin.Parameters) -> None:
    """Serial jobs; powers of two by design or by chance; each power's part by the two uniforms it comes from."""
    count = Counter(job.size for job in lublin.generate(Stream(1), JOBS, p))
    noise = 4 * 0.5 / math.sqrt(JOBS)

    def part(low: float, high: float) -> float:
        """P(low < x <= high) of the two-stage uniform."""

        def overlap(a: float, b: float) -> float:
            return max(0.0, min(high, b) - max(low, a)) / (b - a)

        return p.first * overlap(p.low, p.medium) + (1 - p.first) * overlap(p.medium, p.high)

    for x in range(1, math.floor(p.high) + 1):
        by_design = p.pow2 * part(x - 0.5, x + 0.5)
        by_chance = (1 - p.serial - p.pow2) * part(math.log2(2**x - 0.5), math.log2(2**x + 0.5))
        assert count[2**x] / JOBS == pytest.approx(by_design + by_chance, abs=noise), x
    rounds_to_one = p.pow2 * part(0, 0.5) + (1 - p.serial - p.pow2) * part(0, math.log2(1.5))
    assert count[1] / JOBS == pytest.approx(p.serial + rounds_to_one, abs=noise)
    assert max(count) <= math.floor(2**p.high + 0.5)


@pytest.mark.parametrize("p", KINDS)
def test_run_times(p: lublin.Parameters) -> None:
    """The mean logarithm by size: a straight line between the two gammas' means, as p falls with the size."""
    jobs = lublin.generate(Stream(2), JOBS, p)
    for low, high in ((1, 1), (2, 8), (16, 64)):
        logs = [math.log(job.run_s) for job in jobs if low <= job.size <= high]
        short = mean(p.pa * job.size + p.pb for job in jobs if low <= job.size <= high)
        expected = short * p.a1 * p.b1 + (1 - short) * p.a2 * p.b2
        # what is above 12 is drawn again: seen where the long jobs' gamma is wide (interactive)
        assert mean(logs) == pytest.approx(expected, rel=0.02), (low, len(logs))
    assert max(job.run_s for job in jobs) <= math.exp(12)


def _gamma_part(shape: float, scale: float, low: float, high: float) -> float:
    """P(low < g <= high), by midpoints."""
    step = (high - low) / 2000
    logs = ((shape - 1) * math.log(x / scale) - x / scale for x in (low + (i + 0.5) * step for i in range(2000)))
    return math.fsum(map(math.exp, logs)) * step / scale / math.gamma(shape)


@pytest.mark.parametrize("p", KINDS)
def test_arrivals_follow_the_day(p: lublin.Parameters) -> None:
    """Parts of the day's arrivals by half hour are the gamma distribution's; the day's first half hour is at 5:00."""
    jobs = lublin.generate(Stream(4), JOBS, p)
    days = jobs[-1].submit_s / 86400
    count = Counter(int(job.submit_s % 86400 / 1800) for job in jobs if job.submit_s < int(days) * 86400)
    total = _gamma_part(p.a_day, p.b_day, 10.5, 58.5)
    for first in range(0, 48, 6):  # three hours at a time
        expected = sum(
            _gamma_part(p.a_day, p.b_day, i - 0.5, i + 0.5)
            for i in range(11, 59) if first <= (i - 1) % 48 < first + 6
        )  # fmt: skip
        found = sum(count[first + k] for k in range(6)) / sum(count.values())
        assert found == pytest.approx(expected / total, abs=0.02), first
    assert sum(lublin.daily_cycle(p)) == pytest.approx(48)


def test_the_mean_interval_is_the_gammas() -> None:
    """E(e^g | g <= 13), g gamma: the cycle moves arrivals within a day and leaves their number."""
    p = lublin.ALL
    shape, scale = p.a_arrival * p.rush, p.b_arrival
    step, total, weight = 0.001, 0.0, 0.0
    for i in range(13_000):
        x = (i + 0.5) * step
        density = math.exp((shape - 1) * math.log(x) - x / scale)
        total, weight = total + density * math.exp(x), weight + density
    jobs = lublin.generate(Stream(6), JOBS, p)
    assert jobs[-1].submit_s / JOBS == pytest.approx(total / weight, rel=0.06)


@pytest.mark.parametrize("nodes", [1, 2, 4, 16, 100, 1024])
def test_no_job_is_larger_than_the_machine(nodes: int) -> None:
    sizes = Counter(job.size for job in lublin.generate(Stream(8), 5_000, lublin.for_nodes(nodes)))
    assert max(sizes) <= nodes
    assert len(sizes) > math.log2(nodes)


def test_the_examples_hold() -> None:
    for module in (exact, lublin):
        assert doctest.testmod(module).failed == 0
