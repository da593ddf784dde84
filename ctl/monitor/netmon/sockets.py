# SPDX-License-Identifier: GPL-2.0-or-later
"""The queues of sockets, added up for the node, for each job and for each task.

Bytes are sock_diag's, of all sockets. Packets are the sensors', which observe the sockets of jobs while an agent runs.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import repeat
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
        self._retransmits: dict[int, int] = {}  # at the last look, by cookie
        self._drops: dict[int, int] = {}

    def read(self) -> dict[Owner, Values]:
        """The figures of group "sockets" by owner; counts are since the look before, in sockets that still exist.

        The node has numbers of packets if sensors run; an owner without such a number has none, then.
        """
        sockets, levels = list(self._sockets.read()), _levels()
        before, self._tasks = self._tasks, {}
        rows = {owner: self._added_up(its) for owner, its in self._by_owner(sockets, before).items()}
        self._retransmits = {one.cookie: one.retransmits for one in sockets}
        self._drops = {one.cookie: one.drops for one in sockets}
        for tid, rcv, snd in levels or ():
            process = self._task(tid, before) if self._finest != "node" else None
            for owner in owners_of(process, self._finest):
                values = rows.setdefault(owner, {})
                values["sockets.rcv_packets"] = (values.get("sockets.rcv_packets") or 0) + rcv
                values["sockets.snd_packets"] = (values.get("sockets.snd_packets") or 0) + snd
        if levels is not None:
            rows[NODE] = {"sockets.rcv_packets": 0, "sockets.snd_packets": 0, **rows[NODE]}
        return rows

    def close(self) -> None:
        """Close the socket."""
        self._sockets.close()

    def _by_owner(self, sockets: list[InetSocket], before: dict[int, Task | None]) -> dict[Owner, list[InetSocket]]:
        """The sockets of the node, of each job and of each task."""
        found = {NODE: sockets}
        if self._finest != "node":
            jobs = {cgroup: self._jobs.get(cgroup) for cgroup in {one.cgroup for one in sockets}}
            for one in sockets if any(jobs.values()) else ():
                if jid := jobs[one.cgroup]:
                    found.setdefault(Owner("job", jid), []).append(one)
        for one in sockets if self._finest == "task" else ():
            if one.inode and (pid := self._pids.get(one.inode)) and (process := self._task(pid, before)):
                found.setdefault(Owner("task", clean(process.comm), pid), []).append(one)
        return found

    def _task(self, tid: int, before: dict[int, Task | None]) -> Task | None:
        """Look a thread up that the last look did not have."""
        if tid not in self._tasks:
            self._tasks[tid] = before[tid] if tid in before else task(tid)
        return self._tasks[tid]

    def _added_up(self, sockets: list[InetSocket]) -> Values:
        """The figures of these sockets; by columns, as a thousand sockets are to be added up in less than 1 ms."""
        if not sockets:
            return {}
        column = dict(zip(InetSocket._fields, zip(*sockets, strict=True), strict=True))
        limits = zip(column["rcv_memory"], column["rcv_limit"], strict=True)
        return {
            "sockets.count": len(sockets),
            "sockets.rcv_bytes": sum(column["rcv_bytes"]),
            "sockets.snd_bytes": sum(column["snd_bytes"]),
            "sockets.snd_segments": sum(column["snd_segments"]),
            "sockets.rcv_fill": max((100 * memory // limit for memory, limit in limits if memory and limit), default=0),
            "sockets.retransmits": _more(column["retransmits"], column["cookie"], self._retransmits),
            "sockets.drops": _more(column["drops"], column["cookie"], self._drops),
        }


def _more(counts: Sequence[int], cookies: Sequence[int], before: dict[int, int]) -> int:
    """How much more these counts are than those before; a new socket had none."""
    return sum(counts) - sum(map(before.get, cookies, repeat(0)))


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
