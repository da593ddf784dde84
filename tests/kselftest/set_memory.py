#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Set_Memory: of two jobs that do not fit together beside a local user the larger is stopped; a job that fits is
safe."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import Any, Final

from ctl.kernel import sysinfo
from ctl.kernel.cgroups import PARENT, JobCgroups
from tests.kselftest import ktap
from tests.kselftest.command import agent, asked, ctl
from tests.kselftest.node import room, spawned

_EPOCH_S = 2.0
_ROOM: Final = 240 << 20  # bytes: the agent is a small part of it, and it is exchanged in seconds


def _needs_swap() -> None:
    if "\n/dev" not in Path("/proc/swaps").read_text():
        raise ktap.Skip("needs swap: vm/run --swap 512")


def _stress(size: int) -> tuple[str, ...]:
    """A command that uses this many bytes all the time."""
    return ("stress-ng", "--vm", "1", "--vm-bytes", str(size), "--vm-keep", "--vm-method", "incdec", "--quiet")


def _job(jid: str, size: int) -> tuple[str, ...]:
    return ("ctl", "run", "--job", jid, "--", *_stress(size))


def _contract() -> Any:
    return asked("status")["contract"]


def _paged(seconds: float, pages: int = 0) -> float:
    """Pages read from swap per second, from now on: for at least this time, and until this many pages."""
    first, began = sysinfo.vmstat()["pswpin"], time.monotonic()
    time.sleep(seconds)
    ktap.until(lambda: sysinfo.vmstat()["pswpin"] - first >= pages, f"{pages} pages are read from swap", 60)
    return (sysinfo.vmstat()["pswpin"] - first) / (time.monotonic() - began)


def larger_is_stopped_and_goes_on() -> None:
    """The job with the largest RMS stops, its memory goes out, the other pages less; it goes on without the user."""
    _needs_swap()
    groups = JobCgroups()
    with room(_ROOM) as available, contextlib.ExitStack() as stack:
        # The smaller fits into its half of the room. Together they are more than the room and what programs that idle
        # can give up; so different that the larger has more resident while both page.
        small, large = available * 45 // 100, available * 120 // 100
        knobs = f"epoch_ms={_EPOCH_S * 1000:.0f}", "local_user=off", f"memory_mb={_ROOM >> 20}"
        stack.enter_context(agent(*knobs, policy="poly"))
        stack.enter_context(spawned(*_job("small", small)))
        stack.enter_context(spawned(*_job("large", large)))
        ktap.until(lambda: sum(map(sum, map(groups.memory, groups.jids()))) > 0.95 * (small + large), "they grew", 120)
        # in bursts: while the one that pages less has the CPU, none may come back for seconds
        before = _paged(2 * _EPOCH_S, pages=800)
        ktap.note(f"{before:.0f} pages/s read from swap with both running")
        ktap.expect(_contract()["memory"]["stopped"], [], "stopped, with nobody there")
        low = int((PARENT / "memory.low").read_text())
        ktap.expect(low, _ROOM // 2, "protected for jobs")
        # now: on a slow host it is stopped, and what swap has room for gone, before the command returns
        resident = groups.memory("large")[0]
        began = time.monotonic()
        ctl("set", "local_user=on")
        ktap.until(lambda: (PARENT / "large" / "cgroup.freeze").read_text() == "1\n", "the larger is stopped", 40)
        ktap.note(f"stopped {time.monotonic() - began:.1f} s after the command was given, an epoch is {_EPOCH_S:g} s")
        ktap.until(lambda: groups.memory("large")[0] < max(resident * 3 / 4, large / 10), "its memory goes out", 60)
        ktap.note(f"resident {resident >> 20} MiB before, then {groups.memory('large')[0] >> 20} MiB")
        memory = _contract()["memory"]
        ktap.note(str(memory))
        ktap.expect((PARENT / "small" / "cgroup.freeze").read_text(), "0\n", "the smaller frozen")
        # the smaller first reads back what it lost to the larger: as fast as the disk allows, and then no more
        ktap.until(lambda: _paged(_EPOCH_S) < before / 2, f"CCS-42: less than {before / 2:.0f} pages/s come back", 60)
        ctl("set", "local_user=off")
        ktap.until(lambda: (PARENT / "large" / "cgroup.freeze").read_text() == "0\n", "the larger goes on", 30)
        ktap.until(lambda: (PARENT / "memory.high").read_text() == "max\n", "nor are jobs held to a limit", 30)
        ctl("set", "memory_mb=0")
        half = sysinfo.meminfo()["MemTotal"] // 2 // 4096 * 4096
        ktap.until(lambda: (PARENT / "memory.low").read_text() == f"{half}\n", "half of all memory is protected", 30)
        ctl("set", "memory_mb=96")
        ktap.until(lambda: (PARENT / "memory.low").read_text() == f"{48 << 20}\n", "half of 96 MB is protected", 30)


def pool_is_guaranteed() -> None:
    """A job within its pool keeps its pages, though it sleeps and local tasks need more than all other memory."""
    _needs_swap()
    groups = JobCgroups()
    with room(_ROOM) as available, contextlib.ExitStack() as stack:
        size = available // 4
        holder = (sys.executable, "-c", f"import time; m = bytearray(b'x') * {size}; time.sleep(1000)")
        knobs = "local_user=off", "epoch_ms=300", f"memory_mb={_ROOM >> 20}"
        stack.enter_context(agent(*knobs, policy="poly"))
        stack.enter_context(spawned("ctl", "run", "--job", "kept", "--", *holder))
        ktap.until(lambda: "kept" in groups.jids() and groups.memory("kept")[0] > size, "it has its memory", 30)
        ktap.until(lambda: int((PARENT / "kept" / "memory.min").read_text()) > size, "it is guaranteed", 20)
        out = sysinfo.vmstat()["pswpout"]
        with spawned(*_stress(available)):
            ktap.until(lambda: (sysinfo.vmstat()["pswpout"] - out) * 4096 > size // 2, "others are on swap", 60)
            time.sleep(3)
            swapped = groups.memory("kept")[1]
        ktap.note(f"{swapped >> 20} of {size >> 20} MiB are on swap")
        ktap.expect(swapped < size // 20, True, "nearly nothing of it is")
        ctl("set", "share_l=1")
        ktap.until(lambda: int((PARENT / "memory.low").read_text()) > _ROOM * 0.99, "all memory is the jobs'", 20)
        sure = _ROOM // 2
        ktap.expect(int((PARENT / "memory.min").read_text()), sure, "but of half of it only what is out of reach")


if __name__ == "__main__":
    ktap.run(larger_is_stopped_and_goes_on, pool_is_guaranteed)
