# SPDX-License-Identifier: GPL-2.0-or-later
"""How a job's memory goes out to swap and comes back, and how long a local task waits for a page meanwhile.

    vm/run --icount --cpus 1 --memory 512 -- python3 -m tests.experiments.exchange_guest [--mb 32] [--depth 1]

Swap is a null_blk disk that serves `--depth` requests at once, each in 2 ms. A job fills its memory, in the order of
addresses or at random, is frozen and pushed out. It comes back in one of four ways, and then reads all of it:

    faults    thawed at once; each page comes when it is asked for, with the kernel's read-ahead
    address   MADV_WILLNEED over its memory in the order of addresses, 4 MB at a time, then thawed (as Pools does, which
              thaws first)
    noted     the same over the pages that were resident when it was frozen (ioctl PAGEMAP_SCAN)
    device    MADV_WILLNEED over these pages in the order of their places on the device (/proc/PID/pagemap), then thawed

Each result is a line of JSON; seconds are per 100 MB. results/exchange.jsonl has them below a line with the command.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from ctl.kernel import paging
from ctl.kernel.cgroups import JobCgroups
from ctl.node.pools import Pools
from tests.experiments.disk import Disk

MB: Final = 1 << 20
PAGE: Final = 4096
_SCAN: Final = 0xC0606610  # PAGEMAP_SCAN of linux/fs.h: _IOWR('f', 16, struct pm_scan_arg), which has 12 words
_FILE, _PRESENT, _ZERO = 1 << 2, 1 << 3, 1 << 5  # PAGE_IS_*
_REGIONS: Final = 512  # of one call
_TOP: Final = (1 << 47) - 4096  # of addresses
_SWAPPED, _PLACE = 1 << 62, (1 << 55) - 1  # of an entry of /proc/PID/pagemap
_MADVISE, _WILLNEED, _MOST = 440, 3, 512  # process_madvise, its advice, ranges of one call

_HOLD = """
import mmap, random, select, sys, time
size, order, pause = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
sys.stdin.readline()
memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_NOHUGEPAGE)
pages = list(range(0, size, 4096))
shuffled = random.Random(1).sample(pages, len(pages))
for page in shuffled if order == "random" else pages:
    memory[page] = 1
print("ready", flush=True)
sys.stdin.readline()
waits = []
for page in shuffled if pause else pages:
    if pause and select.select([sys.stdin], [], [], pause)[0]:
        break
    began = time.monotonic()
    memory[page]
    waits.append(time.monotonic() - began)
print(waits if pause else sum(waits), flush=True)
sys.stdin.readline()
"""


@contextlib.contextmanager
def holding(
    cgroups: JobCgroups, jid: str, size: int, order: str, pause: float = 0.0
) -> Iterator[subprocess.Popen[str]]:
    """A job that has filled so many bytes, and reads them when it is told `go`."""
    command = [sys.executable, "-c", _HOLD, str(size), order, str(pause)]
    job = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    try:
        cgroups.enter(jid, job.pid)
        tell(job, "fill")
        said(job)
        yield job
    finally:
        cgroups.thaw(jid)
        job.kill()
        job.wait()
        while not cgroups.remove(jid):
            time.sleep(0.01)


def tell(job: subprocess.Popen[str], word: str) -> None:
    assert job.stdin is not None
    job.stdin.write(f"{word}\n")


def said(job: subprocess.Popen[str]) -> str:
    assert job.stdout is not None
    return job.stdout.readline()


def push_out(cgroups: JobCgroups, jid: str, disk: Disk, piece: int, wait: bool) -> None:
    """Reclaim a frozen job piece by piece, as Pools does if no piece is told; `wait` until each is written."""
    if not piece:
        pools = Pools(cgroups)
        pools.stop(jid)
        while not pools.exchange_s:
            time.sleep(0.001)
        return
    while (left := cgroups.memory(jid).resident) > 2 * MB:
        with contextlib.suppress(OSError):  # not all of it
            (cgroups.path(jid) / "memory.reclaim").write_text(str(min(piece, left)))
        if wait:
            disk.settle()
        if cgroups.memory(jid).resident >= left:
            break


def resident(pid: int) -> list[tuple[int, int]]:
    """Address and size of the ranges of a process's anonymous pages in memory."""
    found = []
    descriptor = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY)
    try:
        at = 0
        while at < _TOP:
            regions = (ctypes.c_uint64 * (3 * _REGIONS))()
            masks = (_FILE | _ZERO, _PRESENT | _FILE | _ZERO, 0, _PRESENT)
            words = (96, 0, at, _TOP, 0, ctypes.addressof(regions), _REGIONS, 0, *masks)
            argument = bytearray(struct.pack("12Q", *words))
            count = fcntl.ioctl(descriptor, _SCAN, argument)
            found += [(regions[3 * i], regions[3 * i + 1] - regions[3 * i]) for i in range(count)]
            (at,) = struct.unpack_from("Q", argument, 32)
    finally:
        os.close(descriptor)
    return found


def by_place(pid: int, ranges: list[tuple[int, int]]) -> list[int]:
    """The addresses of pages in swap, in the order of the device."""
    found = []
    descriptor = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY)
    try:
        for start, size in ranges:
            entries = struct.unpack(f"{size // PAGE}Q", os.pread(descriptor, size // PAGE * 8, start // PAGE * 8))
            found += [(entry & _PLACE, start + i * PAGE) for i, entry in enumerate(entries) if entry & _SWAPPED]
    finally:
        os.close(descriptor)
    return [address for _, address in sorted(found)]


def will_need(pid: int, addresses: list[int]) -> None:
    """Make the kernel read these pages, in this order."""
    libc, descriptor = ctypes.CDLL(None, use_errno=True), os.pidfd_open(pid)
    try:
        for first in range(0, len(addresses), _MOST):
            part = addresses[first : first + _MOST]
            ranges = ctypes.create_string_buffer(b"".join(struct.pack("PN", address, PAGE) for address in part))
            words = (descriptor, ranges, ctypes.c_size_t(len(part)), _WILLNEED, 0)
            if libc.syscall(ctypes.c_long(_MADVISE), *words) < 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(descriptor)


def read_back(pid: int, how: str, noted: list[tuple[int, int]]) -> None:
    if how == "device":
        will_need(pid, by_place(pid, noted))
    elif how == "noted":
        for start, size in noted:
            for at in range(start, start + size, 4 * MB):
                paging.will_need(pid, [(at, min(4 * MB, start + size - at))])
    elif how != "faults":
        for portion in paging.portions(pid, 4 * MB, set()):
            paging.will_need(pid, portion.spans)


def exchange(cgroups: JobCgroups, disk: Disk, size: int, order: str, how: str) -> dict[str, Any]:
    """Out and back once."""
    hundred = 100 * MB / size
    with holding(cgroups, "x", size, order) as job:
        cgroups.freeze("x")
        began = time.monotonic()
        noted = resident(job.pid)
        note = time.monotonic() - began
        push_out(cgroups, "x", disk, 16 * MB, False)
        disk.settle()
        out, swapped = time.monotonic() - began - note, cgroups.memory("x").swapped
        began = time.monotonic()
        read_back(job.pid, how, noted)
        disk.settle()
        read = time.monotonic() - began
        cgroups.thaw("x")
        tell(job, "go")
        said(job)
        back = time.monotonic() - began
    seconds = {"note_s": note, "out_s": out, "read_s": read, "back_s": back}
    sizes = {"noted_mb": sum(size for _, size in noted) // MB, "swapped_mb": swapped // MB}
    return {"filled": order, "how": how, **sizes, **{name: round(hundred * one, 3) for name, one in seconds.items()}}


def waits(cgroups: JobCgroups, disk: Disk, size: int, piece: int, wait: bool) -> dict[str, Any]:
    """How long a local task waits for each of its own pages while a job is pushed out."""
    with holding(cgroups, "local", 16 * MB, "random", 0.01) as local:
        cgroups.freeze("local")
        push_out(cgroups, "local", disk, 4 * MB, True)
        cgroups.thaw("local")
        with holding(cgroups, "x", size, "address"):
            cgroups.freeze("x")
            tell(local, "go")
            began = time.monotonic()
            push_out(cgroups, "x", disk, piece, wait)
            disk.settle()
            out = time.monotonic() - began
            tell(local, "stop")
            found = sorted(1000 * one for one in json.loads(said(local)) if one > 0.0005)
    if not found:
        return {"piece_kb": piece >> 10, "wait": wait, "reads": 0}
    figures = {"median_ms": found[len(found) // 2], "p99_ms": found[int(0.99 * len(found))], "worst_ms": found[-1]}
    seconds = {"out_s": out * 100 * MB / size, **figures}
    return {"piece_kb": piece >> 10, "wait": wait, "reads": len(found)} | {k: round(v, 2) for k, v in seconds.items()}


def main() -> int:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=32)
    parser.add_argument("--depth", type=int, default=1)
    options = parser.parse_args()
    disk, cgroups = Disk(options.depth), JobCgroups()
    cgroups.prepare()
    for order in ("address", "random"):
        for how in ("faults", "address", "noted", "device"):
            print(json.dumps(exchange(cgroups, disk, options.mb * MB, order, how)), flush=True)
    scheduler = disk.path / "queue/scheduler"
    for name in ("none", "mq-deadline"):
        with contextlib.suppress(OSError):
            scheduler.write_text(name)
        for piece, wait in ((0, True), (16 * MB, False), (MB, False), (MB, True), (MB // 4, True)):
            row = waits(cgroups, disk, options.mb * MB, piece, wait)
            print(json.dumps({"scheduler": scheduler.read_text().strip(), **row}), flush=True)
    cgroups.dissolve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
