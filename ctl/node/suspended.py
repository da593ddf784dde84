# SPDX-License-Identifier: GPL-2.0-or-later
"""The jobs of this node whose owner has stopped all their processes, by SIGSTOP, Ctrl-Z or with a debugger.

A job counts when two looks in a row find it so: a debugger stops programs for moments. One look finds that it goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ctl.kernel.process_state import all_stopped
from ctl.node.set_memory import Job

__all__ = ["Suspended"]

_APART: Final = 0.5  # seconds between the two looks: jobs that begin or end make others come sooner


class Suspended:
    """What the looks have found."""

    def __init__(self) -> None:
        self.jids: frozenset[str] = frozenset()
        self._since: dict[str, float] = {}  # jobs that were found stopped at each look since then, steady clock

    def look(self, jobs: Iterable[Job], steady: float) -> None:
        """Look at all jobs of this node."""
        self._since = {job.jid: self._since.get(job.jid, steady) for job in jobs if all_stopped(job.pids)}
        self.jids = frozenset(jid for jid, since in self._since.items() if steady >= since + _APART)
