#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""No drift: after many messages over every protocol each count is back at 0 and no map entry is left.

The sockets are shared by threads, passed to another process, closed with data in them, and their owner is killed.
Usage: sensor_messages.py [COUNT [PROTOCOL...]], messages for each protocol; 10^6 with KSELFTEST_FULL=1, else 5,000.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from ctl.kernel.observations import Socket
from ctl.kernel.sensors import Sensors
from tests.kselftest.ktap import expect, note, program, run, until
from tests.kselftest.node import in_job, sensing

_COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000 if os.environ.get("KSELFTEST_FULL") == "1" else 5_000
_PROTOCOLS = sys.argv[2:] or ("tcp", "tcp6", "udp", "udp6", "stream", "dgram", "seqpacket")
_ROUNDS = 10


def _alive(tid: int) -> bool:
    return Path(f"/proc/{tid}").exists()


def _left(sensors: Sensors, known: set[int]) -> dict[int, Socket]:
    """Sockets not known from before; they get 30 s to go, because RCU destroys them and TCP may linger."""
    for _ in range(300):
        left = {address: seen for address, seen in sensors.sockets().items() if address not in known}
        if not left:
            break
        time.sleep(0.1)
    return left


def _forgotten(sensors: Sensors, lost_before: int) -> None:
    """No record of an ended thread is left, but one whose end was a lost event: the second look removes that."""
    dead = [tid for tid in sensors.observations() if not _alive(tid)]
    lost = sensors.missed() - lost_before
    expect(len(dead) <= lost, True, f"ended threads {dead} are known, and no more than {lost} events were lost")
    if dead:
        note(f"the end of {dead} was not seen: their records go at the second look")
        sensors.look_for_dead()
        expect([tid for tid in sensors.observations() if not _alive(tid)], [], "ended threads known after it")


def _no_drift(sensors: Sensors, protocol: str) -> None:
    """Send the messages; then no count and no entry may be left."""
    known, counted, lost = set(sensors.sockets()), sensors.sensed(), sensors.missed()
    command = [program("messages"), protocol, str(_COUNT), str(_ROUNDS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        expect(process.stdout.readline(), "done\n", "the program's answer")
        expect(_left(sensors, known), {}, "sockets left")
        expect(sensors.sensed(), counted, "sockets of each kind that count, and what was not observed")
        seen = sensors.observation(process.pid)
        assert seen, "nothing is known of the program's main thread"
        note(f"{protocol}: {_COUNT} messages, main thread {seen}")
        expect((seen.rcv, seen.snd, seen.socks), (0, 0, 0), "levels and sockets of the main thread")
        expect(seen.arrived > 0, True, "something arrived for the main thread")
        _forgotten(sensors, lost)
        for tid, other in sensors.observations().items():
            expect(other.rcv >= 0 and other.snd >= 0, True, f"levels of thread {tid}, {other}, are not negative")
    expect(process.returncode, 0, "the program's exit status")
    until(lambda: sensors.observation(process.pid) is None, "the program is forgotten")
    note(f"{protocol}: {sensors.missed()} events fell into another's time")


def _test(protocol: str) -> Callable[[], None]:
    def body() -> None:
        with sensing("sockets") as sensors, in_job("messages"):
            _no_drift(sensors, protocol)

    body.__doc__ = f"{protocol}: no count and no entry is left of {_COUNT} messages"
    return body


run(*map(_test, _PROTOCOLS))
