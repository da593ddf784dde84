# SPDX-License-Identifier: GPL-2.0-or-later
"""CPU limits that do not hold while contract=queue is loaded: those there are at the load, and those set since."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ctl.kernel import cpu_limits

__all__ = ["VoidedLimits"]

_SOON = 0.2  # seconds from the first write to the look: a unit that starts writes several


class VoidedLimits:
    """The limits that people were told of. A look reads every cgroup's three files, only after one was written."""

    def __init__(self, tell: Callable[..., None], by_class: bool) -> None:
        """`by_class`: contract=class, under which limits hold."""
        self._tell, self._by_class = tell, by_class
        self._told: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    def at_load(self) -> list[str]:
        """Those there are now, which the answer to `ctl load` names."""
        found = [] if self._by_class else cpu_limits.voided()
        self._told.update(found)
        return found

    def look_soon(self) -> None:
        """Somebody has set a limit."""
        if self._timer is None and not self._by_class:
            self._timer = asyncio.get_running_loop().call_later(_SOON, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        found = cpu_limits.voided()
        if news := [limit for limit in found if limit not in self._told]:
            self._tell("limits", cpu_limits.in_words(news), action="voided", limits=news)
        self._told = set(found)
