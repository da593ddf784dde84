# SPDX-License-Identifier: GPL-2.0-or-later
"""The room for jobs: what local tasks need, now and in the last minutes, is not the jobs'."""

from __future__ import annotations

from typing import Any

from ctl.node.room import PEAK, Part, Room, Sample

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


def test_jobs_give_up_what_local_tasks_fetch_from_swap_without_a_gain() -> None:
    """Not what lies in swap: idle programs' pages go there, and nobody misses them."""
    page, idle, room = 4096, 100, Room()

    def limit(at: float, has: int, lacks: int, came: int, jobs: tuple[int, int] = (0, 0)) -> int:
        swapped, refaults = lacks + idle + jobs[0], 10_000 + came + jobs[1]
        seen = Sample(TOTAL * page, (TOTAL - 300 - has) * page, 0, swapped * page, refaults)
        return room.look(at, seen, Part(300 * page, 0, jobs[0] * page, jobs[1])).limit // page

    whole = TOTAL - 10
    assert limit(0, has=400, lacks=60, came=0) == whole - 400, "pages came back before"
    assert limit(1, has=400, lacks=60, came=40) == whole - 440, "40 came, and 40 others went"
    assert limit(1, has=400, lacks=60, came=70, jobs=(64, 0)) == whole - 470
    assert limit(1, has=400, lacks=60, came=70, jobs=(64, 500)) == whole - 470, "jobs fetch theirs"
    assert limit(1, has=420, lacks=40, came=90) == whole - 470, "room was made: what comes back stays"
    assert limit(1, has=460, lacks=0, came=130) == whole - 470, "of the missing 50, 40 are there"
    assert limit(6, has=460, lacks=0, came=130) == whole - 465, "half is forgotten"
    assert limit(7, has=460, lacks=0, came=900, jobs=(64, 500)) == whole - 460 - idle, "no more than is in swap"
    assert limit(7, has=100, lacks=0, came=900, jobs=(64, 500)) == whole - 100 - idle, "the task has gone"
    assert limit(999, has=100, lacks=0, came=0) == whole - 100, "pages of jobs, counted late"


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
