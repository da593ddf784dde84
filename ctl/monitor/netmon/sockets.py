# SPDX-License-Identifier: GPL-2.0-or-later
"""The queues of sockets, added up for the node, for each job and for each task.

Bytes are sock_diag's, of all sockets. Packets are the sensors', which observe the sockets of jobs while an agent runs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from ctl.kernel.layout import ffi
from ctl.kernel.owners import Kept, Task, jobs_of_cgroups, processes_of_sockets, task
from ctl.kernel.pins import PINS, pinned
from ctl.kernel.sock_diag import InetSocket, InetSockets
from ctl.monitor.netmon.rows import NODE, Owner, Values, owners_of
from ctl.monitor.text import clean

__all__ = ["SocketQueues"]

_LEVELS: Final = struct.Struct("=ii")  # the first members of struct obs: rcv, snd
_TID: Final = 4  # bytes of a key
_OBS: Final = ffi.sizeof("struct obs")


class SocketQueues:
    """Reads them, and remembers the counters of each socket."""

    def __init__(self, finest: str) -> None:
        """`finest`: whose figures are wanted, of KINDS; the finer, the more is to be found out. Raises CoschedError."""
        self._finest = finest
        self._sockets = InetSockets()
        self._jobs = Kept(jobs_of_cgroups)
        self._pids = Kept(processes_of_sockets)
        self._tasks: dict[int, Task | None] = {}
        self._counted: dict[int, tuple[int, int]] = {}  # retransmits and drops at the last look, by cookie

    def read(self) -> dict[Owner, Values]:
        """The figures of group "sockets" by owner; counts are since the look before, in sockets that still exist."""
        levels = _levels()
        blank: Values = {"sockets.rcv_packets": None, "sockets.snd_packets": None} if levels is None else {}
        tasks, self._tasks = self._tasks, {}
        rows: dict[Owner, Values] = {NODE: dict(blank)}
        counted = {}
        for one in self._sockets.read():
            before = self._counted.get(one.cookie, (0, 0))
            counted[one.cookie] = one.retransmits, one.drops
            for owner in self._owners(one, tasks):
                _add_socket(rows.setdefault(owner, dict(blank)), one, before)
        self._counted = counted
        for tid, rcv, snd in levels or ():
            process = self._task(tid, tasks) if self._finest != "node" else None
            for owner in owners_of(process, self._finest):
                values = rows.setdefault(owner, {})
                _add(values, "sockets.rcv_packets", rcv)
                _add(values, "sockets.snd_packets", snd)
        return rows

    def close(self) -> None:
        """Close the socket."""
        self._sockets.close()

    def _owners(self, one: InetSocket, tasks: dict[int, Task | None]) -> Iterator[Owner]:
        yield NODE
        if self._finest != "node" and (jid := self._jobs.get(one.cgroup)):
            yield Owner("job", jid)
        if self._finest == "task" and one.inode and (pid := self._pids.get(one.inode)):
            found = self._task(pid, tasks)
            if found is not None:
                yield Owner("task", clean(found.comm), pid)

    def _task(self, tid: int, before: dict[int, Task | None]) -> Task | None:
        """Look a thread up that the last look did not have."""
        if tid not in self._tasks:
            self._tasks[tid] = before[tid] if tid in before else task(tid)
        return self._tasks[tid]


def _levels() -> list[tuple[int, int, int]] | None:
    """(tid, packets to be received, packets to be sent) of the threads that the sensors observe; None if none run."""
    with pinned(PINS / "obs", _TID, _OBS) as observed:
        if observed is None:
            return None
        found = []
        for number, keys, values in observed.batches():
            for at in range(number):
                tid = int.from_bytes(keys[at * _TID : (at + 1) * _TID], "little")
                found.append((tid, *_LEVELS.unpack_from(values, at * _OBS)))
        return found


def _add(values: Values, key: str, more: int) -> None:
    values[key] = (values.get(key) or 0) + more


def _add_socket(values: Values, one: InetSocket, before: tuple[int, int]) -> None:
    _add(values, "sockets.count", 1)
    _add(values, "sockets.rcv_bytes", one.rcv_bytes)
    _add(values, "sockets.snd_bytes", one.snd_bytes)
    _add(values, "sockets.snd_segments", one.snd_segments)
    _add(values, "sockets.retransmits", one.retransmits - before[0])
    _add(values, "sockets.drops", one.drops - before[1])
    fill = 100 * one.rcv_memory // one.rcv_limit if one.rcv_limit else 0
    values["sockets.rcv_fill"] = max(values.get("sockets.rcv_fill") or 0, fill)
