#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The maps that sensors and scheduler share, and the sensors' switches."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from ctl.errors import USAGE, CoschedError
from ctl.kernel.layout import ffi
from ctl.kernel.pins import PINS, map_id
from ctl.kernel.scheduler import Scheduler
from ctl.kernel.sensors import Sensors
from tests.kselftest.ktap import expect, run
from tests.kselftest.node import in_job, loaded

_SENSORS = Sensors(every_kind=True)
_MAPS = ("obs", "socks", "sensed")
_MANY = 100_000


def _shared(scheduler: Scheduler) -> list[str]:
    """The names of the maps that sensors and scheduler share."""
    theirs, ours = scheduler._object.maps, _SENSORS._sockets._map
    return [name for name in _MAPS if name in theirs and map_id(theirs[name].fd) == map_id(ours(name).fd)]


def _observe_one_packet() -> None:
    """Check that one unread packet counts as one."""
    with in_job("maps"):
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
        with loaded() as scheduler:
            expect(_shared(scheduler), ["obs", "socks"], "maps that both use")
            _observe_one_packet()
    finally:
        _SENSORS.stop()


def scheduler_first() -> None:
    """scheduler first: the sensors take the scheduler's maps, and again after off and on"""
    with loaded() as scheduler:
        for _ in range(2):
            _SENSORS.start()
            try:
                expect(_shared(scheduler), ["obs", "socks"], "maps that both use")
                _observe_one_packet()
            finally:
                _SENSORS.stop(unpin=False)


def each_alone() -> None:
    """each sensor runs alone, and its observations go with it"""
    for sensor in ("faults", "sockets", "input"):
        _SENSORS.start({sensor})
        try:
            expect(_SENSORS.active, frozenset({sensor}), "sensors that run")
            with in_job("alone"):
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
        with in_job("dies"):
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


def many_of_no_job() -> None:
    """A program of no job that opens 100,000 sockets fills no map, and jobs are observed as before"""
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * _MANY, 2 * _MANY))
    _SENSORS.start({"sockets"})
    opened: list[int] = []
    try:
        known = (len(_SENSORS.sockets()), len(_SENSORS.observations()))
        while len(opened) < _MANY:
            ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            ends[0].send(b"x")
            ends[1].recv(1)
            opened += [end.detach() for end in ends]
        expect((len(_SENSORS.sockets()), len(_SENSORS.observations())), known, "sockets and threads known")
        expect(_SENSORS.sensed()[:2], (0, 0), "threads and sockets that were not observed")
        _observe_one_packet()
    finally:
        for descriptor in opened:
            os.close(descriptor)
        _SENSORS.stop()


def full_is_counted() -> None:
    """A thread without a place in the full map is counted; the kernel's second look removes dead threads"""
    _SENSORS.start({"sockets"})
    filled = 0
    try:
        record = bytes(ffi.sizeof("struct obs"))
        threads = _SENSORS._sockets._map("obs")
        with contextlib.suppress(OSError):  # as much as there is room
            for tid in range(1 << 22, (1 << 22) + 70_000):  # numbers that no thread can have
                threads.update(tid.to_bytes(4, "little"), record)
                filled += 1
        expect(60_000 < filled < 70_000, True, f"records until the map was full: {filled}")
        with in_job("full"), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM):
            expect(_SENSORS.sensed().lost_threads > 0, True, "threads that were not observed")
            expect(_SENSORS.observation(os.getpid()), None, "the observation of this thread")
        _SENSORS.look_for_dead()
        expect(len(_SENSORS.observations()) < 100, True, "threads known after a second look")
        _observe_one_packet()
    finally:
        _SENSORS.stop()


run(
    sensors_first, scheduler_first, each_alone, stale_is_cleared, unknown_refused,
    many_of_no_job, full_is_counted)  # fmt: skip
