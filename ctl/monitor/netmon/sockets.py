# SPDX-License-Identifier: GPL-2.0-or-later
"""The queues of sockets, added up for the node, for each job and for each task.

Bytes are sock_diag's, of all sockets. Packets are the sensors', which observe the sockets of jobs while an agent runs.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from ctl.kernel.layout import ffi
from ctl.kernel.owners import Kept, Task, jobs_of_cgroups, processes_of_sockets, task
from ctl.kernel.pins import PINS, pinned
from ctl.kernel.sock_diag import Columns, InetSockets
from ctl.monitor.netmon.rows import NODE, Owner, Values, owners_of
from ctl.monitor.text import clean

__all__ = ["SocketQueues"]

_LEVELS: Final = struct.Struct("=ii")  # the first members of struct obs: rcv, snd
_COUNTS: Final = ("retransmits", "drops")
_OBSERVED: Final = PINS / "obs"
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
        self._before: dict[str, dict[int, int]] = {}  # counts other than 0 at the last look, by column and cookie

    def read(self) -> dict[Owner, Values]:
        """The figures of group "sockets" by owner; counts are since the look before, in sockets that still exist.

        The node has numbers of packets if sensors run; an owner without such a number has none, then.
        """
        sockets, levels = self._sockets.read(), _levels()
        before, self._tasks = self._tasks, {}
        counts = {name: _counts(sockets, name) for name in _COUNTS}
        rows = {owner: self._added_up(sockets, counts, at) for owner, at in self._by_owner(sockets, before).items()}
        self._before = counts
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

    def _by_owner(self, sockets: Columns, before: dict[int, Task | None]) -> dict[Owner, list[int] | None]:
        """Where in the columns the sockets of the node, of each job and of each task are; None: all."""
        found: dict[Owner, list[int]] = {}
        if self._finest != "node":
            jobs = {cgroup: self._jobs.get(cgroup) for cgroup in {*sockets["cgroup"]}}
            for at, cgroup in enumerate(sockets["cgroup"]) if any(jobs.values()) else ():
                if jid := jobs[cgroup]:
                    found.setdefault(Owner("job", jid), []).append(at)
        for at, inode in enumerate(sockets["inode"]) if self._finest == "task" else ():
            if inode and (pid := self._pids.get(inode)) and (process := self._task(pid, before)):
                found.setdefault(Owner("task", clean(process.comm), pid), []).append(at)
        return {NODE: None, **found}

    def _task(self, tid: int, before: dict[int, Task | None]) -> Task | None:
        """Look a thread up that the last look did not have."""
        if tid not in self._tasks:
            self._tasks[tid] = before[tid] if tid in before else task(tid)
        return self._tasks[tid]

    def _added_up(self, sockets: Columns, counts: dict[str, dict[int, int]], places: list[int] | None) -> Values:
        """The figures of the sockets at these places of the columns; None: of all."""

        def column(name: str) -> Sequence[int]:
            return sockets[name] if places is None else [sockets[name][at] for at in places]

        def more(name: str) -> int:
            """Of sockets that still exist; a new one had none."""
            now, before = counts[name], self._before.get(name, {})
            its = now if places is None else now.keys() & column("cookie") if now else ()
            return sum(now[cookie] - before.get(cookie, 0) for cookie in its)

        fills = {*zip(column("rcv_memory"), column("rcv_limit"), strict=True)}  # most are equal
        return {
            "sockets.count": len(column("rcv_bytes")),
            "sockets.rcv_bytes": sum(column("rcv_bytes")),
            "sockets.snd_bytes": sum(column("snd_bytes")),
            "sockets.snd_segments": sum(column("snd_segments")),
            "sockets.rcv_fill": max((100 * memory // limit for memory, limit in fills if limit), default=0),
            **{f"sockets.{name}": more(name) for name in _COUNTS},
        }


def _counts(sockets: Columns, name: str) -> dict[int, int]:
    """The counts of a column that are not 0, by cookie."""
    if not any(sockets[name]):
        return {}
    return {cookie: count for cookie, count in zip(sockets["cookie"], sockets[name], strict=True) if count}


def _levels() -> list[tuple[int, int, int]] | None:
    """(tid, packets to be received, packets to be sent) of the threads that the sensors observe; None if none run."""
    with pinned(_OBSERVED, _TID, _OBS) as observed:
        if observed is None:
            return None
        found = []
        for number, keys, values in observed.batches():
            for at in range(number):
                tid = int.from_bytes(keys[at * _TID : (at + 1) * _TID], "little")
                found.append((tid, *_LEVELS.unpack_from(values, at * _OBS)))
        return found
