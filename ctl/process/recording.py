# SPDX-License-Identifier: GPL-2.0-or-later
"""The agent's events on their way to the disk: a socket, and a process that writes what comes through it.

The agent runs before all other tasks, so it must wait for nothing: not for a disk, and not for a thread of its own,
which may be put off while it holds the interpreter's lock. A send returns at once. While the socket is full, events are
dropped and counted. The writer outlives an agent that was killed by the moment that the rest takes.
"""

from __future__ import annotations

import contextlib
import grp
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ctl.monitor.event_log import FILE, EventLog
from ctl.protocol import GROUP, encode_line

__all__ = ["Keep", "Recorder", "start"]

Keep = Callable[[Mapping[str, object]], None]
"""Record an event; returns at once."""

_BACKLOG: Final = 4 << 20  # bytes that wait for the disk, with the kernel's own for each message: some 4,000 events
_LONGEST: Final = 64 << 10  # bytes of a message: figures of 700 jobs
_SO_SNDBUFFORCE: Final = 32  # asm-generic/socket.h


class Recorder:
    """The agent's end of the socket."""

    def __init__(self, way: socket.socket) -> None:
        """`way`: to the writer; a message is an event as a line."""
        way.setblocking(False)
        self._way = way
        self.lost = 0

    def keep(self, event: Mapping[str, object]) -> None:
        """Send an event to the writer; returns at once."""
        if self.lost and not self._send(_lost(self.lost)):
            self.lost += 1
            return
        self.lost = 0 if self._send(event) else 1

    def _send(self, event: Mapping[str, object]) -> bool:
        line = encode_line(event)
        if len(line) > _LONGEST:
            return False
        try:
            self._way.send(line)
        except OSError:  # full, or the writer was killed
            return False
        return True


def start(path: Path = FILE, tell: Callable[[str], None] = lambda _text: None) -> Keep:
    """Start the writer, and return the way to it. `tell` gets a sentence if the log is damaged or cannot be kept.

    Forks: call it before there are threads. The writer ends when this process has ended.
    """
    log = EventLog(path, group=_group())
    try:
        if damage := log.prepare():
            tell(damage)
    except OSError as error:
        tell(f"events are not recorded: {path}: {error.strerror}")
        return lambda _event: None
    ours, writers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with contextlib.suppress(OSError):  # not root, in a test: the backlog is the system's
        ours.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _BACKLOG)
    if os.fork() == 0:
        with contextlib.suppress(BaseException):
            _write(log, writers.detach())
        os._exit(0)
    writers.close()
    return Recorder(ours).keep


def _group() -> int:
    try:
        return grp.getgrnam(GROUP).gr_gid
    except KeyError:
        return -1


def _write(log: EventLog, descriptor: int) -> None:
    """The writer: copies lines to the log until the agent is gone."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # systemd sends them to all processes; the writer ends after the agent
    os.closerange(3, descriptor)  # the agent's lock and sockets
    os.closerange(descriptor + 1, os.sysconf("SC_OPEN_MAX"))
    failed = 0
    with socket.socket(fileno=descriptor) as way:
        while line := way.recv(_LONGEST):
            try:
                log.append(encode_line(_lost(failed)) + line if failed else line)
                failed = 0
            except OSError:  # the disk is full
                failed += 1


def _lost(count: int) -> dict[str, object]:
    """The event that stands in place of lost ones."""
    return {"time": time.time(), "kind": "lost", "text": f"{count} events were not recorded", "lost": count}
