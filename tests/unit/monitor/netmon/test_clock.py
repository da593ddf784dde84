# SPDX-License-Identifier: GPL-2.0-or-later
"""The periods, and the report of the monitor on itself."""

from __future__ import annotations

import time

import pytest

from ctl.monitor.netmon.clock import Clock


def spin(seconds: float) -> None:
    """Use the CPU for so long."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_samples_are_due_at_multiples_of_the_period() -> None:
    due: list[float] = []

    def wait(seconds: float) -> bool:
        if seconds > 0:  # on a busy host a sample may come late
            due.append(time.monotonic() + seconds)
            time.sleep(seconds)
        return False

    start = time.monotonic()
    for _ in Clock(0.02, wait).ticks(count=20):
        time.sleep(0.005)
    periods = [(at - start) / 0.02 for at in due]
    assert len({round(at) for at in periods}) == len(due) > 0
    assert periods == pytest.approx([round(at) for at in periods], abs=0.05), "periods drift"


def test_the_time_ends_it() -> None:
    clock = Clock(0.01)
    assert len(list(clock.ticks(seconds=0.1))) <= 10
    assert 0.05 < clock.report().seconds < 1


def test_a_sample_beyond_its_period_is_told_and_the_missed_periods_are_left_out() -> None:
    clock, start, times = Clock(0.1), time.monotonic(), []
    for number, _ in enumerate(clock.ticks(count=3)):
        times.append(time.monotonic() - start)
        time.sleep(0.25 if number == 0 else 0)  # due at 0.1, ends at 0.35: the next is due at 0.4
    report = clock.report()
    assert times[1] > 0.399, "a sample for a period that was left out"
    assert 1 / 3 <= report.overlapped <= 1, "a busy host may make others overlap, too"
    assert report.longest_excess_s > 0.149
    assert report.samples == 3


def test_extra_execution_is_the_cpu_time_of_the_samples() -> None:
    clock = Clock(0.05)
    for _ in clock.ticks(count=6):
        spin(0.01)
    report = clock.report()
    assert report.cpu_s_per_sample == pytest.approx(0.01, abs=0.003)
    assert report.cpu_share == pytest.approx(report.cpu_s_per_sample * 6 / report.seconds)


def test_a_report_without_samples_is_all_nothing() -> None:
    report = Clock(1.0).report()
    assert (report.samples, report.cpu_share, report.overlapped, report.longest_excess_s) == (0, 0, 0, 0)
