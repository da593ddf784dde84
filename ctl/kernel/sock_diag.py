# SPDX-License-Identifier: GPL-2.0-or-later
"""The queues of TCP and UDP sockets, as sock_diag tells them (the paper's module stadsoc), for all tasks.

sock_diag counts bytes. Packets in a queue are what the sensors count, for the sockets of jobs: `ctl/kernel/sockets.py`.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from operator import itemgetter
from socket import AF_INET, AF_INET6, IPPROTO_UDP
from typing import Final, NamedTuple

from ctl.errors import CoschedError
from ctl.kernel.dumps import Dumps, Refused, attributes, layout, number_of, offset_of, request
from ctl.kernel.imports import only_submodules

with only_submodules("pyroute2"):
    from pyroute2.netlink import nlmsg
    from pyroute2.netlink.diag import SOCK_DIAG_BY_FAMILY, SS_ALL, SS_CONN, DiagSocket, inet_diag_msg, inet_diag_req

__all__ = ["InetSocket", "InetSockets"]

_INFO: Final = number_of(inet_diag_msg, "INET_DIAG_INFO")
_MEMORY: Final = number_of(inet_diag_msg, "INET_DIAG_SKMEMINFO")
_CGROUP: Final = number_of(inet_diag_msg, "INET_DIAG_CGROUP_ID")
_WANTED: Final = 1 << (_INFO - 1) | 1 << (_MEMORY - 1)
_TCP_INFO: Final = inet_diag_msg.tcp_info
# what is wanted of a message, by where it stands: None is the message itself, a number an attribute; "" is passed over
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
_HEAD: Final = 4  # bytes of struct nlattr, which tell the value's length and number
_TCPDIAG_GETSOCK: Final = 18  # linux/inet_diag.h


class InetSocket(NamedTuple):
    """A socket that is neither listening nor a remainder of a closed one."""

    cookie: int  # its number, never used again
    inode: int  # of its file; 0: it has none any more
    cgroup: int  # id of the cgroup in which it was made
    rcv_bytes: int  # in the receive queue; UDP: with the memory that holds them
    snd_bytes: int  # in the send queue: not sent, or not acknowledged; UDP: with the memory that holds them
    snd_segments: int  # TCP: sent and not acknowledged
    retransmits: int  # TCP: segments ever sent again
    drops: int  # packets ever dropped at this socket
    rcv_memory: int  # bytes of memory that the receive queue takes
    rcv_limit: int  # SO_RCVBUF: bytes of memory that it may take


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

    def read(self) -> Iterator[InetSocket]:
        """The sockets as they are now."""
        for question in self._questions:
            for data, at, end in self._dumps.ask(question):
                form = self._forms.get(end - at)
                one = form.read(data, at) if form else None
                if one is None:
                    form = self._forms[end - at] = _Form(data, at, end)
                    one = form.read(data, at)
                    assert one is not None, "a message has its own form"
                yield one

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


class _Form:
    """Where in messages of one length everything stands, so that one unpacking reads it: 1 µs, not 5."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        """Take the form of this message."""
        found = {number: start - at for number, (start, _) in attributes(data, at + _BODY, end).items()}
        places = [(offset, form, name) for offset, form, name in _WANTED_OF[None]]
        for number, start in found.items():
            members = _WANTED_OF.get(number, ())
            places += [(start - _HEAD, "I", "")] if members else []
            places += [(start + offset, form, name) for offset, form, name in members]
        text, after = "=", 0
        for offset, form, _ in sorted(places):
            text += f"{offset - after}x{form}"
            after = offset + struct.calcsize(form)
        names = [name for _, _, name in sorted(places)]
        missing = len(names)  # the index of a 0 behind all
        self._whole = struct.Struct(text)
        self._wanted = itemgetter(*(names.index(name) if name in names else missing for name in InetSocket._fields))
        self._heads = itemgetter(*(index for index, name in enumerate(names) if not name), missing, missing)
        self._same = self._heads((*self._whole.unpack_from(data, at), 0))

    def read(self, data: bytes, at: int) -> InetSocket | None:
        """The socket in a message; None if the message has another form."""
        values = (*self._whole.unpack_from(data, at), 0)
        return InetSocket._make(self._wanted(values)) if self._heads(values) == self._same else None
