# SPDX-License-Identifier: GPL-2.0-or-later
"""The room for jobs: what local tasks need, now and in the last minutes, is not the jobs'."""

from __future__ import annotations

from typing import Any

from ctl.node.room import PEAK, Room, Sample

TOTAL = 1280  # of which a 128th is kept: 10


def look(room: Room, *seen: Any, **more: Any) -> int:
    return room.look(*seen, **more).room


def sample(available: int, active_files: int = 0) -> Sample:
    return Sample(TOTAL, available, active_files)


def test_all_that_is_available_or_the_jobs_but_the_reserve() -> None:
    assert look(Room(), 0, sample(500), jobs=0, jobs_files=0) == 490
    assert look(Room(), 0, sample(200), jobs=300, jobs_files=0) == 490, "what jobs have is theirs already"


def test_the_peak_of_local_tasks_counts_for_a_while() -> None:
    room = Room()
    assert look(room, 0, sample(400), 0, 0) == 390
    assert look(room, 1, sample(300), 0, 0) == 291
    assert look(room, 2, sample(600), 0, 0) == 290
    assert look(room, PEAK, sample(600), 0, 0) == 290
    assert look(room, PEAK + 1.5, sample(600), 0, 0) == 590


def test_pages_in_swap_keep_their_place() -> None:
    room = Room()
    assert look(room, 0, sample(400), 0, 0) == 390
    assert look(room, 1, sample(0), 450, 0) == 390, "50 of local tasks went to swap, and find room when they come back"


def test_files_that_local_tasks_keep_using_are_theirs() -> None:
    assert look(Room(), 0, sample(500, active_files=100), 0, 0) == 390
    assert look(Room(), 0, sample(500, active_files=100), 0, jobs_files=70) == 460
    assert look(Room(), 0, sample(500, active_files=100), 0, jobs_files=120) == 490, "read a moment apart"


def test_what_the_owner_leaves_to_jobs_is_theirs_whatever_local_tasks_need() -> None:
    room = Room()
    assert look(room, 0, sample(300), 0, 0, share=0.5) == 640
    assert look(room, 1, sample(900), 0, 0, share=0.5) == 640
    assert look(Room(), 0, sample(900), 0, 0, share=0.5) == 890


def test_the_limit_follows_the_need_of_the_moment() -> None:
    room = Room()
    assert room.look(0, sample(500), 0, 0) == (490, 490)
    assert room.look(1, sample(300), 0, 0) == (291, 291), "the last pages are nobody's: the kernel would look for more"
    assert room.look(2, sample(450), 0, 0) == (290, 440), "the local task has gone, and may come back"
    assert room.look(3, sample(450), 0, 0, share=0.5) == (640, 640)


def test_the_reserve_is_small_where_most_memory_is_locked() -> None:
    assert Room().look(0, sample(64), 0, 0) == (62, 62)
    assert Room().look(0, sample(32), 32, 0) == (62, 62)
