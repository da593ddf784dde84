# SPDX-License-Identifier: GPL-2.0-or-later
"""Is swapping active (CCS Alg. 3)? What came back from swap since the last look, where somebody had to make room.

Pages come back all the time without harm: a daemon wakes up, a job that was stopped goes on into free memory.
Set_Memory is about memory that is not there, so only pages count that come back while the kernel takes others away
(kswapd does, or who asks for memory; what a cgroup's limit or a push-out takes does not count).
"""

from __future__ import annotations

from ctl.kernel import sysinfo
from ctl.node.overload import PAGING_S, read_ahead

__all__ = ["Swapping"]

_TAKEN = ("pgsteal_kswapd", "pgsteal_direct")
_PAGE_S = 1e-4  # what a page costs at the least, however fast the device: a fault, and another page to be taken away


class Swapping:
    """Rates since the last look."""

    def __init__(self) -> None:
        self._last: tuple[float, int, int, int, float | None] | None = None

    def look(self, now: float) -> tuple[float, float]:
        """Pages per second that came back, as ctl/node/overload.py counts; the part of the time that they cost.

        That is the reads from swap devices that are under way, mean (they may be several), or _PAGE_S for each page if
        that is more. It is 0 where the kernel took less than PAGING_S pages a second: nobody waits for memory then.
        """
        counters, took = sysinfo.vmstat(), sysinfo.swap_read_s()
        taken = sum(counters[name] for name in _TAKEN)
        last, self._last = self._last, (now, counters["workingset_refault_anon"], counters["pswpin"], taken, took)
        if last is None or now <= last[0]:
            return 0.0, 0.0
        seconds = now - last[0]
        back = max(counters["workingset_refault_anon"] - last[1], (counters["pswpin"] - last[2]) / read_ahead())
        if (taken - last[3]) / seconds < PAGING_S:
            return back / seconds, 0.0
        reading = 1.0 if took is None or last[4] is None else (took - last[4]) / seconds
        return back / seconds, max(reading, back / seconds * _PAGE_S)
