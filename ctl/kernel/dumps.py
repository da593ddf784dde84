# SPDX-License-Identifier: GPL-2.0-or-later
"""Questions to netlink that are asked again and again: pyroute2 opens the socket and builds the request, once.

The answers are unpacked here, by the layouts that pyroute2 declares: its own parser takes 0.2 to 0.4 ms for each
question, and a monitor with a period of 100 ms has 1 ms for all it asks.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Any, Final

from ctl.errors import CoschedError
from ctl.kernel.imports import only_submodules
from ctl.kernel.raw_netlink import RawNetlink

with only_submodules("pyroute2"):
    from pyroute2.netlink import NLM_F_DUMP, NLM_F_MULTI, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR

__all__ = ["HEADER", "Answer", "Dumps", "Refused", "attributes", "layout", "number_of", "offset_of", "request"]

Answer = tuple[bytes, int, int]
"""A datagram, and where in it a message begins (behind its header) and ends."""

_HEADER: Final = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence number, port
HEADER: Final = _HEADER.size
"""Bytes of the header of a message."""
_ATTRIBUTE: Final = struct.Struct("=HH")  # struct nlattr
_ERROR: Final = struct.Struct("=i")
_KIND: Final = 0x3FFF  # of nla_type; above it are flags
_LARGEST: Final = 1 << 16  # bytes; the kernel's datagrams are at most 32 KiB


class Refused(CoschedError):
    """The kernel answers with an error; `number` is the errno."""

    def __init__(self, number: int) -> None:
        """Keep the number, and say it in words."""
        super().__init__(f"netlink: {os.strerror(number)}")
        self.number = number


class Dumps(RawNetlink):
    """A netlink socket for such questions."""

    def __init__(self, opened: Any) -> None:
        """Take over an open and bound socket of pyroute2."""
        super().__init__(opened, blocking=True)

    def ask(self, question: bytes) -> list[Answer]:
        """All messages of the answer. Raises Refused."""
        return [
            (data, start + HEADER, start + length)
            for data, at, length, number in self._runs(question)
            for start in range(at, at + number * length, length)
        ]

    def tables(self, question: bytes) -> dict[int, bytes]:
        """The messages of a long answer with their headers, those of one length behind each other. Raises Refused."""
        found: dict[int, list[bytes]] = {}
        for data, at, length, number in self._runs(question):
            found.setdefault(length, []).append(data[at : at + number * length])
        return {length: b"".join(parts) for length, parts in found.items()}

    def _runs(self, question: bytes) -> Iterator[tuple[bytes, int, int, int]]:
        """The messages of the answer: (datagram, where messages of one length begin, this length, their number)."""
        self._raw.sendto(question, (0, 0))  # the kernel's port
        more = True
        while more:
            data = self._raw.recv(_LARGEST)
            at, end = 0, len(data)
            while at < end and more:
                length, kind, flags, _, _ = _HEADER.unpack_from(data, at)
                if kind in (NLMSG_DONE, NLMSG_ERROR):
                    (code,) = _ERROR.unpack_from(data, at + HEADER) if length > HEADER else (0,)
                    if code < 0:
                        raise Refused(-code)
                    return
                length = (length + 3) & ~3
                number = _alike(data, length) if at == 0 else 1
                yield data, at, length, number
                at += number * length
                more = bool(flags & NLM_F_MULTI)


def _alike(data: bytes, length: int) -> int:
    """How many messages of this length a datagram begins with, if it has, but for a rest, no others; else 1."""
    number = len(data) // length
    lengths = memoryview(data)[: number * length].cast("I")[:: length // 4]
    return number if lengths.tobytes() == data[:4] * number else 1


def request(message: Any, kind: int, *, dump: bool = True) -> bytes:
    """The bytes of a message of pyroute2 as a question; `dump`: for all objects, else for one."""
    message["header"]["type"] = kind
    message["header"]["flags"] = NLM_F_REQUEST | (NLM_F_DUMP if dump else 0)
    message.encode()
    return bytes(message.data)


def attributes(data: bytes, at: int, end: int) -> dict[int, tuple[int, int]]:
    """Where the value of each attribute begins and ends, by its number."""
    found = {}
    while at < end:
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        found[kind & _KIND] = at + _ATTRIBUTE.size, at + length
        at += (length + 3) & ~3
    return found


# what pyroute2 declares of the kernel's structs


def layout(declared: Any) -> tuple[struct.Struct, tuple[str, ...]]:
    """A struct that pyroute2 declares: its layout, and its members."""
    formats = [form for _, form in declared.fields]
    order = ">" if any(form.startswith(">") for form in formats) else "="
    return struct.Struct(order + "".join(_native(form) for form in formats)), tuple(n for n, _ in declared.fields)


def offset_of(declared: Any, member: str) -> int:
    """Where a member of a struct begins, in bytes."""
    names = [name for name, _ in declared.fields]
    return struct.calcsize("=" + "".join(_native(form) for _, form in declared.fields[: names.index(member)]))


def number_of(declared: Any, attribute: str) -> int:
    """The number of an attribute."""
    return [name for name, _ in declared.nla_map].index(attribute)


def _native(form: str) -> str:
    return form.lstrip("<>=")
