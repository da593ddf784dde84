# SPDX-License-Identifier: GPL-2.0-or-later
"""Holds the scheduler, or single sensors, without agent and command line, until standard input ends.

    python3 -m tests.bench.hold [--scheduler] [--sensor NAME]… [KNOB=VALUE…]

The cost of an observation is measured with one sensor under the kernel's own scheduler. The program also loads the
object in a second, for work on the object.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path

from ctl import policy
from ctl.kernel import knobs
from ctl.kernel.cgroups import JobCgroups
from ctl.kernel.scheduler import Scheduler
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
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        if options.sensor:
            from ctl.kernel.sensors import Sensors  # bcc takes a second to import

            sensors = Sensors()
            stack.callback(sensors.stop)
            sensors.start(options.sensor)
        if options.scheduler:
            stack.enter_context(_load(options.knobs))
        print("attached", flush=True)
        sys.stdin.buffer.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
