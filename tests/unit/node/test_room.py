# SPDX-License-Identifier: GPL-2.0-or-later
"""The room for jobs: what local tasks need, now and in the last minutes, is not the jobs'."""

from __future__ import annotations

from ctl.node.room import PEAK, Room, Sample

TOTAL = 1280  # of which a 128th is kept: 10


def sample(available: int, active_files: int = 0) -> Sample:
    return Sample(TOTAL, available, active_files)


def test_all_that_is_available_or_the_jobs_but_the_reserve() -> None:
    assert Room().look(0, sample(500), jobs=0, jobs_files=0) == 490
    assert Room().look(0, sample(200), jobs=300, jobs_files=0) == 490, "what jobs have is theirs already"


def test_the_peak_of_local_tasks_counts_for_a_while() -> None:
    room = Room()
    assert room.look(0, sample(400), 0, 0) == 390
    assert room.look(1, sample(300), 0, 0) == 290
    assert room.look(2, sample(600), 0, 0) == 290
    assert room.look(PEAK, sample(600), 0, 0) == 290
    assert room.look(PEAK + 1.5, sample(600), 0, 0) == 590


def test_pages_in_swap_keep_their_place() -> None:
    room = Room()
    assert room.look(0, sample(400), 0, 0) == 390
    assert room.look(1, sample(0), 450, 0) == 390, "50 of local tasks went to swap, and find room when they come back"


def test_files_that_local_tasks_keep_using_are_theirs() -> None:
    assert Room().look(0, sample(500, active_files=100), 0, 0) == 390
    assert Room().look(0, sample(500, active_files=100), 0, jobs_files=70) == 460
    assert Room().look(0, sample(500, active_files=100), 0, jobs_files=120) == 490, "read a moment apart"


def test_what_the_owner_leaves_to_jobs_is_theirs_whatever_local_tasks_need() -> None:
    room = Room()
    assert room.look(0, sample(300), 0, 0, share=0.5) == 640
    assert room.look(1, sample(900), 0, 0, share=0.5) == 640
    assert Room().look(0, sample(900), 0, 0, share=0.5) == 890
