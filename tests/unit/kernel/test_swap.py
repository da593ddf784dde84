# SPDX-License-Identifier: GPL-2.0-or-later
"""What the devices of swap tell."""

from __future__ import annotations

import os

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
