# SPDX-License-Identifier: GPL-2.0-or-later
"""The queues of TCP and UDP sockets, as sock_diag tells them (the paper's module stadsoc), for all tasks.

sock_diag counts bytes. Packets in a queue are what the sensors count, for the sockets of jobs: `ctl/kernel/sockets.py`.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from socket import AF_INET, AF_INET6, IPPROTO_UDP
from typing import Final

from ctl.errors import CoschedError
from ctl.kernel.dumps import HEADER, Dumps, Refused, attributes, layout, number_of, offset_of, request
from ctl.kernel.imports import only_submodules

with only_submodules("pyroute2"):
    from pyroute2.netlink import nlmsg
    from pyroute2.netlink.diag import SOCK_DIAG_BY_FAMILY, SS_ALL, SS_CONN, DiagSocket, inet_diag_msg, inet_diag_req

__all__ = ["COLUMNS", "Columns", "InetSockets"]

COLUMNS: Final = {
    "cookie": "its number, never used again",
    "inode": "of its file; 0: it has none any more",
    "cgroup": "id of the cgroup in which it was made",
    "rcv_bytes": "in the receive queue; UDP: with the memory that holds them",
    "snd_bytes": "in the send queue: not sent, or not acknowledged; UDP: with the memory that holds them",
    "snd_segments": "TCP: sent and not acknowledged",
    "retransmits": "TCP: segments ever sent again",
    "drops": "packets ever dropped at this socket",
    "rcv_memory": "bytes of memory that the receive queue takes",
    "rcv_limit": "SO_RCVBUF: bytes of memory that it may take",
}
"""What is told of each socket."""

_INFO: Final = number_of(inet_diag_msg, "INET_DIAG_INFO")
_MEMORY: Final = number_of(inet_diag_msg, "INET_DIAG_SKMEMINFO")
_CGROUP: Final = number_of(inet_diag_msg, "INET_DIAG_CGROUP_ID")
_WANTED: Final = 1 << (_INFO - 1) | 1 << (_MEMORY - 1)
_TCP_INFO: Final = inet_diag_msg.tcp_info
# where a column stands: None is the message itself, a number an attribute
_WANTED_OF: Final[dict[int | None, tuple[tuple[int, str, str], ...]]] = {
    None: tuple(
        (offset_of(inet_diag_msg, f"idiag_{member}"), form, name)
        for member, form, name in (
            ("cookie", "Q", "cookie"),
            ("rqueue", "I", "rcv_bytes"),
            ("wqueue", "I", "snd_bytes"),
            ("inode", "I", "inode"),
        )
    ),
    _CGROUP: ((0, "Q", "cgroup"),),
    _MEMORY: ((0, "I", "rcv_memory"), (4, "I", "rcv_limit"), (32, "I", "drops")),  # linux/sock_diag.h, SK_MEMINFO_*
    _INFO: (
        (offset_of(_TCP_INFO, "tcpi_unacked"), "I", "snd_segments"),
        (offset_of(_TCP_INFO, "tcpi_total_retrans"), "I", "retransmits"),
    ),
}
_BODY: Final = layout(inet_diag_msg)[0].size  # attributes follow
_WORD: Final = 4  # bytes; also those of struct nlattr, which tell the value's length and number, before it
_TCPDIAG_GETSOCK: Final = 18  # linux/inet_diag.h


class _TcpQuestion(nlmsg):  # type: ignore[misc]
    """struct inet_diag_req, the question for the TCP sockets of both families.

    The newer question has one family, and the kernel walks its whole hash table for each: 0.14 ms on a machine of 4 GB.
    """

    fields = (
        ("family", "B"),
        ("src_len", "B"),
        ("dst_len", "B"),
        ("ext", "B"),
        ("id", "48s"),
        ("states", "I"),
        ("dbs", "I"),
    )


class InetSockets:
    """Asks for the sockets of this network namespace; a context manager."""

    def __init__(self) -> None:
        """Open the socket. Raises CoschedError if this kernel answers for neither TCP nor UDP."""
        opened = DiagSocket()
        opened.bind()
        self._dumps = Dumps(opened)
        self._forms: dict[int, _Form] = {}  # by length
        self._questions: list[bytes] = []
        for question in (_tcp(), _udp(AF_INET), _udp(AF_INET6)):
            try:
                self._dumps.ask(question)
            except Refused as refused:
                if refused.number not in (errno.ENOENT, errno.EINVAL):
                    self.close()
                    raise CoschedError(f"cannot ask for sockets: {refused}") from None
            else:
                self._questions.append(question)
        if not self._questions:
            self.close()
            raise CoschedError("this kernel tells no queues of sockets: it needs the modules tcp_diag and udp_diag")

    def read(self) -> Columns:
        """The sockets as they are now."""
        tables = (table for question in self._questions for table in self._dumps.tables(question).items())
        return Columns([one for length, table in tables for one in self._formed(length, table)])

    def _formed(self, length: int, table: bytes) -> Iterator[tuple[_Form, bytes]]:
        """A table of messages of one length, in parts that have one form each."""
        form = self._forms.get(length)
        if form is None or not form.fits(table):
            form = self._forms[length] = _Form(table[:length])
        if form.fits(table):
            yield form, table
        else:
            for at in range(0, len(table), length):
                yield from self._formed(length, table[at : at + length])

    def close(self) -> None:
        """Close the socket."""
        self._dumps.close()

    def __enter__(self) -> InetSockets:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _tcp() -> bytes:
    message = _TcpQuestion()
    message["ext"], message["states"], message["id"] = _WANTED, SS_CONN, bytes(48)
    return request(message, _TCPDIAG_GETSOCK)


def _udp(family: int) -> bytes:
    message = inet_diag_req()
    message["sdiag_family"], message["sdiag_protocol"] = family, IPPROTO_UDP
    message["idiag_ext"], message["idiag_states"] = _WANTED, SS_ALL
    return request(message, SOCK_DIAG_BY_FAMILY)


class Columns:
    """Sockets that neither listen nor are remainders of closed ones, by columns: 1,000 objects would take 1 ms."""

    def __init__(self, tables: list[tuple[_Form, bytes]]) -> None:
        """Take tables of messages, each of one form. A column is unpacked when it is first asked for."""
        self._tables = tables
        self._columns: dict[str, list[int]] = {}

    def __getitem__(self, name: str) -> Sequence[int]:
        """A column of COLUMNS, a number for each socket; where a socket has none, 0."""
        if name not in self._columns:
            self._columns[name] = [*chain.from_iterable(form.column(name, table) for form, table in self._tables)]
        return self._columns[name]


class _Form:
    """Where in messages of one length everything stands."""

    def __init__(self, message: bytes) -> None:
        """Take the form of this message."""
        self._size = size = len(message)
        starts = {number: start for number, (start, _) in attributes(message, HEADER + _BODY, size).items()}
        self._heads = {start - _WORD: message[start - _WORD : start] for start in starts.values()}
        self._places: dict[str, slice | struct.Struct] = {}
        for number, start in [(None, HEADER), *starts.items()]:
            for offset, form, name in _WANTED_OF.get(number, ()):
                at = start + offset
                self._places[name] = self._each(at) if form == "I" else struct.Struct(f"={at}xQ{size - at - 8}x")

    def _each(self, at: int) -> slice:
        """The word at this place of each message."""
        return slice(at // _WORD, None, self._size // _WORD)

    def fits(self, table: bytes) -> bool:
        """Whether all messages of a table have this form: the same attributes at the same places."""
        words, number = memoryview(table).cast("I"), len(table) // self._size
        return all(words[self._each(at)].tobytes() == head * number for at, head in self._heads.items())

    def column(self, name: str, table: bytes) -> Iterable[int]:
        """A number of each message of a table."""
        place = self._places.get(name)
        if place is None:
            return repeat(0, len(table) // self._size)
        if isinstance(place, slice):
            return memoryview(table).cast("I")[place].tolist()
        return chain.from_iterable(place.iter_unpack(table))
