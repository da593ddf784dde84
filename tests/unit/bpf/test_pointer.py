# SPDX-License-Identifier: GPL-2.0-or-later
"""What of a pointer's events is a user's."""

from __future__ import annotations

from collections.abc import Iterable

import cffi

from ctl.native import library

_native = library("pointer")
_MS = 1_000_000
_X, _Y, _WHEEL = 0, 1, 8
_MOUSE, _TOUCH, _GAMEPAD, _STYLUS = 0x1F0000, 1 << 10, 0x7FFF << 48, 1 << 0


def moved(events: Iterable[tuple[int, int, int]]) -> list[bool]:
    """Which of the events (ms, code, value) of a mouse count."""
    ffi = cffi.FFI()
    since, x, y = ffi.new("unsigned long long *"), ffi.new("int *"), ffi.new("int *")
    return [bool(_native.pointer_moved(at * _MS, code, value, since, x, y)) for at, code, value in events]


def test_a_desk_that_shakes_is_no_user() -> None:
    assert not any(moved((8 * n, n // 2 % 2, (-1) ** n) for n in range(100_000))), "to and fro, 125 times a second"
    assert not any(moved((300 * n, _X, 2) for n in range(1000))), "it creeps"


def test_a_hand_is_a_user() -> None:
    assert any(moved((8 * n, _Y, -3) for n in range(10))), "in 80 ms"
    assert any(moved((16 * n, n % 2, (-1) ** (n // 2) * 9) for n in range(10))), "in a circle"
    assert moved([(0, _WHEEL, 1)]) == [True]


def test_positions_count_of_pads_and_tablets_but_not_of_what_drifts() -> None:
    """A gamepad's stick, a joystick, a laptop's sensor of motion, which has no button."""
    assert all(_native.position_counts(*buttons) for buttons in ((_MOUSE, 0), (0, _TOUCH), (_MOUSE, _STYLUS)))
    assert not any(_native.position_counts(*buttons) for buttons in ((0, 0), (_GAMEPAD, 0), (1 << 32 | _MOUSE, 0)))
