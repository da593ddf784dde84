# SPDX-License-Identifier: GPL-2.0-or-later
"""The overload rule on made-up memory states: the causes that turn it on, others that do not, and its end."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ctl.node import overload
from ctl.node.overload import Sample, State, decide, mem_and_limit

GIB = 1 << 30
EASE = Sample(
    at=0.0,
    mem_total=GIB,
    mem_available=GIB // 2,
    swap_total=GIB,
    swap_free=GIB,
    swap_cached=0,
    swapins=0,
    refaults=0,
    stalled=0.0,
    psi_some=0.0,
    psi_full=0.0,
)
FULL = replace(EASE, mem_available=GIB // 100, swap_free=GIB // 2)  # Mem is 1.5 GiB


def run(state: State, base: Sample, seconds: int, refaults_s: float = 0, stall: float = 0) -> State:
    """One sample per second, with these rates, after the state's last sample."""
    for _ in range(seconds):
        last = state.last or replace(base, at=0.0)
        state = decide(
            state,
            replace(
                base,
                at=last.at + 1,
                refaults=last.refaults + int(refaults_s),
                swapins=last.swapins + int(refaults_s),
                stalled=last.stalled + stall,
            ),
        )
    return state


def overloaded() -> State:
    state = run(State(), FULL, 5, refaults_s=100)
    assert state.overloaded
    return state


def test_mem_counts_swap_but_not_what_is_in_memory_as_well() -> None:
    sample = replace(EASE, swap_free=GIB - 300, swap_cached=100)
    assert mem_and_limit(sample)[0] == GIB // 2 + 200


def test_reserve_is_a_share_but_not_less_than_its_minimum() -> None:
    assert mem_and_limit(EASE)[1] == GIB - int(GIB * overload.RESERVE_SHARE)
    small = replace(EASE, mem_total=128 << 20)
    assert mem_and_limit(small)[1] == (128 << 20) - overload.RESERVE_MIN


def test_at_ease() -> None:
    state = run(State(), EASE, 100)
    assert not state.overloaded
    assert "Mem 512 MiB <= M 993 MiB" in state.why


def test_more_than_fits_but_nobody_misses_it() -> None:
    state = run(State(), FULL, 100, refaults_s=overload.PAGING_S - 1)
    assert not state.overloaded
    assert "but only 3 refaults/s" in state.why


def test_more_than_fits_and_paging_is_one_check() -> None:
    state = run(State(), FULL, 1)
    state = run(state, FULL, 1, refaults_s=overload.PAGING_S)
    assert state.overloaded
    assert "Mem 1526 MiB > M 993 MiB and 4 refaults/s" in state.why


def test_refaults_alone_must_last() -> None:
    state = run(State(), EASE, 1)
    state = run(state, EASE, 1, refaults_s=overload.REFAULTS_HIGH)
    assert not state.overloaded
    assert not run(run(state, EASE, 1), EASE, 1, refaults_s=overload.REFAULTS_HIGH).overloaded
    state = run(state, EASE, 1, refaults_s=overload.REFAULTS_HIGH)
    assert state.overloaded
    assert "refaults/s" in state.why


def test_stalls_alone_must_last() -> None:
    state = run(State(), EASE, 2, stall=overload.STALL_HIGH + 0.01)
    assert not state.overloaded  # the first sample has no rate
    state = run(state, EASE, 1, stall=overload.STALL_HIGH + 0.01)
    assert state.overloaded
    assert "stalled" in state.why


def test_off_only_after_quiet() -> None:
    state = overloaded()
    state = run(state, EASE, 3)
    assert state.overloaded
    state = run(state, EASE, 1)
    assert not state.overloaded


def test_a_burst_starts_the_quiet_time_anew() -> None:
    state = run(overloaded(), EASE, 3)
    state = run(state, EASE, 1, stall=overload.STALL_LOW)
    assert state.quiet_since is None
    assert run(state, EASE, 3).overloaded
    assert not run(state, EASE, 4).overloaded


def test_between_the_marks_nothing_changes() -> None:
    limit = mem_and_limit(EASE)[1]
    between = replace(EASE, mem_available=GIB - int(limit * 0.97))
    rate = overload.PAGING_S + 1
    assert not run(State(), between, 50, refaults_s=rate).overloaded
    assert run(overloaded(), between, 50, refaults_s=rate).overloaded


def test_samples_too_close_decide_nothing() -> None:
    state = run(State(), EASE, 1)
    assert decide(state, replace(FULL, at=1.1, refaults=10_000)) is state


steps = st.lists(
    st.tuples(
        st.floats(0.01, 8),
        st.integers(0, GIB),
        st.integers(0, GIB),
        st.integers(0, 500),
        st.floats(0, 2),
    ),
    max_size=60,
)


@given(steps)
def test_never_flips_back_within_the_quiet_time(walk: list[tuple[float, int, int, int, float]]) -> None:
    state, sample = State(), EASE
    turned_on = None
    for elapsed, available, swap_free, refaults, stall in walk:
        sample = replace(
            sample,
            at=sample.at + elapsed,
            mem_available=available,
            swap_free=swap_free,
            refaults=sample.refaults + refaults,
            stalled=sample.stalled + stall,
        )
        before, state = state, decide(state, sample)
        if state.overloaded and not before.overloaded:
            turned_on = sample.at
        if before.overloaded and not state.overloaded:
            assert turned_on is not None
            assert sample.at - turned_on >= overload.OFF_AFTER
        assert state.why


def test_a_long_gap_starts_anew() -> None:
    state = run(State(), EASE, 1)
    late = replace(EASE, at=600.0, refaults=1_000_000, stalled=500.0)
    state = decide(state, late)
    assert not state.overloaded
    assert state.refaults_s is None
    assert state.last is late


def test_checks_go_on_until_memory_is_at_ease() -> None:
    assert not overload.restless(run(State(), EASE, 5))
    assert overload.restless(run(run(State(), EASE, 1), EASE, 1, stall=0.9))
    assert overload.restless(overloaded())
    assert not overload.restless(run(overloaded(), EASE, 10))


def test_refaults_between_the_marks_keep_it_on() -> None:
    assert run(overloaded(), EASE, 50, refaults_s=overload.REFAULTS_LOW).overloaded
    assert not run(overloaded(), EASE, 5, refaults_s=overload.REFAULTS_LOW - 1).overloaded
