# SPDX-License-Identifier: GPL-2.0-or-later
"""A netlink socket that pyroute2 opens and binds, and that is read here: pyroute2 keeps no queue of this descriptor."""

from __future__ import annotations

import socket
from typing import Any, Self

__all__ = ["RawNetlink"]


class RawNetlink:
    """A second descriptor of a socket of pyroute2; a context manager."""

    def __init__(self, opened: Any, *, blocking: bool) -> None:
        """Take over an open and bound socket of pyroute2."""
        self._netlink = opened
        self._raw = socket.socket(fileno=socket.dup(opened.fileno()))
        self._raw.setblocking(blocking)

    def close(self) -> None:
        """Close both descriptors."""
        self._raw.close()
        self._netlink.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
