#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The agent's sensors: on, off and on again, ready at once, and CPUs that go and come meanwhile."""

from __future__ import annotations

import time
from pathlib import Path

from tests.kselftest import ktap
from tests.kselftest.command import TIMEOUT, agent, asked, ctl, following
from tests.kselftest.node import online, spawned, state

_READY_S = 3  # emulated
_UNREAD = """
import os, socket, time
a, b = socket.socketpair()
a.send(b"x")
print(os.getpid(), flush=True)
time.sleep(3600)
"""


def sensors_live() -> None:
    """Sensors go off and on again while the scheduler runs, survive a CPU that goes and comes, and observe jobs."""
    began = time.monotonic()
    with agent(sensors=True):
        ktap.note(f"load with sensors took {time.monotonic() - began:.1f} s")
        ktap.expect(asked("status")["sensors"]["state"], "on", "sensors after load")
        ctl("set", "sensors=off")
        ktap.expect(asked("status")["sensors"]["state"], "off", "sensors after sensors=off")
        ctl("set", "sensors=on")
        ktap.until(lambda: asked("status")["sensors"]["state"] == "on", "all observe again", TIMEOUT)
        names = ("threads_unobserved", "sockets_unobserved", "socket_events_missed")
        ktap.expect([name in asked("status")["counters"] for name in names], [True] * 3, "losses are counted")
        if Path("/sys/devices/system/cpu/cpu1/online").exists():
            with online(1, False):
                ktap.expect(state(), "enabled", "sched_ext state with CPU 1 offline")
                asked("status")
        ktap.expect(asked("status")["sensors"]["state"], "on", "sensors after CPU 1 came back")
        _first_socket_of_its_kind()


def _first_socket_of_its_kind() -> None:
    """The agent observes the packets of a kind of socket soon after a job has the first socket of this kind."""
    with spawned("ctl", "run", "--job", "first", "--", "python3", "-c", _UNREAD) as job:
        assert job.stdout is not None
        tid = int(job.stdout.readline())

        def rec() -> int:
            return sum(row["rec"] or 0 for row in asked("tasks") if row["tid"] == tid)

        ktap.until(lambda: rec() == 1, "the message that it has not read is seen")


def no_compiler_is_waited_for() -> None:
    """Sockets are observed 3 s after sensors=on, emulated; page faults and user input are compiled meanwhile."""
    with agent(), following("status", "--follow") as heard:
        ctl("set", "sensors=on")
        now = asked("status")["sensors"]
        ktap.expect("sockets" in now["active"], True, f"sockets are observed at once: {now}")
        ktap.until(lambda: any(one.get("action") == "sockets" for one in heard.events()), "the agent tells", TIMEOUT)
        took = next(one["seconds"] for one in heard.events() if one.get("action") == "sockets")
        ktap.note(f"sockets were observed after {took:.1f} s, while the others were {now['state']}")
        ktap.measured(took < _READY_S, f"sockets were observed after {took:.1f} s")
        ktap.until(lambda: asked("status")["sensors"]["state"] == "on", "the others follow", TIMEOUT)


if __name__ == "__main__":
    ktap.run(sensors_live, no_compiler_is_waited_for)
