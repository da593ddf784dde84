# SPDX-License-Identifier: GPL-2.0-or-later
"""The quantum of an epoch: the native text against the plain reference, and what follows from it for shares."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from ctl.native import library
from tests.examples import examples
from tests.reference import epochs

_MS = 1_000_000
_native = library("set_quantum")
_QUANTA = st.integers(1, 4000 * _MS)
_LEFT = st.integers(-100 * _MS, 100 * _MS) | st.integers(-100_000 * _MS, 100_000 * _MS)
_SHORT = st.integers(0, _MS - 1)
_EPOCHS = st.integers(1, 8) | st.integers(9, 2000)


def _one_by_one(rule: Callable[[int, int], int], left: int, quantum: int, missed: int) -> int:
    """What is left by the reference after so many epochs."""
    for _ in range(missed):
        left = rule(left, quantum)
    return left


@examples(1000)
@given(_LEFT, _QUANTA, st.integers(1, 8))
def test_the_next_quantum_is_the_reference_s(left: int, quantum: int, missed: int) -> None:
    assert _native.next_quantum(left, quantum, missed) == _one_by_one(epochs.next_quantum, left, quantum, missed)


@examples(1000)
@given(_LEFT, st.integers(_MS, 4000 * _MS), st.integers(9, 200))
def test_a_debt_is_paid_however_long_the_task_slept(left: int, quantum: int, missed: int) -> None:
    """Behind the debt, eight epochs stand for all: then it has two quanta, near enough."""
    expected = _one_by_one(epochs.next_quantum, left, quantum, missed)
    assert 0 <= _native.next_quantum(left, quantum, missed) - expected <= 2 * quantum / 256 + missed


@examples(1000)
@given(_LEFT, _SHORT, _EPOCHS)
def test_the_saved_quantum_is_the_reference_s(left: int, quantum: int, missed: int) -> None:
    assert _native.saved_quantum(left, quantum, missed) == _one_by_one(epochs.saved_quantum, left, quantum, missed)


@examples(1000)
@given(st.integers(0, 60_000 * _MS), st.integers(0, 1024), st.integers(0, 5000), _QUANTA)
def test_the_shared_quantum_is_the_reference_s(local_ns: int, share: int, jobs: int, most: int) -> None:
    got = _native.shared_quantum(local_ns, share, jobs, most)
    assert abs(got - epochs.shared_quantum(local_ns, share / 1024, jobs, most)) <= 1


@given(_QUANTA, st.integers(0, 40))
def test_a_task_that_sleeps_never_has_more_than_two_quanta(quantum: int, missed: int) -> None:
    left = 0
    for _ in range(missed):
        left = _native.next_quantum(left, quantum, 1)
        assert 0 < left <= 2 * quantum
    if missed >= 8:
        assert left > 1.98 * quantum - missed  # what the halving rounds off


@examples(200)
@given(st.lists(st.integers(0, 8 * _MS), min_size=50, max_size=200), st.integers(4 * _MS, 100 * _MS))
def test_a_task_that_runs_on_to_the_tick_uses_its_quantum_in_the_mean(late: list[int], quantum: int) -> None:
    """Each turn ends up to two ticks late. A task without quantum does not run."""
    left = used = 0
    for more in late:
        left = _native.next_quantum(left, quantum, 1)
        if left > 0:
            used += left + more
            left = -more
    assert abs(used - quantum * len(late)) <= quantum + 8 * _MS


@examples(200)
@given(st.lists(st.integers(0, 8 * _MS), min_size=200, max_size=400), st.integers(20_000, _MS - 1))
def test_a_quantum_shorter_than_a_slice_is_used_in_the_mean(late: list[int], quantum: int) -> None:
    """The task runs in some epochs only, for a slice at least, and up to two ticks on."""
    left = used = 0
    for more in late:
        left = _native.saved_quantum(left, quantum, 1)
        if left >= _MS:
            used += left + more
            left = -more
    assert abs(used - quantum * len(late)) <= quantum + 9 * _MS


@given(st.floats(0.01, 0.9), st.integers(1, 16), st.integers(1, 400 * _MS))
def test_tasks_that_share_have_l_together(share: float, jobs: int, local_ns: int) -> None:
    fixed = round(share * 1024)
    together = jobs * _native.shared_quantum(local_ns, fixed, jobs, 1 << 62)
    expected = local_ns * fixed / (1024 - fixed)
    assert expected - jobs <= together <= expected + 1
