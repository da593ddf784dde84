#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The maps that sensors and scheduler share, and the sensors' switches."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from ctl.errors import USAGE, CoschedError
from ctl.kernel.pins import PINS
from ctl.kernel.sensors import Sensors
from tests.kselftest.ktap import expect, run
from tests.kselftest.node import loaded

_SENSORS = Sensors()
_MAPS = ("obs", "socks", "input")


def _ids() -> set[int]:
    """Ids of the shared maps that this process holds open; it has sensors and scheduler."""
    found = set()
    for info in list(Path("/proc/self/fdinfo").iterdir()):
        text = info.read_text() if info.exists() else ""  # the directory's own is gone by now
        words = dict(line.split(":\t") for line in text.splitlines() if ":\t" in line)
        if words.get("map_type", "").strip() == "1" and words.get("max_entries", "").strip() == "65536":
            found.add(int(words["map_id"]))
    return found


def _observe_one_packet() -> None:
    """Check that one unread packet counts as one."""
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    a.send(b"x")
    seen = _SENSORS.observation(os.getpid())
    expect((seen.rcv, seen.snd) if seen else None, (1, 1), "levels with one packet queued")
    a.close()
    b.close()


def sensors_first() -> None:
    """sensors first: the scheduler takes the sensors' maps"""
    _SENSORS.start()
    try:
        with loaded():
            expect(len(_ids()), 2, "hash maps of 65536 entries open: obs and socks, shared")
            _observe_one_packet()
    finally:
        _SENSORS.stop()


def scheduler_first() -> None:
    """scheduler first: the sensors take the scheduler's maps, and again after off and on"""
    with loaded():
        for _ in range(2):
            _SENSORS.start()
            try:
                expect(len(_ids()), 2, "hash maps of 65536 entries open: obs and socks, shared")
                _observe_one_packet()
            finally:
                _SENSORS.stop(unpin=False)


def each_alone() -> None:
    """each sensor runs alone, and its observations go with it"""
    for sensor in ("faults", "sockets", "input"):
        _SENSORS.start({sensor})
        try:
            expect(_SENSORS.active, frozenset({sensor}), "sensors that run")
            a, b = socket.socketpair()
            a.send(b"x")
            expect(bool(_SENSORS.sockets()), sensor == "sockets", f"sockets known with {sensor}")
            _SENSORS.start({"input"})
            _SENSORS.stop({sensor})
            expect(_SENSORS.sockets(), {}, "sockets known after stop")
            expect(_SENSORS.observations(), {}, "observations after stop")
            a.close()
            b.close()
        finally:
            _SENSORS.stop()


def stale_is_cleared() -> None:
    """the leftovers of a killed predecessor in the pinned maps are cleared at start"""
    ready, tell = os.pipe()
    child = os.fork()
    if not child:
        _SENSORS.start({"sockets"})
        ends = socket.socketpair()
        ends[0].send(b"x")
        os.write(tell, b"%d" % len(_SENSORS.sockets()))
        signal.pause()
    os.close(tell)
    expect(os.read(ready, 8), b"2", "sockets known to the predecessor")
    os.close(ready)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    expect(all((PINS / name).exists() for name in _MAPS), True, "its pins are still there")
    with Sensors() as successor:
        successor.start({"sockets"})
        expect(successor.sockets(), {}, "sockets known after the next start")
        expect(successor.observations(), {}, "threads known after the next start")


def unknown_refused() -> None:
    """an unknown sensor is refused, and changes nothing"""
    try:
        _SENSORS.start({"faults", "temperature"})
    except CoschedError as error:
        expect(error.status, USAGE, "exit status")
        expect("temperature" in str(error) and "sockets" in str(error), True, f"value and choice are in {error}")
    else:
        raise AssertionError("it was accepted")
    expect(_SENSORS.active, frozenset(), "sensors that run")


run(sensors_first, scheduler_first, each_alone, stale_is_cleared, unknown_refused)
