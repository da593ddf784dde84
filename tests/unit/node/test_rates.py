# SPDX-License-Identifier: GPL-2.0-or-later
"""Rates out of counters, with a clock of the test's own."""

from __future__ import annotations

from ctl.node.rates import MAX_INTERVAL, MIN_INTERVAL, Rates


class World:
    """Counters that the test sets, and a clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.counters = {"csm": {"insertions": 0}}
        self.rates = Rates(lambda: self.counters, lambda: self.now)

    def after(self, seconds: float, insertions: int) -> float | None:
        """Look again, later; the rate then."""
        self.now += seconds
        self.counters = {"csm": {"insertions": insertions}}
        self.rates.look()
        return self.rates.rate("csm", "insertions")


def test_two_looks_make_a_rate() -> None:
    world = World()
    assert world.after(0, 10) is None
    assert world.after(2, 30) == 10
    assert world.after(1, 30) == 0


def test_a_look_too_soon_changes_nothing() -> None:
    world = World()
    world.after(0, 0)
    assert world.after(1, 10) == 10
    assert world.after(MIN_INTERVAL / 2, 1000) == 10


def test_a_gap_starts_anew() -> None:
    world = World()
    world.after(0, 0)
    world.after(1, 10)
    assert world.after(MAX_INTERVAL + 1, 1000) is None
    assert world.after(1, 1005) == 5


def test_rows_that_come_and_go_have_no_rate() -> None:
    world = World()
    world.after(0, 0)
    assert world.rates.rate("job a", "cpu_ns") is None
    world.after(1, 10)
    assert world.rates.rate("job a", "cpu_ns") is None


def test_counters_that_start_again_do_not_go_backwards() -> None:
    world = World()
    world.after(0, 100)
    assert world.after(1, 5) == 0
