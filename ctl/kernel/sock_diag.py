# SPDX-License-Identifier: GPL-2.0-or-later
"""The queues of TCP and UDP sockets, as sock_diag tells them (the paper's module stadsoc), for all tasks.

sock_diag counts bytes. Packets in a queue are what the sensors count, for the sockets of jobs: `ctl/kernel/sockets.py`.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from socket import AF_INET, AF_INET6, IPPROTO_TCP, IPPROTO_UDP
from typing import Final, NamedTuple

from ctl.errors import CoschedError
from ctl.kernel.dumps import Dumps, Refused, attributes, number_of, offset_of, request
from ctl.kernel.imports import only_submodules

with only_submodules("pyroute2"):
    from pyroute2.netlink import nlmsg
    from pyroute2.netlink.diag import SOCK_DIAG_BY_FAMILY, SS_ALL, SS_CONN, DiagSocket, inet_diag_msg, inet_diag_req

__all__ = ["InetSocket", "InetSockets"]

_INFO: Final = number_of(inet_diag_msg, "INET_DIAG_INFO")
_MEMORY: Final = number_of(inet_diag_msg, "INET_DIAG_SKMEMINFO")
_CGROUP: Final = number_of(inet_diag_msg, "INET_DIAG_CGROUP_ID")
_WANTED: Final = 1 << (_INFO - 1) | 1 << (_MEMORY - 1)
_COOKIE: Final = offset_of(inet_diag_msg, "idiag_cookie")
_COUNTS: Final = struct.Struct("=QIIIII")  # of struct inet_diag_msg, from the cookie on
_ATTRIBUTES: Final = _COOKIE + _COUNTS.size
_UNACKED: Final = offset_of(inet_diag_msg.tcp_info, "tcpi_unacked")
_RETRANSMITTED: Final = offset_of(inet_diag_msg.tcp_info, "tcpi_total_retrans")
_WORD: Final = struct.Struct("=I")
_LONG: Final = struct.Struct("=Q")
_SK_MEMINFO: Final = struct.Struct("=9I")  # linux/sock_diag.h: rmem_alloc, rcvbuf, wmem_alloc, sndbuf, …, drops
_TCPDIAG_GETSOCK: Final = 18  # linux/inet_diag.h


class InetSocket(NamedTuple):
    """A socket that is neither listening nor a remainder of a closed one."""

    cookie: int  # its number, never used again
    inode: int  # of its file; 0: it has none any more
    cgroup: int  # id of the cgroup in which it was made
    protocol: int  # IPPROTO_TCP, IPPROTO_UDP
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
        self._questions: list[tuple[int, bytes]] = []
        for protocol, question in ((IPPROTO_TCP, _tcp()), (IPPROTO_UDP, _udp(AF_INET)), (IPPROTO_UDP, _udp(AF_INET6))):
            try:
                self._dumps.ask(question)
            except Refused as refused:
                if refused.number not in (errno.ENOENT, errno.EINVAL):
                    self.close()
                    raise CoschedError(f"cannot ask for sockets: {refused}") from None
            else:
                self._questions.append((protocol, question))
        if not self._questions:
            self.close()
            raise CoschedError("this kernel tells no queues of sockets: it needs the modules tcp_diag and udp_diag")

    def read(self) -> Iterator[InetSocket]:
        """The sockets as they are now."""
        for protocol, question in self._questions:
            for data, at, end in self._dumps.ask(question):
                yield _socket(protocol, data, at, end)

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


def _socket(protocol: int, data: bytes, at: int, end: int) -> InetSocket:
    """A struct inet_diag_msg with its attributes."""
    cookie, _expires, rcv, snd, _uid, inode = _COUNTS.unpack_from(data, at + _COOKIE)
    found = attributes(data, at + _ATTRIBUTES, end)
    memory, limit, *_, drops = _SK_MEMINFO.unpack_from(data, found[_MEMORY][0]) if _MEMORY in found else (0, 0, 0)
    (cgroup,) = _LONG.unpack_from(data, found[_CGROUP][0]) if _CGROUP in found else (0,)
    segments = retransmits = 0
    if protocol == IPPROTO_TCP and _INFO in found:
        (segments,) = _WORD.unpack_from(data, found[_INFO][0] + _UNACKED)
        (retransmits,) = _WORD.unpack_from(data, found[_INFO][0] + _RETRANSMITTED)
    return InetSocket(cookie, inode, cgroup, protocol, rcv, snd, segments, retransmits, drops, memory, limit)
