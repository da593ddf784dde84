# SPDX-License-Identifier: GPL-2.0-or-later
"""Set_Memory (CCS Alg. 3): the rule that stops jobs and lets them go on; ctl/node/pools.py carries it out.

Memory is two pools, M_Paral = min M * L for jobs and the rest for local tasks (CCS eq. 5). Once an epoch, while pages
come back from swap:

    Mem_Paral < M_Paral     the jobs are within their share: the kernel takes pages from local tasks (memory.min)
    else                    the kernel takes pages from the jobs; and with a local user present, the running job with
                            the largest resident memory is stopped, one an epoch (B-CCS-6: never a local task), of
                            those whose stop frees more than a little (ours: Alg. 3 stops the largest, as all memory
                            could go to swap then)

Stopped jobs are kept in order (B-CCS-9). At the end of an epoch they go on (B-CCS-8):

    no local user           all stopped jobs
    room in the pool        the first job whose need, added to Mem_Paral, is within M_Paral. The need counts resident
                            pages and pages in swap: by its resident pages alone a thrashing job would seem small
    no page came back       the first job, after two epochs, if its pages in swap find room in memory, the memory of
                            local tasks included (jobs may use what local tasks leave, CCS §4.2); else after 32 epochs,
                            because memory may hold pages that no task needs. If the job went on too early, it is
                            stopped again and waits twice as long the next time, up to 32 epochs: a job that cannot
                            fit would otherwise come and go for ever

A job that goes on brings its pages back first; for SETTLE epochs these pages stop no job.

MPL(N_k) (CCS eq. 4) bounds how many jobs run at once. The last jobs to come wait, whether or not a user is present, and
go on when other jobs end, in the order of their stops (B-CCS-29: `mpl` is the bound; running jobs are counted).

The simulator has the rule in ctl/sim/ccs/contract.h. The two do not share their text, because each works on its own
state: jobs of a node with MPL and reasons in words here, linked tasks of an event loop there. A test compares them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from ctl.node.overload import PAGING_S, STALL_LOW

__all__ = ["QUIET", "SETTLE", "Epoch", "Job", "State", "Stop", "decide", "pool_size"]

QUIET: Final = 2  # epochs without a page coming back until a job may go on
MOST_QUIET: Final = 32
SETTLE: Final = 3  # epochs in which the pages of a job that goes on come back
_MIB = 1 << 20
_LITTLE: Final = 0.125  # of a job's need


@dataclass(frozen=True, slots=True)
class Job:
    """One job on this node; bytes."""

    jid: str
    resident: int  # RMS
    swapped: int
    started: float  # when it began, any clock
    stopped: bool = False  # now, on this node, for any reason
    elsewhere: bool = False  # another node wants it stopped, or its owner
    stays: int = 0  # in memory while it is stopped: its pages cannot go, or swap has no room or is in memory itself
    refaults: int = 0  # pages that came back from swap since it began
    movable: int = 0  # of the resident memory: swap could take it
    lingers: bool = False  # its command has ended
    pids: frozenset[int] = frozenset()  # of its processes

    @property
    def need(self) -> int:
        """The memory that the job needs to run without paging."""
        return self.resident + self.swapped

    @property
    def bound(self) -> int:
        """`stays`; but the whole need of a job whose stop would free little: no stop is worth that."""
        return self.stays if self.need - self.stays >= self.need * _LITTLE else max(self.need, self.stays)


@dataclass(frozen=True, slots=True)
class Epoch:
    """The observations of one epoch."""

    local_user: bool
    paged_s: float  # pages that came back from swap, per second
    pool: int  # M_Paral, bytes
    jobs: tuple[Job, ...]
    mpl: int = 0  # jobs that may run; 0: all
    cost: float = 1.0  # part of the time that these pages cost (swapping.py); 1: unknown
    free: int | None = None  # memory that is available, bytes; None: not known

    @property
    def swapping(self) -> bool:
        """Whether swapping is active: pages come back and cost time. Pages that only go out cost no task anything yet.

        The same rate can be much for a disk, with 8 ms a page, and little for a device that takes 0.1 ms.
        """
        return self.paged_s >= PAGING_S and self.cost >= STALL_LOW

    @property
    def used(self) -> int:
        """Mem_Paral: the need of the running jobs, bytes."""
        return sum(job.need for job in self.jobs if not job.stopped)


@dataclass(frozen=True, slots=True)
class Stop:
    """A job that this node has stopped."""

    jid: str
    why: str
    need: int = 0  # bytes, when it was stopped
    by_mpl: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """The stop set in the order of stops, and the history that the next decision needs."""

    stops: tuple[Stop, ...] = ()
    quiet: int = QUIET  # epochs since a page came back
    calm: int = QUIET  # epochs since swapping was active
    settling: int = 0  # epochs that stop no job
    patience: dict[str, int] = field(default_factory=dict)  # job -> epochs of quiet that it waits for, if not QUIET
    limited: bool = False  # jobs together are held to their pool

    def stopped(self, jid: str) -> bool:
        """Whether this node has stopped the job."""
        return any(stop.jid == jid for stop in self.stops)


def pool_size(memory_min: int, share_l: float) -> int:
    """M_Paral = min M * L, bytes (CCS eq. 5)."""
    return int(memory_min * share_l)


def decide(state: State, epoch: Epoch) -> State:
    """The state at the end of an epoch."""
    here = {job.jid for job in epoch.jobs}
    quiet = 0 if epoch.paged_s >= PAGING_S else min(state.quiet + 1, MOST_QUIET)
    calm = 0 if epoch.swapping else min(state.calm + 1, QUIET)
    settling = state.settling
    state = replace(
        state,
        stops=tuple(stop for stop in state.stops if stop.jid in here),
        patience={jid: epochs for jid, epochs in state.patience.items() if jid in here},
        quiet=quiet,
        calm=calm,
        settling=max(0, settling - 1),
        limited=epoch.local_user and calm < QUIET,
    )
    before = state.stops
    state = _bound(_let_go_on(state, epoch), epoch)
    if any(not state.stopped(stop.jid) for stop in before):
        return replace(state, settling=SETTLE)
    return state if settling else _stop_largest(state, epoch)


def _running(state: State, epoch: Epoch) -> list[Job]:
    """Jobs that neither this node nor another has stopped."""
    return [job for job in epoch.jobs if not state.stopped(job.jid) and not job.elsewhere]


def _let_go_on(state: State, epoch: Epoch) -> State:
    """Take back stops for memory (B-CCS-8)."""
    stops = [stop for stop in state.stops if not stop.by_mpl]
    if not stops:
        return state
    if not epoch.local_user:
        return _without(state, stops, QUIET)
    for stop in stops:
        if epoch.used + stop.need <= epoch.pool:
            return _without(state, [stop], QUIET)
    first = stops[0]
    patience = state.patience.get(first.jid, QUIET)
    if state.quiet < (patience if _has_room(first, epoch) else MOST_QUIET):
        return state
    return replace(_without(state, [first], min(2 * patience, MOST_QUIET)), quiet=0)


def _has_room(stop: Stop, epoch: Epoch) -> bool:
    """Whether the job's pages in swap could come back without pushing out other pages."""
    return epoch.free is None or all(job.swapped <= epoch.free for job in epoch.jobs if job.jid == stop.jid)


def _without(state: State, gone: Iterable[Stop], patience: int) -> State:
    jids = {stop.jid for stop in gone}
    kept = tuple(stop for stop in state.stops if stop.jid not in jids)
    return replace(state, stops=kept, patience=state.patience | dict.fromkeys(jids, patience))


def _bound(state: State, epoch: Epoch) -> State:
    """Hold to the multiprogramming level (CCS eq. 4)."""
    waiting = [stop for stop in state.stops if stop.by_mpl]
    running = sorted(_running(state, epoch), key=lambda job: (job.started, job.jid))
    room = epoch.mpl - len(running) if epoch.mpl else len(waiting)
    if room >= 0:
        return _without(state, waiting[:room], QUIET) if waiting and room else state
    why = f"{len(running)} jobs, {epoch.mpl} may run"
    return replace(state, stops=state.stops + tuple(Stop(job.jid, why, by_mpl=True) for job in running[room:]))


def _stop_largest(state: State, epoch: Epoch) -> State:
    """CCS Alg. 3: stoptask := the parallel task with the largest RMS."""
    running, used = [job for job in _running(state, epoch) if job.bound < job.need], epoch.used
    if not (epoch.swapping and epoch.local_user and running and used >= epoch.pool):
        return state
    largest = max(running, key=lambda job: (job.resident, job.jid))
    why = f"jobs need {used / _MIB:.0f} MiB of {epoch.pool / _MIB:.0f} MiB, {epoch.paged_s:.0f} pages/s come back"
    return replace(state, stops=(*state.stops, Stop(largest.jid, why, largest.need)))
