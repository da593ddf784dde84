# SPDX-License-Identifier: GPL-2.0-or-later
"""For tests: kill, cut off and bring back nodes of vm/cluster, from a guest or from the host."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from collections.abc import Iterator
from io import RawIOBase
from pathlib import Path

from vm.host import VmError
from vm.qemu import PORTS

__all__ = ["Control"]

_LATER_S = 0.1
_BUSY_S = 300.0  # another program's request may be to start a node


class Control:
    """Requests to vm/cluster, see nodes.py. A method returns when its request is done, and raises VmError when the
    request is refused.

    >>> Control().cut("node2")  # in a guest  # doctest: +SKIP
    >>> Control(Path("socket")).cut("node2")  # on the host, after vm/cluster --control socket  # doctest: +SKIP
    """

    def __init__(self, path: Path | None = None) -> None:
        """path: the socket of vm/cluster --control; without it this program runs in a node."""
        self._path = path

    def kill(self, node: str) -> None:
        """Power a node off, without notice."""
        self.ask(f"kill {node}")

    def start(self, node: str) -> None:
        """Boot a killed node; it keeps only its name, address and membership."""
        self.ask(f"start {node}")

    def cut(self, node: str) -> None:
        """Pull a node's network cable: messages are lost silently."""
        self.ask(f"cut {node}")

    def mend(self, node: str) -> None:
        """Plug a node's network cable in again."""
        self.ask(f"mend {node}")

    def key(self, node: str, key: str) -> None:
        """Press a key of a node's keyboard, by QEMU's name for it."""
        self.ask(f"key {node} {key}")

    def nodes(self) -> dict[str, str]:
        """The nodes and their states: up, booting, cut, off."""
        pairs = (word.partition("=") for word in self.ask("nodes").split())
        return {name: state for name, _, state in pairs}

    def ask(self, line: str) -> str:
        """Send one request and return the text of its answer; "later" tells what to ask in a while instead."""
        while True:
            with self._stream() as stream:
                stream.write(line.encode() + b"\n")
                answer = stream.readline().decode(errors="replace").strip()
            word, _, text = answer.partition(" ")
            if word != "later":
                break
            line = text
            time.sleep(_LATER_S)
        if word != "ok":
            raise VmError(text or "vm/cluster does not answer")
        return text

    @contextlib.contextmanager
    def _stream(self) -> Iterator[RawIOBase]:
        if self._path is None:
            with os.fdopen(_open_port(), "r+b", buffering=0) as stream:
                yield stream
            return
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(self._path))
            except OSError as error:
                raise VmError(f"cannot reach vm/cluster at {self._path}: {error.strerror}") from None
            with connection.makefile("rwb", buffering=0) as stream:
                yield stream


def _open_port() -> int:
    """The port to the host; only one program can have it open."""
    paths = list(Path("/dev").glob(f"vport*p{len(PORTS) + 1}"))
    if not paths:
        raise VmError("this is no node of vm/cluster; on the host, name the socket of its option --control")
    until = time.monotonic() + _BUSY_S
    while True:
        try:
            return os.open(paths[0], os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > until:
                raise VmError(f"cannot open {paths[0]}: {error.strerror}") from None
        time.sleep(0.05)
