# SPDX-License-Identifier: GPL-2.0-or-later
"""What counts as a job's memory, by the lines of memory.stat."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctl.kernel import cgroup_memory
from ctl.kernel.cgroup_memory import memory_of

MB = 1 << 20
EMPTY = dict.fromkeys(cgroup_memory._LINES, 0)


def _cgroup(directory: Path, swapped: int = 0, **lines: int) -> Path:
    stat = EMPTY | {name: size * MB for name, size in lines.items()}
    (directory / "memory.stat").write_text("".join(f"{name} {value}\n" for name, value in stat.items()))
    (directory / "memory.swap.current").write_text(f"{swapped * MB}\n")
    return directory


@pytest.fixture(autouse=True)
def _other_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has a kernel of its own, with or without the newer lines."""
    monkeypatch.setattr(cgroup_memory, "_there", [])


def test_shared_memory_is_a_need_mapped_or_not(tmp_path: Path) -> None:
    """A file of 300 MB in /dev/shm is no mapped file, and is on the lists of anonymous pages."""
    found = memory_of(_cgroup(tmp_path, anon=10, shmem=300, inactive_anon=310))
    assert (found.resident, found.movable) == (310 * MB, 310 * MB)
    mapped = memory_of(_cgroup(tmp_path, anon=10, shmem=300, inactive_anon=310, file_mapped=320))
    assert mapped.resident == 330 * MB, "its mapping counts once, beside 20 MB of programs"


def test_what_is_locked_or_the_kernels_cannot_leave_and_caches_need_no_room(tmp_path: Path) -> None:
    found = memory_of(_cgroup(tmp_path, anon=100, unevictable=40, active_anon=60, kernel=90, slab_reclaimable=80,
                              inactive_file=500))
    assert (found.resident, found.locked, found.movable) == (110 * MB, 50 * MB, 60 * MB)
    assert found.cold == 580 * MB


def test_a_page_that_came_back_counts_once(tmp_path: Path) -> None:
    found = memory_of(_cgroup(tmp_path, swapped=50, anon=20, inactive_anon=50, swapcached=30))
    assert (found.resident, found.swapped) == (50 * MB, 20 * MB)


def test_what_zswap_has_is_in_swap_and_huge_pages_stay(tmp_path: Path) -> None:
    found = memory_of(_cgroup(tmp_path, swapped=60, anon=20, kernel=21, zswap=20, hugetlb=8))
    assert (found.resident, found.swapped, found.locked) == (29 * MB, 60 * MB, 9 * MB)
