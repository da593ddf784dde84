# SPDX-License-Identifier: GPL-2.0-or-later
"""The relay in the agent's process: connected, and connected anew when it failed."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from ctl.cluster.place import DIRECTORY, is_member
from ctl.contract import Local, Peers

__all__ = ["join"]

_PAUSE = 1.0  # seconds until a relay that failed starts anew
_log = logging.getLogger("ctl.process.daemon")


def join(local: Local, directory: Path = DIRECTORY) -> Peers | None:
    """The other nodes, if this one has joined a cluster; its next incarnation. Raises CoschedError, ImportError."""
    if not is_member(directory):
        return None
    # imported now: nodes without a cluster need no client of the broker
    from ctl.cluster.link import end
    from ctl.cluster.membership import Files
    from ctl.cluster.relay import Relay

    class Joined(Relay):
        """A relay that runs from start() to end()."""

        running: asyncio.Task[None] | None = None
        leaving = False

        def start(self) -> None:
            """Connect, now and whenever the connection is lost."""
            if self.leaving:
                return
            self.running = asyncio.get_running_loop().create_task(self.run())
            self.running.add_done_callback(self._ran)

        def _ran(self, task: asyncio.Task[None]) -> None:
            error = None if task.cancelled() else task.exception()
            if error is not None and not self.leaving:
                _log.error("the relay failed", exc_info=error)
                local.tell("cluster", f"the relay failed and starts anew: {error}", action="failed")
                # without it no lease would end, and what others stopped would stay so
                asyncio.get_running_loop().call_later(_PAUSE, self.start)

        async def end(self) -> None:
            """Take leave and disconnect."""
            self.leaving = True
            await self.farewell()
            if self.running is not None:
                await end(self.running)

    return Joined.of_this_node(local, Files(directory))
