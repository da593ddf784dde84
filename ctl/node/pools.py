# SPDX-License-Identifier: GPL-2.0-or-later
"""The memory of jobs and the freezer: what Set_Memory decides is done here, and undone.

The jobs' pool is their parent cgroup, and `memory.min` of M_Paral guarantees it: while more is used than there is, the
kernel takes from local tasks as long as jobs have less. `memory.low` would not: the multi-generational LRU only begins
with others, and takes from those below their `memory.low` next. It is all that protects what of M_Paral is above half
of the memory: were more out of reach, the kernel might kill where it could page. Local tasks have no cgroup of ours,
they are wherever the system put them, so their pool is guaranteed from the other side: while a local user is present
and pages come back from swap, the jobs together are held to M_Paral by `memory.high`, and what is left is M_Local. At
all other times jobs may use what local tasks leave (CCS §4.2).

A job is stopped by `cgroup.freeze`; then its protection is taken away and its memory pushed out, piece by piece in a
thread, so that a job that is to go on does not wait for it. When it goes on, as much of its memory is read back at once
as there is room for, and the rest as room comes, for _COMING epochs: often the job that it changes places with is still
on its way out. By itself it would sleep at one page after the other, longer than many a job computes (the papers say
when a job goes on, B-CCS-8, not how its pages come back).

The kernel keeps all of this when the agent dies. Its supervisor undoes it then, and when the agent is stopped; the next
agent does if both were killed (ctl/process/daemon.py).
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ctl.errors import CoschedError
from ctl.kernel import paging
from ctl.kernel.cgroups import JobCgroups
from ctl.kernel.sysinfo import meminfo

__all__ = ["Pools"]

_PIECE: Final = 16 << 20  # bytes reclaimed at a time: 5 ms, on a slow disk half a second
_BACK: Final = 4 << 20  # bytes read back at a time: between two it is seen what is free
_COMING: Final = 32  # epochs after which what of a job did not find room comes back by its own faults
_MOST_SURE: Final = 0.5  # of the node's memory
_LEAST_HIGH: Final = 16 << 20  # bytes: held to less, a job could not even end
_SAY_AGAIN: Final = 2.0  # seconds: limits that are as they were are written again, should somebody have lifted them
_FREEZE_LIMIT: Final = 5.0  # seconds to wait for a job to be frozen before its memory is pushed out
_FREEZE_STEP: Final = 0.2  # seconds of it between two looks whether it is to go on


class Pools:
    """Stopped jobs and limits of this node. Methods are for the event loop's thread."""

    def __init__(self, cgroups: JobCgroups) -> None:
        self._cgroups = cgroups
        self._stopped: set[str] = set()
        self._coming: dict[str, int] = {}  # jobs that went on, not all back: epochs left in which more is read back
        self._reading: set[str] = set()  # those for which the thread has to do so already
        self._most: int | None = None  # bytes that the jobs are held to
        self._pusher = ThreadPoolExecutor(1, "push-out")  # jobs one after the other: the swap device is one, too
        self._said: tuple[object, float] | None = None  # what limits are set, and until when that may stand

    def stopped(self, jid: str) -> bool:
        """Whether it is stopped."""
        return jid in self._stopped

    def limit(self, jids: list[str], pool: int, memory: int, held: bool) -> None:
        """Protect M_Paral bytes, `pool`, of these jobs, and with `held` hold them to it; `memory` is the node's M."""
        now, wanted = time.monotonic(), (jids, frozenset(self._stopped), pool, memory, held)
        if self._said is not None and wanted == self._said[0] and now < self._said[1]:
            return
        self._said = wanted, now + _SAY_AGAIN
        sure = min(pool, int(memory * _MOST_SURE))
        self._most = max(pool, _LEAST_HIGH) if held else None
        self._cgroups.set_pool(sure, pool, self._most)
        for jid in jids:
            self._cgroups.protect(jid, *((0, 0) if jid in self._stopped else (sure, pool)))

    def unlimit(self, jids: list[str]) -> None:
        """No protection and no limit any more."""
        if self._said is not None:
            self._cgroups.set_pool(0, 0, None)
            for jid in jids:
                self._cgroups.protect(jid, 0, 0)
        self._said = self._most = None

    def stop(self, jid: str) -> None:
        """Freeze a job and push its memory out."""
        self._stopped.add(jid)
        self._coming.pop(jid, None)
        self._cgroups.set_frozen(jid, True)
        self._cgroups.protect(jid, 0, 0)
        self._pusher.submit(self._push_out, jid)

    def go_on(self, jid: str) -> None:
        """Thaw a job and bring its memory back."""
        self._stopped.discard(jid)
        self._cgroups.set_frozen(jid, False)
        self._coming[jid] = _COMING
        self._read_back(jid)

    def hold_still(self) -> None:
        """Freeze the stopped again: Slurm may have moved processes into one, the supervisor thawed them all."""
        for jid in self._stopped:
            self._cgroups.set_frozen(jid, True)

    def keep(self) -> None:
        """At the end of an epoch: go on with what takes longer."""
        self.hold_still()
        for jid, epochs in list(self._coming.items()):  # the thread takes out who is back
            if epochs > 1:
                self._coming[jid] = epochs - 1
                self._read_back(jid)
            else:
                self._coming.pop(jid, None)

    def forget(self, jid: str) -> None:
        """The job has ended."""
        self._stopped.discard(jid)
        self._coming.pop(jid, None)

    def release(self, jids: list[str]) -> None:
        """Let every job go on, and lift all limits."""
        for jid in list(self._stopped):
            self.go_on(jid)
        self._coming.clear()  # an agent that ends does not wait for their pages
        self.unlimit(jids)

    def _push_out(self, jid: str) -> None:
        """In a thread: what is frozen needs none of its memory. Ends when the job goes on."""
        try:
            waited = 0.0
            while jid in self._stopped and waited < _FREEZE_LIMIT and not self._cgroups.await_frozen(jid, _FREEZE_STEP):
                waited += _FREEZE_STEP
            left = self._cgroups.memory(jid)[0]
            while left > 0 and jid in self._stopped:
                self._cgroups.push_out(jid, min(_PIECE, left))
                left -= _PIECE
        except (CoschedError, OSError):  # the job ended meanwhile
            return

    def _read_back(self, jid: str) -> None:
        if jid not in self._reading:
            self._reading.add(jid)
            self._pusher.submit(self._bring_back, jid)

    def _bring_back(self, jid: str) -> None:
        """In a thread: read back what there is room for without pushing out others', as long as `_coming` has it."""
        try:
            for pid in self._cgroups.pids(jid):
                for start, size in paging.spans(pid, _BACK):
                    if jid not in self._coming or not self._has_room(size):
                        return
                    paging.will_need(pid, start, size)
            self._coming.pop(jid, None)
        except (CoschedError, OSError):  # the job ended meanwhile
            return
        finally:
            self._reading.discard(jid)

    def _has_room(self, size: int) -> bool:
        """Whether so many bytes more may come back: there is memory, and jobs are not held to less."""
        if self._most is not None and self._cgroups.pool_used() + size > self._most:
            return False
        return meminfo()["MemAvailable"] >= size
