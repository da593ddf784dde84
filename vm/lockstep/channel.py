# SPDX-License-Identifier: GPL-2.0-or-later
"""The host's side of the plugin's socket; the lines are told in host.c."""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from vm.host import VmError

__all__ = ["Channel", "shared_file", "time_of"]

_HEAD = struct.Struct("=16xq")  # of the shared file
_ANSWER_S = 60.0  # as long as the plugin waits for a guest


@contextlib.contextmanager
def shared_file() -> Iterator[Path]:
    """Make the file that guests share: in memory, and gone with this program however that ends."""
    file = os.memfd_create("lockstep")
    try:
        yield Path(f"/proc/{os.getpid()}/fd/{file}")
    finally:
        os.close(file)


def time_of(shared: Path) -> int:
    """Return the last boundary that the guests have reached, ns since they began: `now` in peers.c."""
    with shared.open("rb") as file:
        head = file.read(_HEAD.size)
    return int(_HEAD.unpack(head)[0]) if len(head) == _HEAD.size else 0


class Channel:
    """What one guest's plugin and this program say to each other; for several threads.

    answer: called in a thread of its own with each line that the guest asks, while all guests stand still; returns
    the line for the guest.
    """

    def __init__(self, end: socket.socket, answer: Callable[[str], str]) -> None:
        self._stream = end.makefile("rwb", buffering=0)
        self._answer = answer
        self._writing, self._doing, self._knocking = threading.Lock(), threading.Lock(), threading.Lock()
        self._did: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._open: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.joined = threading.Event()  # in step with the others, or gone
        threading.Thread(target=self._read, daemon=True).start()

    def _say(self, line: str) -> None:
        with self._writing:
            try:
                self._stream.write(line.encode() + b"\n")
            except (OSError, ValueError):
                raise VmError("the guest is gone") from None

    def _read(self) -> None:
        """Take what the plugin says, until it is gone."""
        with contextlib.suppress(OSError, ValueError):
            for raw in self._stream:
                word, _, text = raw.decode(errors="replace").rstrip("\n").partition(" ")
                if word == "ask":
                    threading.Thread(target=self._reply, args=(text,), daemon=True).start()
                elif word == "joined":
                    self.joined.set()
                else:
                    (self._did if word == "did" else self._open).put(text)
        self.joined.set()
        self._did.put(None)
        self._open.put(None)

    def _reply(self, text: str) -> None:
        with contextlib.suppress(VmError):
            self._say(f"answer {self._answer(text)}")

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Have all guests stand still at the next boundary, until the block ends."""
        with self._knocking:
            self._say("knock")
            _take(self._open, "stop")
            try:
                yield
            finally:
                self._say("go")

    def link(self, interface: str, up: bool) -> None:
        """Plug a network cable in, or pull it; the guest sees its carrier come or go."""
        self._do(f"set_link {interface} {'on' if up else 'off'}")

    def key(self, name: str) -> None:
        """Press and release a key, by QEMU's name for it: "a", "shift", "ret"."""
        self._do(f"sendkey {name}")

    def _do(self, line: str) -> None:
        """Have QEMU carry out a line of its text monitor, while guests stand still; raises VmError if it complains."""
        with self._doing:
            self._say(f"do {line}")
            if said := _take(self._did, line):
                raise VmError(f"QEMU refuses {line}: {said}")


def _take(answers: queue.SimpleQueue[str | None], what: str) -> str:
    try:
        said = answers.get(timeout=_ANSWER_S)
    except queue.Empty:
        raise VmError(f"the guest did not answer to {what} within {_ANSWER_S:g} s") from None
    if said is None:
        raise VmError(f"the guest is gone that was to {what}")
    return said.strip()
