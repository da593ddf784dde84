#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Policy `fit` and memory that is not anonymous, or that cannot leave: shared memory, no swap, zram, empty mappings."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from ctl.kernel.cgroups import PARENT, JobCgroups
from ctl.kernel.sysinfo import memory
from tests.kselftest import ktap
from tests.kselftest.command import agent, asked, ctl, following
from tests.kselftest.node import ENDLESS, room, spawned

_ROOM: Final = 240 << 20  # bytes
_FILE: Final = Path("/dev/shm/kselftest-job")
_MB: Final = 1 << 20
_SETTINGS: Final = ("epoch_ms=500", "turn_s=0")
_SHARED: Final = f"""
import mmap, sys, time
size = int(sys.argv[1])
with open('{_FILE}', 'w+b') as file:
    file.truncate(size)
    m = mmap.mmap(file.fileno(), size)
for i in range(0, size, 4096):
    m[i] = 1
    if i % (4 << 20) == 0: time.sleep(0.05)
time.sleep(1e6)
"""
_ANONYMOUS: Final = """
import mmap, os, sys, time
size, random = int(sys.argv[1]) >> 20 << 20, os.urandom(1 << 20)
m = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
empty = [mmap.mmap(-1, 1 << 40, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_NORESERVE)
         for _ in range(int(sys.argv[3]))]
piece = {"random": random, "four": (random[:1024] + bytes(3072)) * 256}[sys.argv[2]]
for i in range(0, size, 1 << 20):
    m[i:i + (1 << 20)] = piece
    time.sleep(0.02)
time.sleep(1e6)
"""
_READS: Final = """
import os, sys, time
m = bytearray(int(sys.argv[1]))
for i in range(0, len(m), 4096): m[i] = 1
inodes, left = 4000, 40 << 20
for place, _, names in os.walk('/usr/lib'):
    for path in (f'{place}/{name}' for name in names[:max(0, inodes)]):
        if os.path.isfile(path) and left > 0: left -= len(open(path, 'rb').read(1 << 20))
    inodes -= len(names)
time.sleep(1e6)
"""


def _anonymous(jid: str, size: int, kind: str = "random", empty_tb: int = 0) -> tuple[str, ...]:
    """A job that fills so much memory with bytes of this kind, and sleeps; it maps so many TB beside, and uses none."""
    return "ctl", "run", "--job", jid, "--", sys.executable, "-c", _ANONYMOUS, str(size), kind, str(empty_tb)


def _queue() -> dict[str, dict[str, Any]]:
    return {one["jid"]: one for one in asked("queue")["jobs"]}


def _needs(jid: str, size: float) -> bool:
    return int(_queue().get(jid, {}).get("need", 0)) >= size


def _is(jid: str, state: str) -> bool:
    return _queue().get(jid, {}).get("state") == state


def _frozen(jid: str) -> bool:
    return "frozen 1" in (PARENT / jid / "cgroup.events").read_text()


@contextmanager
def _swap(*areas: str) -> Iterator[None]:
    """Only these areas of swap, or none, until the block ends."""
    before = [line.split()[0] for line in Path("/proc/swaps").read_text().splitlines()[1:]]
    subprocess.run(["swapoff", *before], check=True)
    try:
        for area in areas:
            subprocess.run(["mkswap", area], check=True, capture_output=True)
            subprocess.run(["swapon", area], check=True)
        yield
    finally:
        for area in areas:
            subprocess.run(["swapoff", area], check=False)
        subprocess.run(["swapon", *before], check=True)


def shared_memory() -> None:
    """Files in shared memory are a job's need, go out with it and come back; what an ended job leaves is told."""
    groups = JobCgroups()
    with room(_ROOM) as available, agent(*_SETTINGS, policy="fit"), ExitStack() as stack:
        stack.callback(_FILE.unlink, missing_ok=True)
        size = available * 6 // 10
        stack.enter_context(spawned(*_anonymous("first", available // 2)))
        ktap.until(lambda: _needs("first", available // 2), "the first has its memory", 30)
        shared = ("ctl", "run", "--job", "shared", "--", sys.executable, "-c", _SHARED, str(size))
        stack.enter_context(spawned(*shared))
        ktap.until(lambda: _is("shared", "stopped"), "shared memory makes the job too large", 60, _queue)
        ktap.until(lambda: groups.memory("shared").swapped > 2 * groups.memory("shared").resident, "it is out",
                   60, lambda: groups.memory("shared"))
        ktap.note(f"stopped with {groups.memory('shared')}")
        with following("status", "--follow") as heard:
            ctl("cancel", "--now", "first")
            ktap.until(lambda: groups.memory("shared").resident > size, "its pages come back though it sleeps", 60,
                       lambda: groups.memory("shared"))
            ctl("cancel", "--now", "shared")
            ktap.until(lambda: not (PARENT / "shared").exists(), "it has ended")
            heard.hears({"kind": "job", "jid": "shared", "action": "left"})
            (text,) = (event["text"] for event in heard.events() if event.get("action") == "left")
        ktap.note(text)
        assert f"removed: {_FILE} (" in text, text
        with spawned("ctl", "run", "--job", "next", "--", "sleep", "100"):
            ktap.until(lambda: asked("queue")["left_behind"] > 0.9 * size, "the files take room", 20)
            assert "MiB of files in shared memory that ended jobs left" in ctl("queue"), ctl("queue")
            rest = asked("queue")["room"]
            _FILE.unlink()
            ktap.until(lambda: asked("queue")["left_behind"] < _MB, "the files are gone", 20)
            ktap.note(f"room: {rest // _MB} MiB beside the files, {asked('queue')['room'] // _MB} without them")
            ktap.until(lambda: asked("queue")["room"] > rest + size // 2, "the room is back", 5)


def no_swap() -> None:
    """Where nothing can leave memory, a stop frees nothing: no job is stopped for memory, and those held are named."""
    with _swap(), room(_ROOM) as available, agent(*_SETTINGS, policy="fit"), ExitStack() as stack:
        for jid in ("a", "b"):
            stack.enter_context(spawned(*_anonymous(jid, available * 6 // 10)))
        ktap.until(lambda: _is("a", "held") or _is("b", "held"), "one is held", 60, _queue)
        now = _queue()
        ktap.note(str({jid: (one["state"], one["why"]) for jid, one in now.items()}))
        ktap.expect([_frozen("a"), _frozen("b")], [False, False], "stopped jobs")
        why = next(one["why"] for one in now.values() if one["state"] == "held")
        assert "swap takes 0 MiB more" in why and "add swap" in why, why
        assert "waits for memory" in ctl("status"), ctl("status")
        stack.enter_context(spawned("ctl", "run", "--job", "c", "--memory", "50M", "--", "sleep", "100"))
        ktap.until(lambda: _is("c", "waits"), "another one waits before it begins", 20, _queue)
        ctl("cancel", "--now", "a", "b")
        ktap.until(lambda: _is("c", "runs"), "then it runs", 20, _queue)


def _zram(size: int) -> str:
    """A new device of so many bytes, compressed in memory."""
    subprocess.run(["modprobe", "zram"], check=True)
    number = Path("/sys/class/zram-control/hot_add").read_text().strip()
    Path(f"/sys/block/zram{number}/disksize").write_text(str(size))
    return f"/dev/zram{number}"


def compressed() -> None:
    """With swap in memory a stop frees what compression saves: much at four to one, nothing of random bytes."""
    device = _zram(512 << 20)
    try:
        with _swap(device), room(_ROOM) as available, agent(*_SETTINGS, policy="fit"):
            for kind, state in ktap.cases((("four", "stopped"), ("random", "runs"))):
                with ExitStack() as stack:
                    for jid in ("a", "b"):
                        stack.enter_context(spawned(*_anonymous(jid, available * 6 // 10, kind)))
                        ktap.until(partial(_needs, jid, 20 * _MB), f"{jid} is here", 20)
                    ktap.until(partial(_needs, "a", available * 55 // 100), "the first has its memory", 60, _queue)
                    _settles(state, kind, available)
                    ctl("cancel", "--now", "a", "b")
                    ktap.until(lambda: not (PARENT / "a").exists() and not (PARENT / "b").exists(), "they ended")
    finally:
        Path("/sys/class/zram-control/hot_remove").write_text(device.removeprefix("/dev/zram"))


def _settles(state: str, kind: str, available: int) -> None:
    """The second job comes to this state, and stays in it."""
    ktap.until(lambda: _is("b", state) or _is("b", "held"), f"{kind}: the second", 60, _queue)
    time.sleep(4)
    now = _queue()["b"]
    used = int(next(Path("/sys/block").glob("zram*/mm_stat")).read_text().split()[2])
    ktap.note(f"{kind}: {now}; {used / _MB:.0f} MiB for what is in swap, {memory('SwapTotal', 'SwapFree')}")
    if state == "stopped":
        ktap.expect(now["state"], state, kind)
        assert 8 * _MB <= now["stays"] < available // 3, now
    else:
        ktap.expect(now["state"] in ("runs", "held"), True, f"{kind}: no stop that frees nothing")


def empty_mappings() -> None:
    """14 TB of mapped, empty addresses cost a stop no time, nor the way back."""
    groups = JobCgroups()
    with room(_ROOM) as available, agent(*_SETTINGS, policy="fit"), ExitStack() as stack:
        stack.enter_context(spawned(*_anonymous("first", available // 2)))
        ktap.until(lambda: _needs("first", available // 2), "the first has its memory", 30)
        stack.enter_context(spawned(*_anonymous("wide", available * 6 // 10, empty_tb=14)))
        ktap.until(lambda: _is("wide", "stopped"), "it is stopped", 60, _queue)
        ktap.until(lambda: groups.memory("wide").resident < 20 * _MB, "it is out of memory", 30)
        began, swapped = time.monotonic(), groups.memory("wide").swapped
        ctl("cancel", "--now", "first")
        ktap.until(lambda: groups.memory("wide").swapped < swapped // 8, "it is back", 20)
        ktap.note(f"{swapped / _MB:.0f} MiB back {time.monotonic() - began:.1f} s after the other's end was asked for")


def _stat(jid: str) -> dict[str, int]:
    words = (line.split() for line in (PARENT / jid / "memory.stat").read_text().splitlines())
    return {name: int(value) for name, value in words}


def _cached(jid: str) -> int:
    """Bytes of files and inodes."""
    stat = _stat(jid)
    return stat["file"] - stat["shmem"] + stat["slab_reclaimable"]


def caches() -> None:
    """Cached files and inodes of a job are no need of it, and go out with it when it is stopped."""
    groups = JobCgroups()
    with room(_ROOM) as available, agent(*_SETTINGS, policy="fit"), ExitStack() as stack:
        size = available // 3
        stack.enter_context(spawned("ctl", "run", "--job", "first", "--", "sleep", "1000"))  # an only job always runs
        ktap.until(lambda: "first" in _queue(), "the first has come", 20)
        stack.enter_context(spawned("ctl", "run", "--job", "reads", "--", sys.executable, "-c", _READS, str(size)))
        ktap.until(lambda: _needs("reads", size), "its need is seen", 60, _queue)
        ktap.until(lambda: _cached("reads") > 20 * _MB, "it has its memory, and has read", 60)
        need, has = _queue()["reads"]["need"], groups.current("reads")
        stat = _stat("reads")
        ktap.note(f"needs {need / _MB:.0f} MiB of the {has / _MB:.0f} that it has, {_cached('reads') / _MB:.0f} of it "
                  f"caches: files {stat['file'] / _MB:.0f}, inodes {stat['slab_reclaimable'] / _MB:.0f}")
        assert need < size + 12 * _MB, (need, size, stat)
        local = (sys.executable, "-c", _ANONYMOUS, str(available * 7 // 10), "random", "0")
        stack.enter_context(spawned(*local))
        ktap.until(lambda: _is("reads", "stopped"), "it makes way for a local program", 60, _queue)
        ktap.until(lambda: groups.current("reads") < 12 * _MB, "nothing of it stays", 60, lambda: _stat("reads"))


def its_command_has_ended() -> None:
    """A job that goes on after its command needs what it has, and people are told."""
    with agent(*_SETTINGS, policy="fit"), following("status", "--follow") as heard:
        ctl("run", "--job", "a", "--memory", "100M", "--", "sh", "-c", f"sleep {ENDLESS} & sleep 1")
        ktap.expect(_needs("a", 100 * _MB), True, "it needs what was declared, at first")
        heard.hears({"kind": "job", "jid": "a", "action": "lingers"})
        ktap.until(lambda: not _needs("a", 50 * _MB), "it needs what it has", 10, _queue)
        told = "its command has ended, and 1 of its processes live on"
        assert told in ctl("jobs"), ctl("jobs")
        ctl("cancel", "--now", "a")


if __name__ == "__main__":
    ktap.run(shared_memory, no_swap, compressed, its_command_has_ended, *ktap.cases((empty_mappings, caches), 0))
