# SPDX-License-Identifier: GPL-2.0-or-later
"""Queues of real sockets on the loopback, and whose they are."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from ctl.errors import CoschedError
from ctl.kernel.dumps import HEADER
from ctl.kernel.net_device import Device, Softnet, default_device
from ctl.kernel.owners import Kept, processes_of_sockets, task
from ctl.kernel.sock_diag import COLUMNS, Columns, InetSockets, _udp

LOOPBACK = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


def inode(end: socket.socket) -> int:
    return os.fstat(end.fileno()).st_ino


def found(end: socket.socket) -> SimpleNamespace:
    """The only socket of this inode: its number in each column."""
    with InetSockets() as sockets:
        columns = sockets.read()
    (at,) = (at for at, number in enumerate(columns["inode"]) if number == inode(end))
    return SimpleNamespace(**{name: columns[name][at] for name in COLUMNS})


@contextlib.contextmanager
def connected(family: socket.AddressFamily = socket.AF_INET) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a TCP connection."""
    with socket.create_server((LOOPBACK[family], 0), family=family) as server:
        client = socket.create_connection(server.getsockname()[:2])
        with client, server.accept()[0] as other:
            yield client, other


@contextlib.contextmanager
def datagrams(family: socket.AddressFamily = socket.AF_INET) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A UDP socket that is connected to another one."""
    with socket.socket(family, socket.SOCK_DGRAM) as sender, socket.socket(family, socket.SOCK_DGRAM) as receiver:
        receiver.bind((LOOPBACK[family], 0))
        sender.connect(receiver.getsockname()[:2])
        yield sender, receiver


@pytest.mark.parametrize("family", LOOPBACK)
def test_bytes_that_nobody_reads_stand_in_the_receive_queue(family: socket.AddressFamily) -> None:
    with connected(family) as (sender, receiver):
        sender.sendall(bytes(30_000))
        assert found(receiver).rcv_bytes == 30_000
        receiver.recv(10_000, socket.MSG_WAITALL)
        assert found(receiver).rcv_bytes == 20_000
        assert (found(sender).rcv_bytes, found(sender).snd_bytes) == (0, 0)


def test_what_the_receiver_has_no_room_for_stands_in_the_send_queue() -> None:
    with connected() as (sender, receiver):
        sender.setblocking(False)
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                sent += sender.send(bytes(1 << 16))
        end = time.monotonic() + 60
        while (one := found(receiver)).rcv_bytes + found(sender).snd_bytes != sent and time.monotonic() < end:
            time.sleep(0.01)
        assert one.rcv_bytes + found(sender).snd_bytes == sent
        assert found(sender).snd_bytes > 0 and one.rcv_bytes > 0.5 * one.rcv_memory > 0


@pytest.mark.parametrize("family", LOOPBACK)
def test_datagrams_beyond_the_buffer_are_dropped_and_counted(family: socket.AddressFamily) -> None:
    with datagrams(family) as (sender, receiver):
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        for _ in range(200):
            sender.send(bytes(1000))
        one = found(receiver)
        assert 0.8 * one.rcv_limit < one.rcv_bytes == one.rcv_memory
        receiver.setblocking(False)
        held = 0
        with contextlib.suppress(BlockingIOError):
            while receiver.recv(2000):
                held += 1
        assert one.drops == 200 - held > 100
        assert found(receiver).rcv_bytes == 0


def test_each_of_many_sockets_has_its_own_numbers_whatever_stands_between() -> None:
    """What is left of a sender that waits for the other side's end has a shorter message, among those of sockets."""
    with contextlib.ExitStack() as stack, socket.create_server(("127.0.0.1", 0), backlog=400) as server:
        unread: dict[int, int] = {}
        ended: list[socket.socket] = []
        for size in range(1, 400):
            sender = stack.enter_context(socket.create_connection(server.getsockname()))
            receiver = stack.enter_context(server.accept()[0])
            sender.sendall(bytes(size))
            unread[inode(receiver)] = size
            if size % 3 == 0:
                sender.shutdown(socket.SHUT_WR)
                unread[inode(receiver)] += 1  # the end counts as a byte
                ended.append(sender)
        time.sleep(0.2)  # until all ends are acknowledged
        for sender in ended:
            sender.close()
        with InetSockets() as sockets:
            columns = sockets.read()
    told = dict(zip(columns["inode"], columns["rcv_bytes"], strict=True))
    assert {number: told.get(number) for number in unread} == unread
    assert columns["rcv_limit"].count(0) >= 399 // 3


def test_messages_of_one_length_may_have_their_attributes_in_another_order() -> None:
    with datagrams() as (sender, receiver), InetSockets() as sockets:
        sender.send(bytes(100))
        ((length, table),) = sockets._dumps.tables(_udp(socket.AF_INET)).items()
        moved = bytearray(table)
        for at in range(0, len(table), 2 * length):  # every second message has its first attribute behind all others
            message, start = table[at : at + length], HEADER + 72
            first = (int.from_bytes(message[start : start + 2], "little") + 3) & ~3
            moved[at : at + length] = message[:start] + message[start + first :] + message[start : start + first]
        read = [Columns(list(sockets._formed(length, bytes(data)))) for data in (table, moved)]
        at = read[0]["inode"].index(inode(receiver))
        assert read[0]["rcv_memory"][at] > 0 and read[0]["cgroup"][at] > 0
    assert [read[1][name] for name in COLUMNS] == [read[0][name] for name in COLUMNS]


def test_sockets_that_listen_are_left_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, InetSockets() as sockets:
        assert inode(server) not in sockets.read()["inode"]


def test_a_socket_has_its_cgroup_and_its_process() -> None:
    with connected() as (sender, _), open("/proc/self/cgroup") as own:
        place = "/sys/fs/cgroup" + own.read().rpartition("::")[2].rstrip("\n")
        if os.path.isdir(place):
            assert found(sender).cgroup == os.stat(place).st_ino
        assert processes_of_sockets()[inode(sender)] == os.getpid()
        me = task(os.getpid())
        assert me is not None and me.pid == os.getpid()
    assert task(2**22 + 1) is None


def test_answers_are_kept_and_looked_for_again_once_a_second() -> None:
    looks: list[int] = []

    def look() -> dict[int, str]:
        looks.append(1)
        return {1: "one"} | ({2: "two"} if len(looks) > 1 else {})

    kept = Kept(look)
    assert [kept.get(number) for number in (1, 1, 2, 2)] == ["one", "one", None, None]
    assert len(looks) == 1
    kept._next = 0.0
    assert (kept.get(2), len(looks)) == ("two", 2)
    kept._next = 0.0
    assert (kept.get(2), kept.get(1), len(looks)) == ("two", "one", 2), "what is known is not looked for"


def test_a_device_counts_what_passes_through_it() -> None:
    with Device("lo") as device, datagrams() as (sender, _):
        before = device.counters()
        for _ in range(50):
            sender.send(bytes(500))
        after = device.counters()
        assert after.tx_packets - before.tx_packets >= 50 and after.rx_packets - before.rx_packets >= 50
        assert after.tx_bytes - before.tx_bytes >= 50 * 528
        assert device.ring_bytes() is None and device.rings() is None


def test_the_backlogs_and_the_default_device_are_known() -> None:
    with Softnet() as softnet:
        assert min(softnet.read()) >= 0
    with Device(default_device()) as device:
        assert min(device.qdisc()) >= 0


def test_an_interface_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(CoschedError, match=r"no interface 'nix0': choose one of .*lo") as refusal:
        Device("nix0")
    assert refusal.value.status == 2
