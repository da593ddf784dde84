# SPDX-License-Identifier: GPL-2.0-or-later
"""Announcements of the kernel: sched_ext schedulers, processes, and the delays of single tasks.

pyroute2 makes the sockets, subscribes and parses the messages. This file turns the messages into tuples, which the
owner reads without blocking after polling fileno(). So no code polls the kernel for announced events.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

from ctl.errors import CoschedError
from ctl.kernel.btf import vmlinux
from ctl.kernel.imports import only_submodules
from ctl.kernel.raw_netlink import RawNetlink

with only_submodules("pyroute2"):
    from pyroute2.netlink import NLM_F_REQUEST, NLMSG_DONE, genlmsg, nla
    from pyroute2.netlink.connector import cn_msg, cn_proc
    from pyroute2.netlink.exceptions import NetlinkError
    from pyroute2.netlink.generic import GenericNetlinkSocket
    from pyroute2.netlink.nlsocket import NetlinkSocket
    from pyroute2.netlink.taskstats import TASKSTATS_CMD_GET, tcmd
    from pyroute2.netlink.uevent import UeventSocket

__all__ = [
    "CpuEvent",
    "CpuEvents",
    "Delays",
    "ProcessEvent",
    "ProcessEvents",
    "SchedulerEvent",
    "SchedulerEvents",
    "TaskDelays",
]

_LARGEST = 16384  # bytes; a uevent is at most 2 KiB and more, a process event 76
_BUFFER = 4 << 20  # bytes of receive buffer: some 5,000 process events, a fork storm's
_SO_RCVBUFFORCE = 33  # asm-generic/socket.h; the socket module lacks it
_UEVENT_KERNEL = 1  # multicast group of the kernel's own uevents; 2 is udev's
_WANTED = cn_proc.PROC_EVENT_FORK | cn_proc.PROC_EVENT_EXEC | cn_proc.PROC_EVENT_EXIT
_ACCOUNTING = Path("/proc/sys/kernel/task_delayacct")

# struct nlmsghdr and struct cn_msg lie ahead of struct proc_event: what, cpu, timestamp_ns, then four words
_EVENT_AT = 16 + 20
_EVENT = struct.Struct("=II8x4I")


class SchedulerEvent(NamedTuple):
    """A sched_ext scheduler, ours or another's, came or went."""

    action: str  # "add", "remove"
    ops: str  # its name


class CpuEvent(NamedTuple):
    """A CPU went online or offline."""

    action: str  # "online", "offline"
    cpu: int


class ProcessEvent(NamedTuple):
    """A process (or thread) began, turned into another program, or ended."""

    kind: str  # "fork", "exec", "exit"
    pid: int  # tid of the task; of the child for "fork"
    tgid: int
    parent: int  # "fork": tgid of the parent, else 0; the kernel does not always say it at the exit
    status: int  # "exit": wait status, else 0


class Delays(NamedTuple):
    """The waits of a task so far: counts, and ns.

    All zero for a task that began while the kernel's delay accounting was off.
    """

    swapin_count: int
    swapin_ns: int
    thrashing_count: int
    thrashing_ns: int
    blkio_count: int
    blkio_ns: int
    cpu_count: int
    cpu_ns: int


# struct taskstats has these under other names
_DELAYS = {
    "swapin_count": "swapin_count",
    "swapin_ns": "swapin_delay_total",
    "thrashing_count": "thrashing_count",
    "thrashing_ns": "thrashing_delay_total",
    "blkio_count": "blkio_count",
    "blkio_ns": "blkio_delay_total",
    "cpu_count": "cpu_count",
    "cpu_ns": "cpu_delay_total",
}


class _Listener(RawNetlink):
    """A subscribed netlink socket of pyroute2, read datagram by datagram."""

    def __init__(self, subscribed: Any) -> None:
        super().__init__(subscribed, blocking=False)
        self.overruns = 0  # times the kernel had to drop something, because it was read too late
        # more than net.core.rmem_max allows, for which root may ask
        with contextlib.suppress(PermissionError):
            self._raw.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)

    def fileno(self) -> int:
        """A descriptor that is readable (poll, epoll, add_reader) when there are events."""
        return self._raw.fileno()

    def _datagrams(self) -> Iterator[bytes]:
        """The present schedulers, from the kernel."""
        while True:
            try:
                data, (sender, _) = self._raw.recvfrom(_LARGEST)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                self.overruns += 1
                continue
            if sender == 0:  # any process may send to us; the kernel's port is 0
                yield data


class _Uevents(_Listener):
    """Listens for the kernel's uevents about its objects."""

    def __init__(self) -> None:
        """Listen from now on. Raises CoschedError."""
        subscribed = UeventSocket()
        with _explained("listen for uevents", subscribed):
            # not UeventSocket.bind(): it takes udev's messages too, which have another format
            NetlinkSocket.bind(subscribed, groups=_UEVENT_KERNEL)
        super().__init__(subscribed)

    def _messages(self, subsystem: str) -> Iterator[Any]:
        """The present events about one subsystem, as mappings."""
        for data in self._datagrams():
            for message in self._netlink.marshal.parse(data):
                if message.get("SUBSYSTEM") == subsystem:
                    yield message


class SchedulerEvents(_Uevents):
    """Listens for the uevents of sched_ext schedulers (SCXOPS=name); a context manager."""

    def read(self) -> list[SchedulerEvent]:
        """The events there are now; does not block."""
        messages = self._messages("sched_ext")
        return [SchedulerEvent(m["ACTION"], m["SCXOPS"]) for m in messages if m.get("SCXOPS")]


class CpuEvents(_Uevents):
    """Listens for CPUs that go online and offline; a context manager."""

    def read(self) -> list[CpuEvent]:
        """The events there are now; does not block."""
        found = []
        for message in self._messages("cpu"):
            number = message["DEVPATH"].rpartition("/cpu")[2]
            if message["ACTION"] in ("online", "offline") and number.isdigit():
                found.append(CpuEvent(message["ACTION"], int(number)))
        return found


class _Subscription(cn_msg):  # type: ignore[misc]
    """struct proc_input: pyroute2's has no filter, and waits for an answer that does not come."""

    fields = (*cn_msg.fields, ("action", "I"), ("events", "I"))


class ProcessEvents(_Listener):
    """Listens to the process connector; a context manager. All processes, not only those of jobs."""

    def __init__(self) -> None:
        """Listen from now on. Raises CoschedError."""
        subscribed = cn_proc.ProcEventSocket()
        with _explained("listen to the process connector", subscribed):
            subscribed.bind()
            _subscribe(subscribed, cn_proc.PROC_CN_MCAST_LISTEN)
        super().__init__(subscribed)

    def read(self) -> list[ProcessEvent]:
        """The events there are now; does not block."""
        # unpacked here: pyroute2 takes 40 times as long, too long for a storm of 5,000 forks
        return [_process_event(data) for data in self._datagrams() if len(data) >= _EVENT_AT + _EVENT.size]

    def close(self) -> None:
        """Stop listening, and tell the kernel: it goes on building events while anybody listens."""
        with contextlib.suppress(OSError):
            _subscribe(self._netlink, cn_proc.PROC_CN_MCAST_IGNORE)
        super().close()


def _subscribe(connector: Any, action: int) -> None:
    """Ask the process connector to begin or to stop."""
    message = _Subscription()
    message["idx"], message["val"], message["len"] = cn_proc.CN_IDX_PROC, cn_proc.CN_VAL_PROC, 8
    message["action"], message["events"] = action, _WANTED
    connector.put(message, NLMSG_DONE, msg_flags=0, msg_seq=0)


def _process_event(data: bytes) -> ProcessEvent:
    """A struct proc_event."""
    what, _cpu, *words = _EVENT.unpack_from(data, _EVENT_AT)
    kind = str(cn_proc.PROC_BY_IDS.get(what, "unknown")).removeprefix("PROC_EVENT_").lower()
    if kind == "fork":  # parent pid, parent tgid, child pid, child tgid
        return ProcessEvent(kind, words[2], words[3], words[1], 0)
    return ProcessEvent(kind, words[0], words[1], 0, words[2] if kind == "exit" else 0)  # pid, tgid, exit code


class _TaskStatsMessage(genlmsg):  # type: ignore[misc]
    """The answer of taskstats, with the struct left as bytes: its layout is the running kernel's."""

    nla_map = (
        ("TASKSTATS_TYPE_UNSPEC", "none"),
        ("TASKSTATS_TYPE_PID", "uint32"),
        ("TASKSTATS_TYPE_TGID", "uint32"),
        ("TASKSTATS_TYPE_STATS", "cdata"),
        ("TASKSTATS_TYPE_AGGR_PID", "aggregate"),
        ("TASKSTATS_TYPE_AGGR_TGID", "aggregate"),
    )

    class aggregate(nla):  # type: ignore[misc]
        """The attributes of one task."""

        nla_map = (
            ("TASKSTATS_TYPE_UNSPEC", "none"),
            ("TASKSTATS_TYPE_PID", "uint32"),
            ("TASKSTATS_TYPE_TGID", "uint32"),
            ("TASKSTATS_TYPE_STATS", "cdata"),
        )


class TaskDelays:
    """Asks taskstats; a context manager. Switches the kernel's delay accounting on, and back at close().

    Tasks that began before it was on have no delays, so be early.
    """

    def __init__(self) -> None:
        """Open the socket and switch accounting on. Raises CoschedError."""
        members = vmlinux().members("taskstats")
        self._places = [members[name].offset for name in _DELAYS.values()]
        self._netlink = GenericNetlinkSocket()
        with _explained("ask taskstats", self._netlink):
            self._netlink.bind("TASKSTATS", _TaskStatsMessage)
            self._before = _ACCOUNTING.read_text()
            _ACCOUNTING.write_text("1")

    def get(self, tid: int) -> Delays | None:
        """The delays of a task; None if there is no such task."""
        request = tcmd()
        request["cmd"], request["version"] = TASKSTATS_CMD_GET, 1
        request["attrs"].append(["TASKSTATS_CMD_ATTR_PID", tid])
        try:
            answer = next(iter(self._netlink.nlm_request(request, self._netlink.prid, msg_flags=NLM_F_REQUEST)))
        except NetlinkError as error:
            if error.code == errno.ESRCH:
                return None
            raise CoschedError(f"taskstats of task {tid} cannot be read: {error}") from None
        stats = answer.get_nested("TASKSTATS_TYPE_AGGR_PID", "TASKSTATS_TYPE_STATS")
        return Delays(*(struct.unpack_from("=Q", stats, at)[0] for at in self._places))

    def close(self) -> None:
        """Close the socket and restore the kernel's delay accounting."""
        self._netlink.close()
        with contextlib.suppress(OSError):
            _ACCOUNTING.write_text(self._before)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def _explained(what: str, opened: Any) -> Iterator[None]:
    """Turn an error into a sentence, and close the socket."""
    try:
        yield
    except (OSError, NetlinkError) as error:
        opened.close()
        detail = error.strerror if isinstance(error, OSError) else error
        raise CoschedError(f"cannot {what}: {detail}; this needs root and kernel support") from None
