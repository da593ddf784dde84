#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The agent's sensors: on, off and on again, and CPUs that go and come meanwhile."""

from __future__ import annotations

import time
from pathlib import Path

from tests.kselftest import ktap
from tests.kselftest.command import agent, asked, ctl
from tests.kselftest.node import online, state


def sensors_live() -> None:
    """Sensors go off and on again while the scheduler runs, and survive a CPU that goes and comes."""
    began = time.monotonic()
    with agent(sensors=True):
        ktap.note(f"load with sensors took {time.monotonic() - began:.1f} s")
        ktap.expect(asked("status")["sensors"]["state"], "on", "sensors after load")
        ctl("set", "sensors=off")
        ktap.expect(asked("status")["sensors"]["state"], "off", "sensors after sensors=off")
        ctl("set", "sensors=on")
        ktap.expect(asked("status")["sensors"]["state"], "on", "sensors after sensors=on")
        if Path("/sys/devices/system/cpu/cpu1/online").exists():
            with online(1, False):
                ktap.expect(state(), "enabled", "sched_ext state with CPU 1 offline")
                asked("status")
        ktap.expect(asked("status")["sensors"]["state"], "on", "sensors after CPU 1 came back")


if __name__ == "__main__":
    ktap.run(sensors_live)
