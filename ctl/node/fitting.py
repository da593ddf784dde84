# SPDX-License-Identifier: GPL-2.0-or-later
"""Policy `fit` on this node: what jobs have, the room for them, and which of them are stopped.

    jobs' memory, the node's memory ──► room, sizes ──► the queue (ctl/jobs) ──► stops ──► freezer, limit
                                                          ▲ │
                                        facts of the other nodes, and of this one

The queue decides; this file measures, and holds the jobs together to the room (ctl/node/pools.py), so that the kernel
takes their pages and not a local task's. Nodes of a cluster tell each other their facts, not their verdicts: equal
facts give equal verdicts, so a job of several nodes runs on all of them or waits on all of them.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ctl.contract import JobQueue, NodeFacts, Wish
from ctl.kernel import swap
from ctl.kernel.cgroups import JobCgroups
from ctl.kernel.slurm_request import request_of
from ctl.node.authority import user_name
from ctl.node.load import LoadMeter
from ctl.node.pools import Pools
from ctl.node.room import Room, take_sample
from ctl.node.set_memory import Job
from ctl.node.suspended import Suspended
from ctl.node.working_set import WorkingSets

__all__ = ["Fitting"]

_TURN_IN_EXCHANGES: Final = 27  # a turn is so many times the exchange of memory, so three quarters of it are 20 times
_GRAIN: Final = 256 << 10  # bytes: smaller changes are not news for the other nodes
_LEFT: Final = 8 << 20  # bytes
_STALLED: Final = 0.1  # of the time, from which on a job counts as held
_COARSE: Final = 4 << 20  # bytes: the kernel's part of what stays changes all the time
_SQUEEZED: Final = 1 << 20  # bytes in swap


class Fitting:
    """The jobs that fit here. All calls are for the event loop's thread."""

    def __init__(self, queue: JobQueue, cgroups: JobCgroups, pools: Pools) -> None:
        self.stops: tuple[tuple[str, str], ...] = ()  # (JID, why)
        self.left_behind = 0  # bytes of shared memory
        self.held: dict[str, str] = {}  # jobs that run and wait for memory, and why
        self._queue, self._cgroups, self._pools = queue, cgroups, pools
        self._room, self._load = Room(), LoadMeter()
        self._working, self._suspended = WorkingSets(), Suspended()
        self._met: set[str] = set()  # jobs whose request of Slurm, or declared need, is known
        self._outgrown: set[str] = set()  # jobs of which outgrown() has told

    def look(self, jobs: Iterable[Job], turn_s: float, share_mem: float, speed: float) -> bool:
        """Decide anew, by the memory of the jobs here (all of them) and of the node; whether the stops have changed.

        `turn_s`, `share_mem`: the knobs; `speed`: of this node, for the placement of jobs.
        """
        seen, now, before, sample = list(jobs), time.time(), self.stops, take_sample()
        here = [job.jid for job in seen]
        self._meet(here, now)
        self._outgrown.intersection_update(here)
        steady, kept = time.monotonic(), swap.kept()  # the time of day may jump
        self._suspended.look(seen, steady)
        for job in seen:
            self._queue.linger(job.jid, job.lingers)
            self._queue.suspend(job.jid, job.jid in self.suspended)
        self._notice([job for job in seen if not job.stopped])
        zram = int(kept.zram * sum(job.swapped for job in seen))  # of jobs, and charged to none
        held, files = self._cgroups.pool_held()
        held += zram + sum(job.resident for job in seen if self._cgroups.is_slurm(job.jid))
        room, limit = self._room.look(steady, sample, held, files, share_mem)
        self.left_behind = self._left_behind(seen)
        sizes = {job.jid: -(-job.need // _GRAIN) * _GRAIN for job in seen}
        stays = {job.jid: sizes[job.jid] if job.bound >= job.need else job.bound // _COARSE * _COARSE for job in seen}
        spare = max(0, room - self.left_behind - sum(stays.values())) // _GRAIN * _GRAIN
        turn_s, load = _turn(turn_s, self._pools.exchange_s), self._load.look(steady, speed)
        self.stops = tuple(self._queue.look(now, sizes, spare, turn_s, load, stays))
        stopped = dict(self.stops)
        for job in seen:  # what fits may have been squeezed before another was stopped
            if job.jid not in stopped and job.swapped >= _SQUEEZED:
                self._pools.come_back(job.jid)
        if seen:
            self._pools.hold(limit - zram)
        self.held = self._held([job for job in seen if job.jid not in stopped and job.jid not in self.suspended])
        return self.stops != before

    @property
    def suspended(self) -> frozenset[str]:
        """The jobs here whose owner has stopped their processes."""
        return self._suspended.jids

    def _held(self, running: list[Job]) -> dict[str, str]:
        """The running jobs that wait for memory at the limit of all jobs, each with the reason and the ways out."""
        if (limit := self._pools.reached()) is None:
            return {}
        found = {}
        for job in running:
            with contextlib.suppress(OSError):
                if (part := self._cgroups.stalled(job.jid)) >= _STALLED:
                    free = f"swap takes {self._cgroups.swap_free(job.jid) >> 20} MiB more"
                    ways = "end a job, add swap, or leave more to jobs (share_mem)"
                    what = f"waits for memory {part:.0%} of the time"
                    found[job.jid] = f"{what}: jobs are held to {limit >> 20} MiB, and {free}; {ways}"
        return found

    def _left_behind(self, seen: list[Job]) -> int:
        """Bytes in memory of files that ended jobs have left in shared memory: nobody else has pages there. Jobs grow
        while they are read, so a little is none."""
        here = sum(job.movable for job in seen if not self._cgroups.is_slurm(job.jid))
        left = self._cgroups.all_movable() - here
        return left if left >= _LEFT else 0

    def _meet(self, jids: list[str], now: float) -> None:
        """Jobs that did not ask this agent before they began: tell the queue what they asked Slurm for, or what was
        declared to an earlier agent."""
        self._met.intersection_update(jids)
        for jid in [jid for jid in jids if jid not in self._met]:  # in their order, which is that of the queue then
            if not self._cgroups.is_slurm(jid):
                self._queue.meet(Wish(jid, "", need=self._cgroups.declared(jid)), now)
            elif (request := request_of(jid, self._cgroups.pids(jid))) is not None:
                program = f"slurm:{request.name}" if request.name else ""
                wish = Wish(jid, user_name(request.uid), program, static=request.static, ranks=request.tasks,
                            requested=request.memory)
                self._queue.meet(wish, now)
            else:
                continue
            self._met.add(jid)

    def _notice(self, running: list[Job]) -> None:
        """Tell the queue what the jobs that run get by with, for their history."""
        self._working.keep(job.jid for job in running)
        for job in running:
            working = self._working.look(job.jid, job.resident, job.swapped, job.refaults)
            self._queue.notice(job.jid, working, self._working.ranks(job.jid, job.pids))

    def decide(self) -> bool:
        """Decide anew by what is known; whether the stops have changed."""
        before, self.stops = self.stops, tuple(self._queue.decide(time.time()))
        return self.stops != before

    def on_hold(self, reasons: Mapping[str, str]) -> None:
        """The jobs on hold, of all nodes, each with the reason; look() or decide() then."""
        self._queue.on_hold(reasons)

    def turn_left(self) -> float | None:
        """Seconds to the end of this turn; None: no turns."""
        now = time.time()
        end = self._queue.due(now)
        return None if end is None else max(0.001, end - now)

    def order(self) -> list[str]:
        """The jobs in their order, for the kernel's rule `order`."""
        return self._queue.order()

    def outgrown(self) -> list[tuple[str, str]]:
        """The jobs that outgrew this node while another has room, each with the way there; each job only once."""
        found = [(jid, why) for jid, why in self._queue.outgrown() if jid not in self._outgrown]
        self._outgrown.update(jid for jid, _ in found)
        return found

    def join(self, node: str) -> None:
        """This node is in a cluster, by this name."""
        self._queue.join(node)

    def hear(self, others: Mapping[str, NodeFacts]) -> None:
        """The facts of the other nodes; decide() then."""
        self._queue.hear(others)

    def arrived(self, arrivals: Mapping[str, int]) -> None:
        """Jobs of this node have got their numbers in the order of arrival; decide() then."""
        self._queue.arrived(arrivals)

    def facts(self) -> NodeFacts:
        """The facts of this node."""
        return self._queue.facts()

    def place(self, count: int, need: int, by: str) -> list[str]:
        """The nodes where a job should run: the result of the operation `place`. Raises CoschedError."""
        return self._queue.place(count, need, by)

    def ask(self, wish: Wish) -> str:
        """May this job begin here? The empty string, or why it has to wait; then ask again."""
        return self._queue.ask(wish, time.time())

    def waits_for(self, jid: str) -> str | None:
        """The user for whom a job waits outside; None if none does."""
        return self._queue.user(jid)

    def cancel(self, jid: str) -> None:
        """Forget a job that waits outside."""
        self._queue.cancel(jid)

    def clear(self) -> None:
        """Stop nothing any more."""
        self.stops, self.held = (), {}
        self._met.clear()
        self._outgrown.clear()
        self._queue.clear()

    def report(self) -> dict[str, Any]:
        """The queue: the result of the operation `queue`."""
        rows = self._queue.rows(time.time()) | {"left_behind": self.left_behind}
        for job in rows["jobs"]:
            if job["jid"] in self.held:
                job |= {"state": "held", "why": "; ".join(filter(None, (self.held[job["jid"]], job["why"])))}
        return rows

    def history(self) -> list[dict[str, Any]]:
        """What jobs needed: the result of the operation `history`."""
        return self._queue.history()

    def forget(self, program: str, user: str | None) -> int:
        """Forget what jobs of this key needed, of this user or of all (None); the number of runs."""
        return self._queue.forget(program, user)


def _turn(turn_s: float, exchange_s: float) -> float:
    """The length of a turn: longer by a power of two if memory is exchanged slowly, so that nodes' turns end together.

    >>> _turn(30.0, 0.5), _turn(30.0, 2.5), _turn(0.0, 2.5)
    (30.0, 120.0, 0.0)
    """
    if turn_s <= 0:
        return 0.0
    return turn_s * float(2 ** max(0, math.ceil(math.log2(max(1e-9, exchange_s * _TURN_IN_EXCHANGES) / turn_s))))
