# SPDX-License-Identifier: GPL-2.0-or-later
"""Set_Memory's rule: which jobs stop and go on, and when; every stop ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.node.overload import PAGING_S
from ctl.node.set_memory import MOST_QUIET, QUIET, SETTLE, Epoch, Job, State, decide, pool_size

MIB = 1 << 20
SMALL, LARGE = Job("small", 40 * MIB, 0, 1.0), Job("large", 80 * MIB, 10 * MIB, 2.0)
THRASHING = Epoch(True, 100.0, 64 * MIB, (SMALL, LARGE))


def jids(state: State) -> list[str]:
    return [stop.jid for stop in state.stops]


def then(state: State, epoch: Epoch, epochs: int = 1) -> State:
    """The state after so many epochs like this, each seeing what the one before it stopped."""
    for _ in range(epochs):
        jobs = tuple(replace(job, stopped=state.stopped(job.jid)) for job in epoch.jobs)
        state = decide(state, replace(epoch, jobs=jobs))
    return state


def stopped() -> State:
    state = then(State(), THRASHING)
    assert jids(state) == ["large"]
    return state


def test_pool_is_the_smallest_nodes_memory_times_l() -> None:
    assert pool_size(256 * MIB, 0.25) == 64 * MIB


def test_the_largest_resident_is_stopped_within_one_epoch() -> None:
    state = stopped()
    assert state.stops[0].need == 90 * MIB
    assert "130 MiB of 64 MiB" in state.stops[0].why


@pytest.mark.parametrize(
    "epoch",
    [
        replace(THRASHING, local_user=False),
        replace(THRASHING, paged_s=PAGING_S - 0.1),
        replace(THRASHING, cost=0.04),
        replace(THRASHING, pool=131 * MIB),
        replace(THRASHING, jobs=()),
    ],
    ids=["nobody there", "no swapping", "pages that cost no time", "within their share", "no jobs"],
)
def test_nobody_is_stopped(epoch: Epoch) -> None:
    assert jids(then(State(), epoch, 5)) == []


def test_one_whose_stop_frees_little_is_not_chosen() -> None:
    """Without swap it would stand still and keep its memory."""
    stuck = replace(LARGE, stays=80 * MIB)
    assert jids(then(State(), replace(THRASHING, jobs=(SMALL, stuck)))) == ["small"]
    assert jids(then(State(), replace(THRASHING, jobs=(stuck,)), 5)) == []


def test_one_an_epoch_until_they_are_within_their_share() -> None:
    epoch = replace(THRASHING, jobs=(SMALL, LARGE, Job("other", 50 * MIB, 0, 3.0)))
    assert [jids(then(State(), epoch, n)) for n in (1, 2, 3)] == [["large"], ["large", "other"], ["large", "other"]]


def test_jobs_stopped_by_other_nodes_are_not_chosen_and_need_nothing() -> None:
    gone = replace(LARGE, stopped=True, elsewhere=True)
    assert jids(decide(State(), replace(THRASHING, jobs=(SMALL, gone)))) == []
    assert jids(decide(State(), replace(THRASHING, pool=30 * MIB, jobs=(SMALL, gone)))) == ["small"]


def test_held_to_the_pool_only_beside_a_user_whose_node_swaps() -> None:
    assert stopped().limited
    assert not then(State(), replace(THRASHING, local_user=False)).limited
    quiet = replace(THRASHING, paged_s=0.0)
    assert [then(stopped(), quiet, n).limited for n in (1, 2)] == [True, False]


def test_all_go_on_when_the_user_has_gone() -> None:
    state = then(stopped(), replace(THRASHING, pool=0))
    assert jids(state) == ["large", "small"]
    assert jids(then(state, replace(THRASHING, local_user=False))) == []


def test_one_that_fits_goes_on_the_first_stopped_first() -> None:
    state = then(stopped(), replace(THRASHING, pool=0))
    assert jids(then(state, replace(THRASHING, pool=100 * MIB))) == ["small"]
    assert jids(then(state, replace(THRASHING, pool=50 * MIB))) == ["large"]


@pytest.mark.parametrize("epoch", [replace(THRASHING, local_user=False), replace(THRASHING, pool=200 * MIB)])
def test_whoever_goes_on_gets_its_pages_before_anybody_is_stopped(epoch: Epoch) -> None:
    state = then(stopped(), epoch)
    assert jids(state) == []
    assert jids(then(state, THRASHING, SETTLE)) == []
    assert jids(then(state, THRASHING, SETTLE + 1)) == ["large"]


def test_two_quiet_epochs_let_one_go_on_and_the_next_time_four() -> None:
    quiet = replace(THRASHING, paged_s=0.0)
    state = stopped()
    for wait in (QUIET, 2 * QUIET, 4 * QUIET, MOST_QUIET // 2, MOST_QUIET, MOST_QUIET):
        state = then(state, quiet, wait - 1)
        assert jids(state) == ["large"]
        state = then(state, quiet)
        assert jids(state) == []
        state = then(state, THRASHING, SETTLE)
        assert jids(state) == [], "its pages come back, which stops nobody"
        state = then(state, THRASHING)
        assert jids(state) == ["large"]


def test_who_would_push_out_others_waits_longest_unless_room_comes() -> None:
    quiet = replace(THRASHING, paged_s=0.0, free=LARGE.swapped - 1)
    waiting = then(stopped(), quiet, MOST_QUIET - 1)
    assert jids(waiting) == ["large"]
    assert jids(then(waiting, quiet)) == []
    assert jids(then(then(stopped(), quiet, QUIET), replace(quiet, free=LARGE.swapped))) == []


def test_pages_that_cost_no_time_keep_the_stopped_waiting_and_nobody_held() -> None:
    idle = replace(THRASHING, cost=0.0)
    assert [then(stopped(), idle, n).limited for n in (1, 2)] == [True, False]
    assert jids(then(stopped(), idle, 50)) == ["large"]


def test_mpl_lets_the_last_to_come_wait_and_go_on_when_one_ends() -> None:
    jobs = tuple(Job(str(n), 0, 0, float(n)) for n in (3, 1, 4, 2))
    epoch = Epoch(False, 0.0, 0, jobs, mpl=2)
    state = then(State(), epoch)
    assert jids(state) == ["3", "4"]
    assert jids(then(state, epoch, 5)) == ["3", "4"]
    assert jids(then(state, replace(epoch, jobs=jobs[:3]))) == ["4"]
    assert jids(then(state, replace(epoch, mpl=0))) == []


jobs = st.lists(
    st.tuples(st.integers(0, 99), st.integers(0, 99), st.floats(0, 9), st.booleans()), max_size=5
).map(
    lambda rows: tuple(
        Job(f"j{n}", resident, swapped, started, elsewhere=elsewhere)
        for n, (resident, swapped, started, elsewhere) in enumerate(rows)
    )
)
epochs = st.builds(
    Epoch,
    st.booleans(),
    st.sampled_from([0.0, PAGING_S, 1000.0]),
    st.integers(0, 200),
    jobs,
    st.integers(0, 3),
    free=st.sampled_from([None, 0, 50]),
)


@given(st.lists(epochs, max_size=30))
def test_whatever_happens(walk: list[Epoch]) -> None:
    state = State()
    for epoch in walk:
        before, state = state, then(state, epoch)
        here = {job.jid: job for job in epoch.jobs}
        assert len(set(jids(state))) == len(state.stops), "nobody is stopped twice"
        assert set(jids(state)) <= set(here)
        # one that goes on and is stopped by MPL in the same epoch is a new stop
        kept = [stop.jid for stop in before.stops if stop in state.stops]
        assert jids(state)[: len(kept)] == kept, "the order of stops is kept"
        new = [stop for stop in state.stops if stop not in before.stops]
        assert sum(not stop.by_mpl for stop in new) <= 1
        for stop in new:
            if not stop.by_mpl:
                assert epoch.swapping and epoch.local_user
                running = [j for j in epoch.jobs if not before.stopped(j.jid) and not j.elsewhere]
                assert here[stop.jid].resident == max(
                    j.resident for j in running if j.jid == stop.jid or not state.stopped(j.jid)
                )
        if not epoch.local_user:
            assert all(stop.by_mpl for stop in state.stops)
        if epoch.mpl:
            assert sum(not state.stopped(j.jid) and not j.elsewhere for j in epoch.jobs) <= epoch.mpl
        else:
            assert not any(stop.by_mpl for stop in state.stops)

    # every stop ends: at once without a user, in bounded time once nothing swaps
    if walk:
        last = replace(walk[-1], mpl=0)
        assert jids(then(state, replace(last, local_user=False))) == []
        calm = replace(last, local_user=True, paged_s=0.0)
        assert jids(then(state, calm, MOST_QUIET * (len(last.jobs) + 1))) == []
