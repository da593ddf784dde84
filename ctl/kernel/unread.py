# SPDX-License-Identifier: GPL-2.0-or-later
"""Messages left unread: their task has used CPU time since, and has not touched the socket.

Some messages are never read: UCX, the transport below MPI, leaves a wake-up datagram in a socket of each rank. If it
counted, every rank would seem to have a waiting message for ever. Unread messages of a sleeping task still count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ctl.kernel.observations import Socket
from ctl.kernel.sysinfo import thread_cpu_ms

__all__ = ["Unread"]


class Unread:
    """Follows the sockets from sweep to sweep."""

    def __init__(self, cpu_ms: Callable[[int], float | None] = thread_cpu_ms) -> None:
        """`cpu_ms` tells the CPU time of a thread."""
        self._cpu_ms = cpu_ms
        self._since: dict[int, tuple[int, float]] = {}  # address -> changes, and CPU time its owner had then

    def left(self, sockets: Mapping[int, Socket], unread_ms: int) -> set[int]:
        """Addresses of the sockets whose messages are left lying, by their addresses; none for 0 ms."""
        since, found = self._since, set()
        self._since = {}
        for address, socket in sockets.items():
            if not unread_ms or not socket.tid or not (socket.rcv or socket.snd):
                continue
            used = self._cpu_ms(socket.tid)
            if used is None:
                continue
            changes, before = since.get(address, (socket.changes, used))
            if changes != socket.changes or used < before:
                before = used
            elif used - before >= unread_ms:
                found.add(address)
                continue
            self._since[address] = (socket.changes, before)
        return found
