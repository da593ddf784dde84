# SPDX-License-Identifier: GPL-2.0-or-later
"""The periods, and the report of the monitor on itself, by a clock that only the test moves."""

from __future__ import annotations

import pytest

from ctl.monitor.netmon import clock as module
from ctl.monitor.netmon.clock import Clock


class Hand:
    """What the module `time` tells, moved by the test: no host is too busy for it."""

    def __init__(self) -> None:
        self.now, self.cpu = 100.0, 3.0

    def monotonic(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.cpu

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds

    def spin(self, seconds: float) -> None:
        """Use the CPU for so long."""
        self.now += seconds
        self.cpu += seconds


@pytest.fixture
def hand(monkeypatch: pytest.MonkeyPatch) -> Hand:
    """The time that the clock sees."""
    hand = Hand()
    monkeypatch.setattr(module, "time", hand)
    return hand


def test_samples_are_due_at_multiples_of_the_period(hand: Hand) -> None:
    times = []
    for _ in Clock(0.02).ticks(count=20):
        times.append(hand.now - 100)
        hand.sleep(0.005)
    assert times == pytest.approx([0.02 * number for number in range(1, 21)]), "periods drift"


def test_the_time_ends_it(hand: Hand) -> None:
    clock = Clock(0.01)
    assert len(list(clock.ticks(seconds=0.1))) == 10
    assert clock.report().seconds == pytest.approx(0.1)


def test_the_caller_ends_it(hand: Hand) -> None:
    asked = []

    def wait(seconds: float) -> bool:
        asked.append(seconds)
        hand.sleep(seconds)
        return len(asked) == 3

    assert len(list(Clock(0.1, wait).ticks())) == 2
    assert asked == pytest.approx([0.1, 0.1, 0.1])


def test_a_sample_beyond_its_period_is_told_and_the_missed_periods_are_left_out(hand: Hand) -> None:
    clock, times = Clock(0.1), []
    for number, _ in enumerate(clock.ticks(count=3)):
        times.append(hand.now - 100)
        hand.sleep(0.25 if number == 0 else 0)  # due at 0.1, ends at 0.35: the next is due at 0.4
    report = clock.report()
    assert times == pytest.approx([0.1, 0.4, 0.5]), "a sample for a period that was left out"
    assert report.overlapped == pytest.approx(1 / 3)
    assert report.longest_excess_s == pytest.approx(0.15)
    assert report.samples == 3


def test_extra_execution_is_the_cpu_time_of_the_samples(hand: Hand) -> None:
    clock = Clock(0.05)
    for _ in clock.ticks(count=6):
        hand.spin(0.01)
    report = clock.report()
    assert report.cpu_s_per_sample == pytest.approx(0.01)
    assert report.seconds == pytest.approx(0.31)
    assert report.cpu_share == pytest.approx(0.06 / 0.31)


def test_a_report_without_samples_is_all_nothing() -> None:
    report = Clock(1.0).report()
    assert (report.samples, report.cpu_share, report.overlapped, report.longest_excess_s) == (0, 0, 0, 0)
