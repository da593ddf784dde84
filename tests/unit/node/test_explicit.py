# SPDX-License-Identifier: GPL-2.0-or-later
"""Slots by the clock: the slot of a moment, and the evaluation of the stops that a job felt."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from ctl.kernel.sysinfo import clock_error
from ctl.node.explicit import Period
from tests.cluster.in_step import judge, stops

_MS = 1_000_000
_lengths = st.integers(1, 10_000)
_moments = st.integers(0, 2**62)


@given(_lengths, _lengths, _moments)
def test_each_moment_is_in_one_slot(run: int, stop: int, now: int) -> None:
    number, since, left = Period(run, stop).slot(now)
    length = (stop if number % 2 else run) * _MS
    assert since >= 0 and left > 0 and since + left == length
    assert Period(run, stop).slot(now + left - 1)[0] == number
    assert Period(run, stop).slot(now + left)[:2] == (number + 1, 0), "the next begins where this one ends"


@given(_lengths, _lengths, _moments, st.integers(0, 1000))
def test_a_period_gives_jobs_their_part(run: int, stop: int, now: int, periods: int) -> None:
    period = Period(run, stop)
    later = now + periods * (run + stop) * _MS
    assert period.slot(later)[1:] == period.slot(now)[1:]
    assert period.slot(later)[0] - period.slot(now)[0] == 2 * periods


def test_monitos_own() -> None:
    """90 ms run, 10 ms stopped (Monito §5.2)."""
    at = [Period(90, 10).slot(ms * _MS)[0] % 2 for ms in (0, 89, 90, 99, 100, 189, 190)]
    assert at == [0, 0, 1, 1, 0, 0, 1]


def test_clock_error_is_ms_or_nothing() -> None:
    error = clock_error()
    assert error is None or 0 <= error < 60_000


def _gaps(first: int, count: int, late: int) -> list[tuple[int, int]]:
    """The stops of 90 and 10 ms that a job felt, each so much late; ns."""
    begin = first * 100 * _MS
    return [(begin + (100 * i + 90) * _MS + late, begin + 100 * (i + 1) * _MS + late) for i in range(count)]


def test_stops_are_told_from_other_gaps() -> None:
    now = time.time_ns() // (100 * _MS)
    gaps = [*_gaps(now, 5, _MS), *_gaps(now + 6, 4, _MS)]  # the sixth is missed
    turn = (gaps[0][1] + 20 * _MS, gaps[0][1] + 40 * _MS)  # a local task's
    seen = list(stops(sorted([*gaps, turn]), 90, 10))
    assert [gap for _, gap in seen].count(None) == 1
    assert all(gap == (due + _MS, due + 11 * _MS) for due, gap in seen if gap)


def test_nodes_are_compared_by_one_clock() -> None:
    """Node2's clock is 3 ms ahead: edges at the same time of each clock are 3 ms apart, and 1 ms late makes them 4."""
    ahead = 3 * _MS
    nodes = [{"gaps": _gaps(1000, 20, 0), "slots": {}}, {"gaps": _gaps(1000, 20, -_MS), "slots": {}}]
    result = judge(nodes, ahead / 1e9, 90, 10)
    assert result["stop_apart_ms"] == {"median": 4.0, "p99": 4.0, "longest": 4.0}
    assert result["node2"]["stop_late_ms"]["median"] == -1.0
    assert result["node1"]["missed"] == result["node2"]["missed"] == 0
    assert result["stops_on_both"] == min(result[node]["stops"] for node in ("node1", "node2"))
