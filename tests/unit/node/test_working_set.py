# SPDX-License-Identifier: GPL-2.0-or-later
"""The working set of a running job: within what it has, and less only where no page came back."""

from __future__ import annotations

import subprocess

from hypothesis import given
from hypothesis import strategies as st

from ctl.node.working_set import WorkingSets, ranks_of

SIZES = st.integers(0, 1 << 40)
LOOKS = st.lists(st.tuples(SIZES, SIZES, st.integers(0, 10_000)))  # resident, swapped, pages that came back since


@given(LOOKS)
def test_it_is_within_what_the_job_has(looks: list[tuple[int, int, int]]) -> None:
    sets, refaults = WorkingSets(), 0
    for resident, swapped, back in looks:
        refaults += back
        found = sets.look("a", resident, swapped, refaults)
        assert found in (0, resident, resident + swapped)
        assert found >= resident or swapped, "a job that was not squeezed needs what it has"


@given(LOOKS, st.integers(0, 50))
def test_more_pages_that_come_back_never_make_it_smaller(looks: list[tuple[int, int, int]], more: int) -> None:
    few, many = WorkingSets(), WorkingSets()
    one = other = 0
    for resident, swapped, back in looks:
        one, other = one + back, other + back + more
        assert few.look("a", resident, swapped, one) <= many.look("a", resident, swapped, other)


def test_what_runs_without_its_pages_in_swap_does_not_need_them() -> None:
    sets = WorkingSets()
    assert [sets.look("a", 40, 20, refaults) for refaults in (100, 900, 900)] == [0, 0, 0], "they are on their way"
    assert sets.look("a", 40, 20, 900) == 40
    assert sets.look("a", 40, 20, 2000) == 60, "they come back"
    sets.keep(["b"])
    assert sets.look("a", 40, 20, 5000) == 0, "it was stopped, and goes on"
    assert sets.look("b", 40, 0, 7) == 40, "nothing is in swap"


def test_ranks_are_the_most_processes_of_one_program() -> None:
    several = [subprocess.Popen(["/bin/sleep", "60"]) for _ in range(3)]
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as daemon:
        try:
            pids = [daemon.pid, *(one.pid for one in several), 1 << 30]
            assert ranks_of(pids) == 3
            sets = WorkingSets()
            assert [sets.ranks("a", pids[:2]), sets.ranks("a", pids), sets.ranks("a", pids)] == [1, 3, 3]
        finally:
            for one in (daemon, *several):
                one.kill()
                one.wait()
