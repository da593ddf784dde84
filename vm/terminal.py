# SPDX-License-Identifier: GPL-2.0-or-later
"""The host's terminal while a command in a guest has it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import socket
import struct
import sys
import termios
import tty
from collections.abc import Iterator

__all__ = ["raw_terminal", "terminal_size"]


def terminal_size() -> tuple[int, int]:
    """Return rows and columns of the terminal on standard input, 24x80 when there is none."""
    try:
        rows, cols, _, _ = struct.unpack("HHHH", fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8))
    except OSError as err:
        if err.errno != errno.ENOTTY:
            raise
        rows = cols = 0
    return rows or 24, cols or 80


@contextlib.contextmanager
def raw_terminal(control: socket.socket) -> Iterator[None]:
    """Hand every key to the guest and keep it told of the terminal's size, until the block ends."""
    if not os.isatty(0):
        yield
        return
    before = termios.tcgetattr(0)

    def resized(_signal: int, _frame: object) -> None:
        with contextlib.suppress(OSError):
            control.send("size {} {}\n".format(*terminal_size()).encode(), socket.MSG_DONTWAIT)

    old = signal.signal(signal.SIGWINCH, resized)
    try:
        tty.setraw(0)
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, old)
        sys.stdout.flush()
