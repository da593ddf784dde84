# SPDX-License-Identifier: GPL-2.0-or-later
"""What the devices of swap tell."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ctl.kernel import swap

HEAD = "Filename Type Size Used Priority\n"


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The files that there are, by path; /dev/null, number 1:3, is the device of swap."""
    found: dict[str, str] = {}

    def read(path: str) -> str:
        if path not in found:
            raise FileNotFoundError(path)
        return found[path]

    monkeypatch.setattr(swap, "read", read)
    return found


def test_a_kernel_without_swap(files: dict[str, str]) -> None:
    assert (swap.read_s(), swap.writes()) == (0.0, 0)
    files["/proc/swaps"] = HEAD
    assert (swap.read_s(), swap.writes()) == (0.0, 0)


def test_all_devices_are_added_up(files: dict[str, str]) -> None:
    files["/proc/swaps"] = HEAD + f"{os.devnull} partition 1 0 -2\n" * 2
    files["/sys/dev/block/1:3/stat"] = "5 0 40 1500 9 9 9 9 9 9 9"
    files["/sys/dev/block/1:3/inflight"] = "       4        3"
    assert (swap.read_s(), swap.writes()) == (3.0, 6)


def test_a_file_tells_nothing_and_keeps_nobody_waiting(files: dict[str, str]) -> None:
    files["/proc/swaps"] = HEAD + "/swapfile file 1 0 -2\n"
    assert (swap.read_s(), swap.writes()) == (None, 0)


MB = 1 << 20


def _areas(files: dict[str, str], *areas: tuple[str, int, int], zram: int | None = None) -> None:
    """Areas of swap by path, MB used and priority; the device of /dev/null is zram with so many MB of memory."""
    lines = [f"{path} partition {1 << 20} {used * 1024} {priority}\n" for path, used, priority in areas]
    files["/proc/swaps"] = HEAD + "".join(lines)
    if zram is not None:
        files["/sys/dev/block/1:3/mm_stat"] = f"{400 * MB} {90 * MB} {zram * MB} 0 0 0 0 0 0"


def test_a_disk_keeps_nothing_in_memory(files: dict[str, str]) -> None:
    assert swap.kept() == (0.0, 0.0)
    _areas(files, ("/dev/nodisk", 300, -2))
    assert swap.kept() == (0.0, 0.0)


def test_what_zram_keeps_is_measured_once_it_has_something(files: dict[str, str]) -> None:
    _areas(files, (os.devnull, 400, 100), zram=100)
    assert swap.kept() == (0.25, 0.0)
    _areas(files, (os.devnull, 200, 100), ("/dev/nodisk", 200, -2), zram=100)
    assert swap.kept().all == 0.25, "of each byte in swap, wherever it is"
    _areas(files, (os.devnull, 1, 100), zram=1)
    assert swap.kept().zram == 0.5, "a guess"
    _areas(files, (os.devnull, 0, -2), ("/dev/nodisk", 0, 5), zram=0)
    assert swap.kept().zram == 0.0, "the next page goes to the disk"


def test_zswap_is_charged_to_its_job(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    files["/sys/module/zswap/parameters/enabled"] = "Y\n"
    monkeypatch.setattr(swap, "memory", lambda *_names: [30 * MB])
    _areas(files, ("/dev/nodisk", 120, -2))
    assert swap.kept() == (0.0, 0.25)


def test_no_more_goes_to_swap_than_a_limit_above_the_job_allows(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swap, "memory", lambda *_names: [500 * MB])
    root, job = Path("/cg"), Path("/cg/cosched/a")
    files |= {f"{job}/memory.swap.max": "max\n", f"{job.parent}/memory.swap.max": "max\n"}
    assert swap.free(job, root) == 500 * MB
    files |= {f"{job.parent}/memory.swap.max": f"{100 * MB}\n", f"{job.parent}/memory.swap.current": f"{30 * MB}\n"}
    assert swap.free(job, root) == 70 * MB
    files[f"{job}/memory.swap.max"], files[f"{job}/memory.swap.current"] = "0\n", "0\n"
    assert swap.free(job, root) == 0, "sites forbid swap"
