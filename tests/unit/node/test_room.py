# SPDX-License-Identifier: GPL-2.0-or-later
"""The room for jobs: what local tasks need, now and in the last minutes, is not the jobs'."""

from __future__ import annotations

from typing import Any

from ctl.node.room import PEAK, RETURNS, Part, Room, Sample

TOTAL = 1280  # of which a 128th is kept: 10


def look(room: Room, *seen: Any, **more: Any) -> int:
    return room.look(*seen, **more).room


def sample(available: int, active_files: int = 0) -> Sample:
    return Sample(TOTAL, available, active_files)


def test_all_that_is_available_or_the_jobs_but_the_reserve() -> None:
    assert look(Room(), 0, sample(500), Part(0)) == 490
    assert look(Room(), 0, sample(200), Part(300)) == 490, "what jobs have is theirs already"


def test_the_peak_of_local_tasks_counts_for_a_while() -> None:
    room = Room()
    assert look(room, 0, sample(400), Part(0)) == 390
    assert look(room, 1, sample(300), Part(0)) == 291
    assert look(room, 2, sample(600), Part(0)) == 290
    assert look(room, PEAK, sample(600), Part(0)) == 290
    assert look(room, PEAK + 1.5, sample(600), Part(0)) == 590


def test_pages_in_swap_keep_their_place() -> None:
    room = Room()
    assert look(room, 0, sample(400), Part(0)) == 390
    assert look(room, 1, sample(0), Part(450)) == 390, "50 of local tasks went to swap, and may come back"


def test_files_that_local_tasks_keep_using_are_theirs() -> None:
    assert look(Room(), 0, sample(500, active_files=100), Part(0)) == 390
    assert look(Room(), 0, sample(500, active_files=100), Part(0, 70)) == 460
    assert look(Room(), 0, sample(500, active_files=100), Part(0, 120)) == 490, "read a moment apart"


def test_what_local_tasks_keep_fetching_from_swap_is_theirs() -> None:
    """Not what lies there: idle programs' pages go to swap, and nobody misses them."""
    page = 4096
    total = TOTAL * page
    room, idle = Room(), 100 * page

    def limit(at: float, refaults: int, local: int, jobs: Part) -> int:
        seen = Sample(total, 500 * page, 0, idle + local * page + jobs.swapped, refaults + jobs.refaults)
        return room.look(at, seen, jobs).limit // page

    nothing = Part(300 * page)
    assert limit(0, 10_000, 0, nothing) == 790, "it came back before the first look, and is in memory"
    assert limit(1, 10_000, 30, nothing) == 790
    assert limit(2, 10_020, 30, nothing) == 770
    assert limit(3, 10_500, 30, nothing) == 760, "no more than went there since, as who was there before is idle"
    busy = Part(300 * page, 0, 64 * page, 5_000)
    assert limit(4, 10_500, 30, busy) == 760, "the pages of jobs are another matter"
    assert limit(3 + RETURNS, 10_500, 30, busy) == 790, "for a while nobody has fetched any"
    assert limit(4 + RETURNS, 0, 30, busy) == 790, "a job's pages, counted late"


def test_what_the_owner_leaves_to_jobs_is_theirs_whatever_local_tasks_need() -> None:
    room = Room()
    assert look(room, 0, sample(300), Part(0), share=0.5) == 640
    assert look(room, 1, sample(900), Part(0), share=0.5) == 640
    assert look(Room(), 0, sample(900), Part(0), share=0.5) == 890


def test_the_limit_follows_the_need_of_the_moment() -> None:
    room = Room()
    assert room.look(0, sample(500), Part(0)) == (490, 490)
    assert room.look(1, sample(300), Part(0)) == (291, 291), "the last pages are nobody's"
    assert room.look(2, sample(450), Part(0)) == (290, 440), "the local task has gone, and may come back"
    assert room.look(3, sample(450), Part(0), share=0.5) == (640, 640)


def test_the_reserve_is_small_where_most_memory_is_locked() -> None:
    assert Room().look(0, sample(64), Part(0)) == (62, 62)
    assert Room().look(0, sample(32), Part(32)) == (62, 62)
