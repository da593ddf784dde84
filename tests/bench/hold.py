# SPDX-License-Identifier: GPL-2.0-or-later
"""Holds the scheduler, or single sensors, without agent and command line, until standard input ends.

    python3 -m tests.bench.hold [--scheduler] [--sensor NAME]… [--form FORM] [--every-kind] [KNOB=VALUE…]

The cost of an observation is measured with one sensor under the kernel's own scheduler. The program also loads the
object in a second, for work on the object.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import sys
from pathlib import Path

from ctl import policy
from ctl.kernel import knobs
from ctl.kernel.cgroups import JobCgroups
from ctl.kernel.scheduler import Scheduler
from ctl.kernel.sensors import Sensors
from ctl.kernel.sockets import FORMS
from ctl.policy import values as knob_values

__all__ = ["main"]


def _load(settings: list[str]) -> Scheduler:
    values = {**policy.defaults(), "sensors": "off", **knob_values.parse_assignments(settings)}
    jobs = JobCgroups()
    jobs.prepare()
    return Scheduler.load(Path(os.environ["COSCHED_BPF_DIR"]) / "cosched.bpf.o", knobs.encode(values, "csm"),
                          jobs_cgid=jobs.cgid, jobs_level=jobs.level, watchdog_ms=int(str(values["watchdog_ms"])))


def main() -> int:
    """Load what the command line says, print "attached", and wait."""
    parser = argparse.ArgumentParser(prog="hold")
    parser.add_argument("--scheduler", action="store_true")
    parser.add_argument("--sensor", action="append", default=[])
    parser.add_argument("knobs", nargs="*", metavar="KNOB=VALUE")
    parser.add_argument("--form", choices=FORMS, default=FORMS[0])
    parser.add_argument("--every-kind", action="store_true")
    options = parser.parse_args()
    sensors: Sensors | None = None
    with contextlib.ExitStack() as stack:
        if options.sensor:
            sensors = Sensors(form=options.form, every_kind=options.every_kind)
            stack.callback(sensors.stop)
            sensors.start(options.sensor)
        if options.scheduler:
            stack.enter_context(_load(options.knobs))
        print("attached", flush=True)
        while sensors is not None and select.select([sys.stdin, sensors.signal_fd()], [], [])[0] != [sys.stdin]:
            sensors.attend()
        sys.stdin.buffer.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
