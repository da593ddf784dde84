#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""User input: keys, mouse and terminal are seen, each as its own kind; a program's output is not."""

from __future__ import annotations

import contextlib
import os
import pty
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from ctl.kernel.observations import Input
from ctl.kernel.sensors import Sensors
from tests.kselftest.ktap import Skip, expect, run, until

_SENSORS = Sensors()
_EVENT = struct.Struct("=qqHHi")  # linux/input.h: struct input_event on a 64-bit machine
_SYN, _KEY = 0, 1
_KEY_A = 30


@contextlib.contextmanager
def _sensors() -> Iterator[Sensors]:
    _SENSORS.start({"input"})
    try:
        yield _SENSORS
    finally:
        _SENSORS.stop()


def _counts(seen: Input) -> tuple[int, int, int]:
    return seen.keys, seen.rels, seen.ttys


def keyboard() -> Path:
    """The event file of a device that has an A key."""
    for device in sorted(Path("/sys/class/input").glob("event*")):
        words = (device / "device/capabilities/key").read_text().split()
        if int(words[-1], 16) >> _KEY_A & 1:
            return Path("/dev/input") / device.name
    raise Skip("this machine has no keyboard")


def press(keyboard: Path, key: int) -> None:
    """Press and release a key of a device, which the kernel handles as a key of the driver."""
    with keyboard.open("wb", buffering=0) as device:
        for value in (1, 0):
            device.write(_EVENT.pack(0, 0, _KEY, key, value) + _EVENT.pack(0, 0, _SYN, 0, 0))


def key_press() -> None:
    """a key press is seen as input of the keyboard, with its time"""
    with _sensors() as sensors:
        before = time.monotonic_ns()
        press(keyboard(), _KEY_A)
        seen = sensors.input()
        expect(_counts(seen), (2, 0, 0), "key, mouse, terminal events of a press and a release")
        expect(before <= seen.key_ns <= time.monotonic_ns(), True, "the time is that of the press")


def nothing_is_nothing() -> None:
    """a write without input, and a key that the device does not have, do not count"""
    with _sensors() as sensors:
        press(keyboard(), 0x2FE)
        time.sleep(0.2)
        expect(sensors.input(), Input(0, 0, 0, 0, 0, 0), "input")


def terminal_input() -> None:
    """a line typed into a pty is terminal input"""
    with _sensors() as sensors:
        master, slave = pty.openpty()
        before = time.monotonic_ns()
        os.write(master, b"ls\n")
        until(lambda: sensors.input().ttys == 1, "the line was seen")
        expect(before <= sensors.input().tty_ns <= time.monotonic_ns(), True, "the time is that of the line")
        expect(_counts(sensors.input()), (0, 0, 1), "key, mouse, terminal events")
        os.close(master)
        os.close(slave)


def output_is_no_input() -> None:
    """a program's output on a pty is not input"""
    with _sensors() as sensors:
        master, slave = pty.openpty()
        os.write(slave, b"x" * 100)
        expect(len(os.read(master, 200)), 100, "bytes printed")
        expect(sensors.input(), Input(0, 0, 0, 0, 0, 0), "input")
        os.close(master)
        os.close(slave)


if __name__ == "__main__":
    run(key_press, nothing_is_nothing, terminal_input, output_is_no_input)
