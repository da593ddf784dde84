# SPDX-License-Identifier: GPL-2.0-or-later
"""The queues of a network device and before it (the paper's modules stadque and staddev), and of arrived packets.

On the way out a packet stands in the device's qdisc, then in its ring. On the way in it stands in the ring, then in the
backlog of a CPU (softnet), if the driver has no NAPI of its own, or RPS sends the packet to another CPU.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from ctl.errors import USAGE, CoschedError, brief
from ctl.kernel.dumps import Dumps, Refused, attributes, layout, number_of, request
from ctl.kernel.imports import only_submodules

with only_submodules("pyroute2"):
    from pyroute2.netlink.exceptions import NetlinkError
    from pyroute2.netlink.generic.ethtool import NlEthtool
    from pyroute2.netlink.nlsocket import NetlinkSocket
    from pyroute2.netlink.rtnl import RTM_GETQDISC, RTM_GETROUTE, RTM_GETSTATS
    from pyroute2.netlink.rtnl.ifstatsmsg import ifstatsmsg
    from pyroute2.netlink.rtnl.rtmsg import rtmsg
    from pyroute2.netlink.rtnl.tcmsg import tcmsg
    from pyroute2.netlink.rtnl.tcmsg.common import stats2

__all__ = ["Counters", "Device", "QdiscQueue", "Softnet", "SoftnetQueue", "default_device"]

_NETLINK_ROUTE: Final = 0
_ROOT: Final = 0xFFFFFFFF  # TC_H_ROOT
_MAIN: Final = 254  # RT_TABLE_MAIN
_TC, _TC_MEMBERS = layout(tcmsg)
_QUEUE, _QUEUE_MEMBERS = layout(stats2.queue)
_STATS, _STATS_MEMBERS = layout(ifstatsmsg.ifstats64)
_STATS_HEAD, _ = layout(ifstatsmsg)
_ROUTE, _ROUTE_MEMBERS = layout(rtmsg)
_WORD: Final = struct.Struct("=I")
_STATS2: Final = number_of(tcmsg, "TCA_STATS2")
_STATS_QUEUE: Final = number_of(stats2, "TCA_STATS_QUEUE")
_LINK_64: Final = number_of(ifstatsmsg, "IFLA_STATS_LINK_64")
_OIF: Final = number_of(rtmsg, "RTA_OIF")
_NET: Final = Path("/sys/class/net")
_SOFTNET: Final = "/proc/net/softnet_stat"
_DROPPED, _SQUEEZED, _BACKLOG = 1, 2, 11  # columns of softnet_stat
_MOST: Final = 1 << 16  # bytes of a small file


class QdiscQueue(NamedTuple):
    """The queue of a device's root qdisc, with all below it."""

    packets: int
    bytes: int
    drops: int  # packets ever dropped


class Counters(NamedTuple):
    """The packets of a device since it exists."""

    rx_packets: int
    tx_packets: int
    rx_bytes: int
    tx_bytes: int
    rx_drops: int  # no room in the ring, no memory, or nobody to take it
    tx_drops: int
    collisions: int


class SoftnetQueue(NamedTuple):
    """The backlogs of all CPUs together."""

    packets: int  # that wait now
    drops: int  # ever dropped, because a backlog was full
    squeezed: int  # times that work was left over when the softirq's time was up


class Device:
    """One device; a context manager."""

    def __init__(self, name: str) -> None:
        """Open it. Raises CoschedError if there is none of this name."""
        try:
            self.index = socket.if_nametoindex(name)
        except (OSError, ValueError):
            there = ", ".join(other for _, other in socket.if_nameindex())
            raise CoschedError(f"there is no interface {brief(name)}: choose one of {there}", USAGE) from None
        self.name = name
        self._route = _route_socket()
        self._qdiscs = request(tcmsg(), RTM_GETQDISC)
        asked = ifstatsmsg()
        asked["ifindex"], asked["filter_mask"] = self.index, 1 << (_LINK_64 - 1)
        self._stats = request(asked, RTM_GETSTATS, dump=False)
        limits = sorted((_NET / name / "queues").glob("tx-*/byte_queue_limits/inflight"))
        self._in_flight = [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in limits]

    def qdisc(self) -> QdiscQueue:
        """The queue of its root qdisc; empty where it has none."""
        for data, at, end in self._route.ask(self._qdiscs):
            found = dict(zip(_TC_MEMBERS, _TC.unpack_from(data, at), strict=True))
            if found["index"] == self.index and found["parent"] == _ROOT:
                return _queue(data, at + _TC.size, end)
        return QdiscQueue(0, 0, 0)

    def counters(self) -> Counters:
        """Its counters. Raises CoschedError if the device is gone."""
        try:
            ((data, at, end),) = self._route.ask(self._stats)
        except Refused as refused:
            raise CoschedError(f"interface {self.name} is gone: {refused}") from None
        place, _ = attributes(data, at + _STATS_HEAD.size, end)[_LINK_64]
        one = dict(zip(_STATS_MEMBERS, _STATS.unpack_from(data, place), strict=True))
        return Counters(
            one["rx_packets"],
            one["tx_packets"],
            one["rx_bytes"],
            one["tx_bytes"],
            one["rx_dropped"] + one["rx_missed_errors"] + one["rx_fifo_errors"],
            one["tx_dropped"],
            one["collisions"],
        )

    def ring_bytes(self) -> int | None:
        """Bytes in its rings for sending; None if its driver does not count them (no byte queue limits)."""
        if not self._in_flight:
            return None
        return sum(int(os.pread(descriptor, _MOST, 0)) for descriptor in self._in_flight)

    def rings(self) -> tuple[int, int] | None:
        """(places in its rings for receiving, for sending), packets each; None if its driver does not tell."""
        with contextlib.suppress(NetlinkError):
            with contextlib.closing(NlEthtool()) as ethtool:
                (found,) = ethtool.get_rings(ifname=self.name)
            receiving, sending = found.get_attr("ETHTOOL_A_RINGS_RX"), found.get_attr("ETHTOOL_A_RINGS_TX")
            return (receiving, sending) if receiving and sending else None
        return None

    def close(self) -> None:
        """Close it."""
        self._route.close()
        for descriptor in self._in_flight:
            os.close(descriptor)
        self._in_flight = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Softnet:
    """The backlogs of arrived packets; a context manager."""

    def __init__(self) -> None:
        """Open the kernel's file of them."""
        self._file = os.open(_SOFTNET, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> SoftnetQueue:
        """All CPUs together, now."""
        rows = [line.split() for line in os.pread(self._file, _MOST, 0).splitlines()]
        return SoftnetQueue(*(sum(int(row[at], 16) for row in rows) for at in (_BACKLOG, _DROPPED, _SQUEEZED)))

    def close(self) -> None:
        """Close it."""
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def default_device() -> str:
    """The device of the default route, else the first that is up and leads out, else the loopback."""
    names = dict(socket.if_nameindex())
    with _route_socket() as route:
        for data, at, end in route.ask(request(rtmsg(), RTM_GETROUTE)):
            found = dict(zip(_ROUTE_MEMBERS, _ROUTE.unpack_from(data, at), strict=True))
            places = attributes(data, at + _ROUTE.size, end)
            if found["dst_len"] == 0 and found["table"] == _MAIN and _OIF in places:
                (index,) = _WORD.unpack_from(data, places[_OIF][0])
                return names[index]
    up = [name for name in names.values() if (_NET / name / "operstate").read_text().strip() == "up"]
    return (up or ["lo"])[0]


def _route_socket() -> Dumps:
    opened: Any = NetlinkSocket(_NETLINK_ROUTE)
    opened.bind()
    return Dumps(opened)


def _queue(data: bytes, at: int, end: int) -> QdiscQueue:
    """The queue in the attributes of a qdisc."""
    outer = attributes(data, at, end)
    if _STATS2 not in outer:
        return QdiscQueue(0, 0, 0)
    inner = attributes(data, *outer[_STATS2])
    one = dict(zip(_QUEUE_MEMBERS, _QUEUE.unpack_from(data, inner[_STATS_QUEUE][0]), strict=True))
    return QdiscQueue(one["qlen"], one["backlog"], one["drops"])
