# SPDX-License-Identifier: GPL-2.0-or-later
"""Mem(N) > M: whether the working sets of a node's tasks need more memory than the node has.

The papers compare sums of process sizes with a constant. Sizes overstate the use, so this file asks the kernel:

  Mem   (MemTotal - MemAvailable) + pages that are only in swap: the memory that tasks hold;
  M     MemTotal less a reserve.

Mem > M alone says that not all pages fit, but not that any task misses a page: a gigabyte of idle daemons may sit in
swap for days. So Mem > M counts only with pages coming back. Pages coming back fast, or tasks stalled on memory, count
alone: then a working set does not fit, whatever the sums say. Pages that come back are counted as anonymous refaults
(pages evicted and needed again) or as reads from swap, whichever is more. Reads are needed because a thrashing kernel
forgets evictions, and then reports neither refaults nor stalls. A read brings up to `readahead` pages, so pswpin is
divided by `readahead`.

Hysteresis: on when a signal lasted ON_AFTER seconds (at once if Mem > M confirms the paging), off when all signals
stayed below their low marks for OFF_AFTER seconds. `decide` is the rule, a pure function of the state so far and one
`Sample`. The kernel's PSI trigger (`open_trigger`) wakes the agent at the onset. The agent then looks every CHECK_EVERY
seconds until memory is at ease again (`restless`), and every IDLE_CHECK_EVERY seconds otherwise.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ctl.errors import CoschedError
from ctl.kernel import sysinfo
from ctl.kernel.kernfs import read

__all__ = [
    "CHECK_EVERY",
    "IDLE_CHECK_EVERY",
    "PAGING_S",
    "STALL_LOW",
    "Sample",
    "State",
    "decide",
    "mem_and_limit",
    "open_trigger",
    "read_ahead",
    "restless",
    "take_sample",
]

RESERVE_SHARE: Final = 0.03  # of MemTotal: program text and other file pages that tasks cannot run without
RESERVE_MIN: Final = 16 << 20  # bytes: the same on small machines
LOW_SHARE: Final = 0.95  # of M: Mem must fall below this; a task of 5 % coming and going must not flip the mode

PAGING_S: Final = 4.0  # refaults/s that confirm Mem > M: more than a daemon's hourly errand, less than any thrashing
REFAULTS_HIGH: Final = 60.0  # refaults/s that count alone: half of what a disk of 8 ms can serve (125/s)
REFAULTS_LOW: Final = 20.0
STALL_HIGH: Final = 0.20  # share of the time in which some task waited for memory (PSI some), counts alone
STALL_LOW: Final = 0.05

ON_AFTER: Final = 0.8  # seconds between two checks that both see it: starting one big program pages for a moment, too
OFF_AFTER: Final = 3.0  # seconds of quiet: longer than the communication rounds during which a job touches no new page
CHECK_EVERY: Final = 1.0  # seconds between checks while memory is short; the window of FLT is as long
MIN_INTERVAL: Final = 0.3  # seconds: a rate over less is noise
MAX_INTERVAL: Final = 5.0  # seconds: a rate over more tells nothing of now

TRIGGER_STALL: Final = 0.05  # of TRIGGER_WINDOW: when the kernel wakes us; = STALL_LOW, the least that can matter
TRIGGER_WINDOW: Final = 1.0  # seconds
IDLE_CHECK_EVERY: Final = 2.0  # seconds between checks while memory is at ease: where thrashing does not show as stalls

_PRESSURE = Path("/proc/pressure/memory")
_PAGE_CLUSTER = "/proc/sys/vm/page-cluster"


@dataclass(frozen=True, slots=True)
class Sample:
    """The memory's state at one moment; sizes in bytes, counters since boot."""

    at: float  # monotonic seconds
    mem_total: int
    mem_available: int
    swap_total: int
    swap_free: int
    swap_cached: int  # in swap and in memory
    swapins: int  # pages, pswpin
    refaults: int  # pages, workingset_refault_anon
    stalled: float  # seconds, PSI "some"
    psi_some: float | None = None  # percent of the last 10 s; None where the kernel has no PSI
    psi_full: float | None = None
    readahead: int = 8  # the most pages that a read from swap brings


@dataclass(frozen=True, slots=True)
class State:
    """The verdict, its reason, and the history that the next decision needs."""

    overloaded: bool = False
    why: str = "no sign of memory shortage"
    since: float | None = None  # monotonic seconds: when the verdict last changed
    refaults_s: float | None = None  # anonymous refaults per second; None until two samples
    swapins_s: float | None = None  # pages read from swap per second, read-ahead included
    stall: float | None = None  # share of time, 0..1
    hot_since: float | None = None  # monotonic seconds: since when each check saw a high mark passed
    quiet_since: float | None = None  # monotonic seconds: since when all is below the low marks
    last: Sample | None = None


def mem_and_limit(sample: Sample) -> tuple[int, int]:
    """Mem and M in bytes."""
    reserve = max(RESERVE_MIN, int(sample.mem_total * RESERVE_SHARE))
    swapped = max(0, sample.swap_total - sample.swap_free - sample.swap_cached)
    return sample.mem_total - sample.mem_available + swapped, max(0, sample.mem_total - reserve)


def decide(state: State, sample: Sample) -> State:
    """The state after one more sample. A sample decides nothing if the sample before is old, or very recent."""
    last = state.last
    if last is None or sample.at - last.at > MAX_INTERVAL:
        return replace(state, last=sample, refaults_s=None, swapins_s=None, stall=None, hot_since=None)
    elapsed = sample.at - last.at
    if elapsed < MIN_INTERVAL:
        return state

    state = replace(
        state,
        last=sample,
        refaults_s=(sample.refaults - last.refaults) / elapsed,
        swapins_s=(sample.swapins - last.swapins) / elapsed,
        stall=min(1.0, max(0.0, (sample.stalled - last.stalled) / elapsed)),
    )
    return _stay_or_leave(state) if state.overloaded else _enter(state)


def restless(state: State) -> bool:
    """Whether the next check should come by itself, CHECK_EVERY seconds from now."""
    return state.overloaded or state.hot_since is not None


def take_sample() -> Sample:
    """The memory's state now."""
    memory, counters, pressure = sysinfo.meminfo(), sysinfo.vmstat(), sysinfo.pressure("memory")
    some, full = pressure.get("some"), pressure.get("full")
    return Sample(
        at=time.monotonic(),
        mem_total=memory["MemTotal"],
        mem_available=memory["MemAvailable"],
        swap_total=memory["SwapTotal"],
        swap_free=memory["SwapFree"],
        swap_cached=memory["SwapCached"],
        swapins=counters["pswpin"],
        refaults=counters["workingset_refault_anon"],
        stalled=some["total"] / 1e6 if some else 0.0,
        psi_some=some["avg10"] if some else None,
        psi_full=full["avg10"] if full else None,
        readahead=read_ahead(),
    )


def read_ahead() -> int:
    """The most pages that a read from swap brings."""
    return 1 << int(read(_PAGE_CLUSTER))


def open_trigger() -> int:
    """A file descriptor that polls EPOLLPRI when tasks begin to wait for memory; at most once per TRIGGER_WINDOW.

    Raises CoschedError if the kernel has no PSI, without which the onset would go unnoticed.
    """
    try:
        fd = os.open(_PRESSURE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise CoschedError(
            f"cannot watch memory pressure ({_PRESSURE}: {error.strerror}): boot the kernel with psi=1"
        ) from None
    try:
        os.write(fd, f"some {int(TRIGGER_STALL * 1e6)} {int(TRIGGER_WINDOW * 1e6)}\0".encode())
    except OSError as error:
        os.close(fd)
        raise CoschedError(f"the kernel refuses a trigger on {_PRESSURE}: {error.strerror}") from None
    return fd


def _rates(state: State) -> tuple[float, float]:
    """Pages that come back per second, share of time stalled."""
    assert state.last is not None
    reads = (state.swapins_s or 0.0) / state.last.readahead
    return max(state.refaults_s or 0.0, reads), state.stall or 0.0


def _enter(state: State) -> State:
    assert state.last is not None
    mem, limit = mem_and_limit(state.last)
    refaults, stall = _rates(state)
    if mem > limit and refaults >= PAGING_S:
        return _on(state, f"Mem {_mib(mem)} > M {_mib(limit)} and {refaults:.0f} refaults/s")

    signs = []
    if refaults >= REFAULTS_HIGH:
        signs.append(f"{refaults:.0f} refaults/s >= {REFAULTS_HIGH:.0f}")
    if stall >= STALL_HIGH:
        signs.append(f"tasks stalled on memory {stall:.0%} of the time >= {STALL_HIGH:.0%}")
    if not signs:
        return replace(state, hot_since=None, why=_ease(mem, limit, refaults))
    hot_since = state.last.at if state.hot_since is None else state.hot_since
    if state.last.at - hot_since < ON_AFTER:
        return replace(state, hot_since=hot_since)
    return _on(state, " and ".join(signs))


def _stay_or_leave(state: State) -> State:
    assert state.last is not None
    mem, limit = mem_and_limit(state.last)
    refaults, stall = _rates(state)
    short = mem > limit * LOW_SHARE and refaults >= PAGING_S
    if short or refaults >= REFAULTS_LOW or stall >= STALL_LOW:
        return replace(state, quiet_since=None)
    quiet_since = state.last.at if state.quiet_since is None else state.quiet_since
    if state.last.at - quiet_since < OFF_AFTER:
        return replace(state, quiet_since=quiet_since)
    return replace(
        state,
        overloaded=False,
        since=state.last.at,
        quiet_since=None,
        hot_since=None,
        why=_ease(mem, limit, refaults),
    )


def _on(state: State, why: str) -> State:
    assert state.last is not None
    return replace(state, overloaded=True, since=state.last.at, hot_since=None, quiet_since=None, why=why)


def _ease(mem: int, limit: int, refaults: float) -> str:
    if mem <= limit:
        return f"Mem {_mib(mem)} <= M {_mib(limit)}"
    return f"Mem {_mib(mem)} > M {_mib(limit)}, but only {refaults:.0f} refaults/s"


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"
