# SPDX-License-Identifier: GPL-2.0-or-later
"""The memory of jobs and the freezer: this file carries out Set_Memory's decisions, and undoes them.

The jobs' pool is their parent cgroup, and `memory.min` guarantees M_Paral to it: while memory is short, the kernel
takes pages from local tasks as long as jobs have less than M_Paral. `memory.low` would not guarantee this, because the
multi-generational LRU takes pages from other cgroups first and from cgroups below their `memory.low` next. Above half
of the memory only `memory.low` protects M_Paral: if more were out of reach, the kernel might kill tasks instead of
paging. Local tasks are in no cgroup of cosched, so their pool is guaranteed from the other side: while a local user is
present and pages come back from swap, `memory.high` holds the jobs together to M_Paral, and the rest is M_Local. At all
other times jobs may use all memory that local tasks leave (CCS §4.2).

`cgroup.freeze` stops a job. Then the job loses its protection, and a thread pushes its memory out, in portions, so that
neither a job that goes on meanwhile waits, nor a local task that fetches a page. When the job goes on, the thread reads
back as much of its memory as there is room for. The rest follows as room comes, for _COMING epochs, because often
another job is still on its way out. Without this the job would sleep at one page after the other, longer than many a
job computes. The papers say when a job goes on (B-CCS-8), but not how its pages come back.

The kernel keeps freezes and limits when the agent dies. The supervisor undoes them then, and when the agent is stopped.
If both were killed, the next agent undoes them (ctl/process/daemon.py).
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ctl.errors import CoschedError
from ctl.kernel import paging, sysinfo
from ctl.kernel.cgroups import JobCgroups

__all__ = ["Pools"]

_PORTIONS: Final = (256 << 10, 16 << 20)  # bytes pushed out at a time: pages of local tasks wait behind them
_SOON, _LATE = 0.005, 0.02  # seconds until a portion is written: the next is larger, smaller (results/exchange.md)
_STEP: Final = 16 << 20  # bytes by which the limit of all jobs comes down at a time
_VAIN: Final = 4  # portions in a row of which little went out, until the rest counts as stuck
_LITTLE: Final = 0.125  # of a portion
_BACK: Final = 4 << 20  # bytes read back at a time: free memory is checked between two reads
_COMING: Final = 32  # epochs after which a job's missing pages come back by its own faults
_MOST_SURE: Final = 0.5  # of the node's memory
_LEAST_HIGH: Final = 16 << 20  # bytes: held to less, a job could not even end
_AT_LIMIT: Final = 0.97  # of it
_SAY_AGAIN: Final = 2.0  # seconds after which unchanged limits are written again, in case others lifted them
_FREEZE_LIMIT: Final = 5.0  # seconds to wait for a job to be frozen before its memory is pushed out
_FREEZE_STEP: Final = 0.2  # seconds of waiting between two looks whether the job goes on


class Pools:
    """Stopped jobs and limits of this node. Methods are for the event loop's thread."""

    def __init__(self, cgroups: JobCgroups) -> None:
        self._cgroups = cgroups
        self._out_s = self._back_s = 0.0  # how long it took to push out, and to read back, the last job
        self._stopped: set[str] = set()
        self._coming: dict[str, int] = {}  # jobs that went on but are not all back: epochs left for reading back
        self._since: dict[str, float] = {}  # stopped jobs: since when, by the steady clock
        self._before_s: dict[str, float] = {}  # seconds that jobs were stopped in all, before they went on last
        self._stuck: dict[str, int] = {}  # bytes that did not go out, though swap had room: pages that a device holds
        self._reading: set[str] = set()  # jobs that the thread reads back now
        self._portion = _PORTIONS[0]
        self._most: int | None = None  # bytes that the jobs are held to
        self._pusher = ThreadPoolExecutor(1, "push-out")  # jobs one after the other: the swap device is one, too
        self._said: tuple[object, float] | None = None  # the limits that are set, and when to write them again

    @property
    def exchange_s(self) -> float:
        """How long the last job took to go out of memory, and the last one to come back, together; seconds."""
        return self._out_s + self._back_s

    def stopped(self, jid: str) -> bool:
        """Whether it is stopped."""
        return jid in self._stopped

    def stopped_s(self, jid: str) -> float:
        """How long it has been stopped here so far, seconds."""
        since = self._since.get(jid)
        return self._before_s.get(jid, 0.0) + (0.0 if since is None else time.monotonic() - since)

    def stuck(self, jid: str) -> int:
        """Bytes that stayed in memory when the job was stopped, for a reason that the kernel does not tell."""
        return self._stuck.get(jid, 0)

    def limit(self, jids: list[str], pool: int, memory: int, held: bool) -> None:
        """Protect `pool` (M_Paral) bytes of these jobs, and with `held` limit them to M_Paral; `memory` is the node's
        M."""
        now, wanted = time.monotonic(), (jids, frozenset(self._stopped), pool, memory, held)
        if self._said is not None and wanted == self._said[0] and now < self._said[1]:
            return
        self._said = wanted, now + _SAY_AGAIN
        sure = min(pool, int(memory * _MOST_SURE))
        self._most = max(pool, _LEAST_HIGH) if held else None
        self._cgroups.set_pool(sure, pool, self._most)
        for jid in jids:
            self._cgroups.protect(jid, *((0, 0) if jid in self._stopped else (sure, pool)))

    def hold(self, most: int) -> None:
        """Hold the jobs together to this many bytes, and protect nothing of theirs.

        While they have more, the limit comes down step by step, because the kernel makes a job wait that is far above
        it.
        """
        self._most = max(most, _LEAST_HIGH, self._cgroups.pool_used() - _STEP)
        wanted, now = ("hold", self._most), time.monotonic()
        if self._said is None or wanted != self._said[0] or now >= self._said[1]:
            self._said = wanted, now + _SAY_AGAIN
            self._cgroups.set_pool(0, 0, self._most)

    def reached(self) -> int | None:
        """The limit of all jobs together, bytes, if they are at it; else None."""
        at_it = self._most is not None and self._cgroups.pool_used() >= self._most * _AT_LIMIT
        return self._most if at_it else None

    def unlimit(self, jids: list[str]) -> None:
        """Remove protection and limits."""
        if self._said is not None:
            self._cgroups.set_pool(0, 0, None)
            for jid in jids:
                self._cgroups.protect(jid, 0, 0)
        self._said = self._most = None

    def stop(self, jid: str) -> None:
        """Freeze a job and push its memory out."""
        self._stopped.add(jid)
        self._since.setdefault(jid, time.monotonic())
        self._coming.pop(jid, None)
        self._cgroups.set_frozen(jid, True)
        self._cgroups.protect(jid, 0, 0)
        self._pusher.submit(self._push_out, jid)

    def go_on(self, jid: str, read: bool = True) -> None:
        """Thaw a job and, if `read`, bring its memory back."""
        self._before_s[jid] = self.stopped_s(jid)
        self._since.pop(jid, None)
        self._stopped.discard(jid)
        self._cgroups.set_frozen(jid, False)
        if read:
            self._coming[jid] = _COMING
            self._read_back(jid)

    def come_back(self, jid: str) -> None:
        """Bring back pages that a running job has lost, from the end of this epoch on, as far as there is room."""
        self._coming.setdefault(jid, _COMING)

    def hold_still(self) -> None:
        """Freeze stopped jobs again: Slurm may have moved in processes, or the supervisor may have thawed all jobs."""
        for jid in self._stopped:
            self._cgroups.set_frozen(jid, True)

    def keep(self) -> None:
        """At the end of an epoch: continue to read pages back."""
        self.hold_still()
        for jid, epochs in list(self._coming.items()):  # the thread removes jobs that are back
            if epochs > 1:
                self._coming[jid] = epochs - 1
                self._read_back(jid)
            else:
                self._coming.pop(jid, None)

    def forget(self, jid: str) -> None:
        """The job has ended."""
        for noted in (self._stuck, self._since, self._before_s):
            noted.pop(jid, None)
        self._stopped.discard(jid)
        self._coming.pop(jid, None)

    def release(self, jids: list[str]) -> None:
        """Let every job go on, and lift all limits."""
        for jid in list(self._stopped):
            self.go_on(jid)
        self._coming.clear()  # an ending agent does not wait for their pages
        self.unlimit(jids)

    def _push_out(self, jid: str) -> None:
        """In a thread: push out the memory of a frozen job. Ends when the job goes on."""
        try:
            waited = 0.0
            while jid in self._stopped and waited < _FREEZE_LIMIT and not self._cgroups.await_frozen(jid, _FREEZE_STEP):
                waited += _FREEZE_STEP
            began, cold = time.monotonic(), self._cgroups.memory(jid).cold
            if cold >= _PORTIONS[0]:
                self._cgroups.drop_cold(jid, cold)
            left, vain = self._movable(jid), 0
            while left > 0 and vain < _VAIN and jid in self._stopped:
                size = min(left, self._portion)
                out = self._push_portion(jid, size)
                left -= out
                vain = vain + 1 if out < size * _LITTLE else 0
            self._out_s = time.monotonic() - began
            if vain == _VAIN:
                self._stuck[jid] = left
        except (CoschedError, OSError):  # the job ended meanwhile
            return

    def _movable(self, jid: str) -> int:
        """Bytes of a job in memory that swap can take."""
        return min(self._cgroups.memory(jid).movable, self._cgroups.swap_free(jid))

    def _push_portion(self, jid: str, size: int) -> int:
        """In a thread: push out one portion of a job; the bytes that memory has gained. The next portion suits the
        device. memory.stat would tell the bytes exactly, but up to 2 s later."""
        before, (least, most) = self._cgroups.current(jid), _PORTIONS
        waited = self._cgroups.push_out(jid, size)
        if waited > _LATE:
            self._portion = max(least, self._portion // 2)
        elif waited < _SOON:
            self._portion = min(most, self._portion * 2)
        return max(0, before - self._cgroups.current(jid))

    def _read_back(self, jid: str) -> None:
        if jid not in self._reading:
            self._reading.add(jid)
            self._pusher.submit(self._bring_back, jid)

    def _bring_back(self, jid: str) -> None:
        """In a thread: read back pages, as far as no other pages must go, while the job is in `_coming`."""
        began, seen = time.monotonic(), set[str]()
        try:
            for pid in self._cgroups.pids(jid):
                for portion in paging.portions(pid, _BACK, seen):
                    if jid not in self._coming or not self._has_room(portion.size):
                        return
                    paging.will_need(pid, portion.spans)
            self._coming.pop(jid, None)
            self._back_s = time.monotonic() - began
        except (CoschedError, OSError):  # the job ended meanwhile
            return
        finally:
            self._reading.discard(jid)

    def _has_room(self, size: int) -> bool:
        """Whether so many more bytes may come back: memory is free, and the jobs' limit allows them."""
        if self._most is not None and self._cgroups.pool_used() + size > self._most:
            return False
        return sysinfo.memory("MemAvailable")[0] >= size
