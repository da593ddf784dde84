# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether swapping is active (CCS Alg. 3): pages that came back from swap since the last look while memory was short.

Pages come back all the time without harm: a daemon wakes up, or a stopped job goes on into free memory. Set_Memory acts
on a lack of memory. So a page counts only if it comes back while kswapd, or a task that asks for memory, takes other
pages away. Pages taken by a cgroup's limit or pushed out by the agent do not count.
"""

from __future__ import annotations

from ctl.kernel import swap, sysinfo
from ctl.node.overload import PAGING_S, read_ahead

__all__ = ["Swapping"]

_TAKEN = ("pgsteal_kswapd", "pgsteal_direct")
_PAGE_S = 1e-4  # the least cost of a page, even on a fast device: a fault, and the reclaim of another page


class Swapping:
    """Rates since the last look."""

    def __init__(self) -> None:
        self._last: tuple[float, int, int, int, float | None] | None = None

    def look(self, now: float) -> tuple[float, float]:
        """Pages per second that came back, as ctl/node/overload.py counts; the part of the time that they cost.

        The time is the mean number of reads under way from swap devices (several are possible), or _PAGE_S for each
        page if this is more. The time is 0 if the kernel took less than PAGING_S pages a second, because no task waits
        for memory then.
        """
        counters, took = sysinfo.vmstat(), swap.read_s()
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
