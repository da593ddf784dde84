# SPDX-License-Identifier: GPL-2.0-or-later
"""The agent's figures from time to time, for the log of events."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from ctl.contract import Measured
from ctl.errors import CoschedError
from ctl.kernel import sysinfo
from ctl.monitor.event_log import figures
from ctl.process.recording import Keep

__all__ = ["BUSY_S", "IDLE_S", "record"]

BUSY_S, IDLE_S = 10.0, 60.0
"""Seconds from one row of figures to the next: while there are jobs, and without."""

_RESOURCES: Final = ("cpu", "memory", "io")
_log = logging.getLogger("ctl.process.figures")


async def record(take: Callable[[], Measured], keep: Keep, busy: Callable[[], bool]) -> None:
    """Keep a row of figures from time to time, until the agent ends. `busy`: whether there are jobs."""
    left = 0.0  # seconds to the next row without jobs
    while True:
        try:
            if busy() or left <= 0:
                keep(_figures(take))
                left = IDLE_S
        except CoschedError:  # the agent is ending
            return
        except Exception:
            _log.exception("a row of figures is missing")
        await asyncio.sleep(BUSY_S)
        left -= BUSY_S


def _figures(take: Callable[[], Measured]) -> dict[str, object]:
    """A row of figures now. Raises CoschedError where there are none."""
    stalled = {name: sysinfo.pressure(name) for name in _RESOURCES}
    return figures(take(), {name: lines["some"]["total"] for name, lines in stalled.items() if lines}, time.time())
