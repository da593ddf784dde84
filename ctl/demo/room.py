# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparable measurements in little memory: the same room at the start, and pages on the swap device alone.

Idle programs are pushed out to swap, program files are locked in memory, and all memory but the room is held.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from ctl.kernel.cgroups import ROOT
from ctl.kernel.prompt import COMPILER
from ctl.kernel.sysinfo import vmstat
from ctl.protocol import Client, NotRunning

__all__ = [
    "COUNTERS",
    "child",
    "counters",
    "find_locked",
    "kb_of",
    "meminfo",
    "push_out",
    "read_ahead",
    "settled",
    "warm_agent",
]

COUNTERS: Final = ("pgmajfault", "pswpin", "pswpout")
_NO_DISK: Final = ("/dev/", "/proc/", "/run/", "/sys/")
_MIN_FREE_KB: Final = 2048  # the kernel's own reserve, which MemAvailable leaves out, is 20 times that for huge pages
_PER_CPU_FRACTION: Final = 2048  # of memory: free pages a CPU keeps for itself, uncounted; by default an eighth of it
_MCL_CURRENT, _MCL_FUTURE = 1, 2
_WARM: Final = 4  # seconds: the agent sweeps its sensors and ends epochs meanwhile


@contextlib.contextmanager
def child(argv: list[str], stdout: int | IO[bytes] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program that is gone when the block ends."""
    process = subprocess.Popen(argv, stdin=None if stdout is None else subprocess.DEVNULL, stdout=stdout)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def settled(holder: Path, room_kb: int) -> Iterator[str]:
    """Hold all memory but the room, until the block ends, and yield what `holder` (progs/hold_memory.c) says."""
    _write("/proc/sys/vm/min_free_kbytes", str(_MIN_FREE_KB))
    _write("/proc/sys/vm/percpu_pagelist_high_fraction", str(_PER_CPU_FRACTION))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlockall(_MCL_CURRENT | _MCL_FUTURE) != 0:  # the measuring program takes no part in the paging
        raise OSError(ctypes.get_errno(), "mlockall")
    os.sync()
    files = sorted(_mapped_files())
    push_out()
    with child([str(holder), str(room_kb), *files], stdout=subprocess.PIPE) as holding:
        assert holding.stdout is not None
        said = holding.stdout.readline().decode().strip()
        if not said:
            raise SystemExit("hold_memory failed")
        yield said


def warm_agent() -> None:
    """Make a running agent touch the memory that it needs, so that this memory is no part of the room."""
    with contextlib.suppress(NotRunning), Client(timeout=60) as agent:
        for _ in range(_WARM):
            agent.call("view")
            agent.call("status")
            time.sleep(1)


def push_out() -> None:
    """Send unlocked memory to swap; memory used since the last time stays, and goes the next time.

    From then on nothing is read ahead: daemons that run meanwhile would have back more than what goes.
    """
    read_ahead(0)
    _reclaim("anon", "max")


def read_ahead(page_cluster: int) -> None:
    """Have a fault bring 2^page_cluster pages from swap."""
    _write("/proc/sys/vm/page-cluster", str(page_cluster))


def find_locked() -> None:
    """Drop unlocked pages of files; only then MemAvailable leaves out the locked pages (hold_memory.c)."""
    _reclaim("file", "0")


def _reclaim(kind: str, swappiness: str) -> None:
    """Reclaim as much as there is: it ends where pages come back meanwhile. From the root cgroup: from a NUMA node
    the kernel reclaims nothing while few of its pages are unmapped files."""
    kb = meminfo(f"Active({kind})") + meminfo(f"Inactive({kind})")
    with contextlib.suppress(BlockingIOError):  # "not all of it"
        _write(str(ROOT / "memory.reclaim"), f"{kb}K swappiness={swappiness}")


def _mapped_files() -> set[str]:
    """Return the files that running processes execute or map, but not what the agent has given up."""
    files = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):  # a process that ends meanwhile
            files |= {line.split(None, 5)[5] for line in maps.read_text().splitlines() if " /" in line}
    files = {name for name in files if not name.startswith(_NO_DISK) and os.path.isfile(name)}
    return {name for name in files if not os.path.basename(name).startswith(COMPILER)}


def counters() -> dict[str, int]:
    """COUNTERS, since boot."""
    return {name: value for name, value in vmstat().items() if name in COUNTERS}


def meminfo(name: str) -> int:
    """A size of /proc/meminfo, KB."""
    kb = kb_of("/proc/meminfo", name)
    assert kb is not None
    return kb


def kb_of(path: str, name: str) -> int | None:
    """Return the number behind a name in a file of /proc; None if the name is missing, or the file is gone."""
    with contextlib.suppress(OSError):
        for line in Path(path).read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1])
    return None


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
