#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Overload: decided from what memory does, while a real working set does not fit."""

from __future__ import annotations

from pathlib import Path

from ctl.kernel.cgroups import PARENT
from tests.kselftest import ktap
from tests.kselftest.command import agent, asked
from tests.kselftest.node import spawned


def overload_is_seen() -> None:
    """A working set larger than memory turns overload on by itself; its end turns it off."""
    if "\n/dev" not in Path("/proc/swaps").read_text():
        raise ktap.Skip("needs swap: vm/run --swap 512:8")
    available = _meminfo("MemAvailable")
    hog = [
        "stress-ng",
        "--vm",
        "2",
        "--vm-bytes",
        f"{available * 130 // 100 // 1024}M",  # of both together
        "--vm-keep",
        "--vm-method",
        "incdec",
    ]
    with agent(), spawned("ctl", "run", "--job", "m", "--", *hog):
        ktap.until(lambda: asked("status")["overload"]["verdict"], "overload on", 60)
        ktap.note(asked("status")["overload"]["why"])
        ktap.until(lambda: max(_delays()) > 0, "taskstats tells of waiting for pages from swap", 60)
        (PARENT / "m" / "cgroup.kill").write_text("1")
        ktap.until(lambda: not asked("status")["overload"]["verdict"], "overload off", 30)


def _delays() -> list[float]:
    """How long each task of the job has waited for pages from swap, ms."""
    return [row["swapin_ms"] or 0.0 for row in asked("tasks", "--job", "m")] or [0.0]


def _meminfo(name: str) -> int:
    """KiB."""
    text = Path("/proc/meminfo").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(name + ":"))


if __name__ == "__main__":
    ktap.run(overload_is_seen)
