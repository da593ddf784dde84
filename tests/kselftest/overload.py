#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Overload: the verdict while a real working set does not fit; and the order by pages on swap."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path

from ctl.kernel.cgroups import PARENT
from ctl.kernel.sysinfo import fault_probability
from tests.kselftest import ktap
from tests.kselftest.command import agent, asked
from tests.kselftest.node import Recorder, job, loaded, mismatches, room, spawned

_ROOM = 240 << 20  # bytes

_SPIN = "held = bytearray(b'x') * (32 << 20)\nprint('held', flush=True)\nwhile True: pass"


def _needs_swap() -> None:
    if "\n/dev" not in Path("/proc/swaps").read_text():
        raise ktap.Skip("needs swap: vm/run --swap 512:8")


def overload_is_seen() -> None:
    """A working set larger than memory turns overload on by itself; its end turns it off."""
    _needs_swap()
    with room(_ROOM) as available, agent(), spawned("ctl", "run", "--job", "m", "--", *_hog(available * 130 // 100)):
        ktap.until(lambda: asked("status")["overload"]["verdict"], "overload on", 60)
        ktap.note(asked("status")["overload"]["why"])
        ktap.until(lambda: max(_delays()) > 0, "taskstats tells of waiting for pages from swap", 60)
        (PARENT / "m" / "cgroup.kill").write_text("1")
        ktap.until(lambda: not asked("status")["overload"]["verdict"], "overload off", 30)


def _hog(size: int) -> tuple[str, ...]:
    """A command that uses so many bytes all the time, in two processes."""
    return ("stress-ng", "--vm", "2", "--vm-bytes", str(size), "--vm-keep", "--vm-method", "incdec")


def _delays() -> list[float]:
    """How long each task of the job has waited for pages from swap, ms."""
    return [row["swapin_ms"] or 0.0 for row in asked("tasks", "--job", "m")] or [0.0]


def fewer_pages_on_swap_go_ahead() -> None:
    """flt=probability: FLT is the per mille of a process's pages on swap; a process with fewer overtakes"""
    _needs_swap()
    spin = (sys.executable, "-c", _SPIN)
    with (
        loaded(observe=("sockets", "faults"), overload="on", flt="probability") as scheduler,
        job("away") as away,
        job("here") as here,
        spawned(*spin, cgroup=away, cpu=0) as swapped,
        spawned(*spin, cgroup=here, cpu=0) as resident,
    ):
        _held(swapped, resident)
        with contextlib.suppress(BlockingIOError):  # not all of it could be pushed out
            (away / "memory.reclaim").write_text("24M swappiness=max")
        with Recorder(scheduler) as recorder:
            time.sleep(2)
        expected = fault_probability(swapped.pid)
    decisions = recorder.decisions
    seen = {one["task"]["tid"]: one["task"]["flt"] for one in decisions}
    ktap.note(f"{len(decisions)} decisions, {expected} per mille of {swapped.pid} on swap, seen {seen}")
    assert expected > 400, f"only {expected} per mille were pushed out"
    assert abs(seen[swapped.pid] - expected) < 30, f"seen {seen[swapped.pid]}, /proc says {expected}"
    ktap.expect(seen[resident.pid], 0, "FLT of the job that is all in memory")
    passed = {one["task"]["tid"] for one in decisions if swapped.pid in one["overtaken"]}
    ktap.expect(resident.pid in passed, True, f"the resident job overtakes the swapped one ({passed} did)")
    overtook = [one for one in decisions if one["task"]["tid"] == swapped.pid and resident.pid in one["overtaken"]]
    ktap.expect(overtook, [], "overtakes by the swapped job")
    ktap.expect(mismatches(decisions[:200]), [], "decisions that differ from the reference")


def _held(*spinners: subprocess.Popen[str]) -> None:
    """Wait until each has its memory."""
    for spinner in spinners:
        assert spinner.stdout
        spinner.stdout.readline()


if __name__ == "__main__":
    ktap.run(overload_is_seen, fewer_pages_on_swap_go_ahead)
