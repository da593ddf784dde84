# SPDX-License-Identifier: GPL-2.0-or-later
"""What a running job gets by with: its working set and its ranks, for the history of jobs (ctl/jobs/history.py).

The working set is what a job has in memory and in swap. But a job that runs from one look to the next, and no page
comes back from swap, needs none of what it has there: then its working set is what it has in memory. The largest of a
run counts. It is a figure for the history alone: a running job's need stays all that it has, or else a job that was
squeezed would seem to fit.

Pages that the agent reads ahead count as pages that come back: a working set may be told too large by that.

Its ranks are the most processes of the job that execute one file: mpiexec and its daemons are one each.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

__all__ = ["WorkingSets", "ranks_of"]

_FEW: Final = 16  # pages that come back between two looks without a meaning
_SETTLE: Final = 3  # looks after a job goes on, in which its pages are on their way


def ranks_of(pids: Iterable[int]) -> int:
    """The most of these processes that execute the same file; 0: none is there any more.

    >>> ranks_of([os.getpid(), os.getpid()]), ranks_of([])
    (2, 0)
    """
    files: Counter[str] = Counter()
    for pid in pids:
        with contextlib.suppress(OSError):
            files[os.readlink(f"/proc/{pid}/exe")] += 1
    return max(files.values(), default=0)


class WorkingSets:
    """The working sets of the running jobs, look by look."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[int, int]] = {}  # refaults at the last look, and looks since it runs
        self._ranks: dict[str, tuple[int, int]] = {}  # processes when ranks were counted last, and the ranks

    def look(self, jid: str, resident: int, swapped: int, refaults: int) -> int:
        """The working set of a running job since the last look; 0: not known.

        `resident`, `swapped`: what it has in memory, and only in swap, bytes; `refaults`: pages, since it began.
        """
        before, looks = self._before.get(jid, (refaults, 0))
        self._before[jid] = refaults, looks + 1
        if swapped and looks < _SETTLE:
            return 0
        return resident + (swapped if refaults - before > _FEW else 0)

    def ranks(self, jid: str, pids: Collection[int]) -> int:
        """The ranks of a running job, counted anew when the number of its processes has changed."""
        if self._ranks.get(jid, (0, 0))[0] != len(pids):
            self._ranks[jid] = len(pids), ranks_of(pids)
        return self._ranks.get(jid, (0, 0))[1]

    def keep(self, jids: Iterable[str]) -> None:
        """These jobs run; others have ended or are stopped."""
        kept = set(jids)
        self._before = {jid: before for jid, before in self._before.items() if jid in kept}
        self._ranks = {jid: ranks for jid, ranks in self._ranks.items() if jid in kept}
