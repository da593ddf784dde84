#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""COM: the levels are exactly the sockets' messages, and count for the thread that owns or last received."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from ctl.kernel.sensors import Sensors
from ctl.kernel.sockets import _OF_KIND
from tests.kselftest.ktap import expect, run, until
from tests.kselftest.node import in_job, sensing

_N = 7
_UNIX = {"stream": socket.SOCK_STREAM, "dgram": socket.SOCK_DGRAM, "seqpacket": socket.SOCK_SEQPACKET}
_TCPI_UNACKED = 24  # linux/tcp.h: struct tcp_info, a u32
Levels = Callable[[], tuple[int, int]]


@contextlib.contextmanager
def _sensors() -> Iterator[tuple[Sensors, Levels]]:
    """Sensors for sockets, and a function that returns this thread's (received, sent) levels."""
    with sensing("sockets") as sensors, in_job("levels"):
        yield sensors, lambda: _levels(sensors, threading.get_native_id())


def _levels(sensors: Sensors, tid: int) -> tuple[int, int]:
    seen = sensors.observation(tid)
    return (seen.rcv, seen.snd) if seen else (0, 0)


def _udp_pair(family: socket.AddressFamily, host: str) -> tuple[socket.socket, socket.socket]:
    a, b = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_DGRAM)
    b.bind((host, 0))
    a.connect(b.getsockname())
    return a, b


def _tcp_pair(family: socket.AddressFamily, host: str) -> tuple[socket.socket, socket.socket]:
    with socket.create_server((host, 0), family=family) as server:
        a = socket.socket(family)
        a.connect(server.getsockname())
        b, _ = server.accept()
    a.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return a, b


def _run(command: str) -> None:
    subprocess.run(command, shell=True, check=True)


def udp_exact() -> None:
    """UDP, IPv4 and IPv6: N unread packets count as N, and each read takes off 1"""
    with _sensors() as (_, levels):
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            a, b = _udp_pair(family, host)
            for n in range(_N):
                a.send(b"x" * (n * 300))
            expect(levels(), (_N, 0), f"levels after {_N} packets to {host}")
            b.recv(4096, socket.MSG_PEEK)
            expect(levels(), (_N, 0), "levels after a peek")
            for n in range(_N):
                b.recv(4096)
                expect(levels(), (_N - n - 1, 0), f"levels after {n + 1} reads")
            a.send(b"x")
            b.close()
            expect(levels(), (0, 0), "levels after the receiver was closed on one packet")
            a.close()


def unix_exact() -> None:
    """Unix stream, dgram and seqpacket: N unread messages count as N, on either end"""
    with _sensors() as (_, levels):
        for name, kind in _UNIX.items():
            a, b = socket.socketpair(socket.AF_UNIX, kind)
            for _ in range(_N):
                a.send(b"x" * 100)
            expect(levels(), (_N, _N), f"{name}: levels after {_N} messages")
            for n in range(_N - 2):
                b.recv(100)
                expect(levels(), (_N - n - 1, _N - n - 1), f"{name}: levels after {n + 1} reads")
            b.send(b"x")
            expect(levels(), (3, 3), f"{name}: levels after one message back")
            b.close()
            expect(levels(), (1, 0), f"{name}: levels after the receiver was closed on two")
            for _ in range(2):  # one of them tells of the reset
                with contextlib.suppress(ConnectionResetError, BlockingIOError):
                    a.recv(100, socket.MSG_DONTWAIT)
            expect(levels(), (0, 0), f"{name}: levels after the last read")
            a.close()


def sender_gone() -> None:
    """Unix: messages of a closed sender count until they are read"""
    with _sensors() as (_, levels):
        for name, kind in _UNIX.items():
            a, b = socket.socketpair(socket.AF_UNIX, kind)
            for _ in range(3):
                a.send(b"x")
            a.close()
            expect(levels(), (3, 0), f"{name}: levels after the sender was closed")
            for n in range(3):
                b.recv(1)
                expect(levels(), (2 - n, 0), f"{name}: levels after {n + 1} reads")
            b.close()


def dgram_from_many() -> None:
    """Unix dgram: each of several senders has its own messages; a new connection drops the rest"""
    with _sensors() as (_, levels), contextlib.ExitStack() as stack:
        receiver, first, second = (
            stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) for _ in range(3)
        )
        for s, name in ((receiver, b"\0kst-r"), (first, b"\0kst-1"), (second, b"\0kst-2")):
            s.bind(name)
        for _ in range(4):
            first.sendto(b"x" * 50, b"\0kst-r")
        second.sendto(b"x" * 5000, b"\0kst-r")
        expect(levels(), (5, 5), "levels after 4 messages of one and 1 of another")
        receiver.connect(b"\0kst-1")
        receiver.connect(b"\0kst-2")
        expect(levels(), (0, 0), "levels after the receiver's connection was changed")


def tcp_receive() -> None:
    """TCP: received segments count until they are read, and go with the socket"""
    with _sensors() as (_, levels):
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            a, b = _tcp_pair(family, host)
            a.send(b"x" * 100)
            until(lambda: levels() == (1, 0), f"{host}: one segment received and acknowledged, {levels()}")
            b.recv(60)
            expect(levels(), (1, 0), "levels after a part was read")
            b.recv(60)
            expect(levels(), (0, 0), "levels after the rest was read")
            a.send(b"x" * 100)
            b.send(b"x" * 100)
            until(lambda: levels() == (2, 0), f"{host}: one segment each way, {levels()}")
            b.close()
            until(lambda: levels()[0] <= 1, f"{host}: closed on unread data, {levels()}")
            a.close()
            expect(levels(), (0, 0), "levels after both ends were closed")


def tcp_send() -> None:
    """TCP: unacknowledged segments are the send level, as in tcp_info"""
    with _sensors() as (_, levels):
        a, b = _tcp_pair(socket.AF_INET, "127.0.0.1")
        _run("tc qdisc add dev lo root netem delay 1s")
        try:
            for _ in range(_N):
                a.send(b"x" * 100)
            info = a.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
            unacked = struct.unpack_from("=I", info, _TCPI_UNACKED)[0]
            expect(unacked, _N, "packets the kernel has not seen acknowledged")
            expect(levels(), (0, unacked), "levels with packets under way")
            until(lambda: levels()[0] > 0, "they arrive")
            until(lambda: levels()[1] == 0, "they are acknowledged")
        finally:
            _run("tc qdisc del dev lo root")
        a.close()
        b.close()


def tcp_full() -> None:
    """TCP: segments beyond the peer's window wait in the send level"""
    with _sensors() as (_, levels):
        a, b = _tcp_pair(socket.AF_INET, "127.0.0.1")
        a.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                a.send(b"x" * 65536)
        until(lambda: levels()[0] > 0 and levels()[1] > 0, f"both ends hold packets, {levels()}")
        b.setblocking(False)
        until(lambda: not _drained(b) and levels() == (0, 0), f"all is read and acknowledged, {levels()}")
        a.close()
        b.close()


def _drained(s: socket.socket) -> int:
    """Read all present bytes; returns their number."""
    total = 0
    with contextlib.suppress(BlockingIOError):
        while data := s.recv(1 << 20):
            total += len(data)
    return total


def udp_send() -> None:
    """UDP: packets held by the queueing discipline are the send level, and go with it"""
    with _sensors() as (_, levels):
        _run("ip link add kst0 type dummy && ip addr add 10.99.0.1/24 dev kst0 && ip link set kst0 up")
        try:
            _run("ip neigh add 10.99.0.2 lladdr 02:00:00:00:00:02 dev kst0")
            _run("tc qdisc add dev kst0 root tbf rate 8kbit burst 1600 limit 100000")
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            for _ in range(_N):
                s.sendto(b"x" * 1400, ("10.99.0.2", 9))
            shown = subprocess.check_output(["tc", "-s", "qdisc", "show", "dev", "kst0"], text=True)
            held = int(shown.split("backlog")[1].split()[1].rstrip("p"))
            expect(held > 0, True, f"packets held by tbf: {held}")
            expect(levels(), (0, held), "levels with packets held")
            _run("tc qdisc del dev kst0 root")
            until(lambda: levels() == (0, 0), f"none is left with the discipline gone, {levels()}", 3)
            s.close()
        finally:
            _run("ip link del kst0")


def listener_has_none() -> None:
    """Connections waiting to be accepted are no messages; their data counts once accepted"""
    with _sensors() as (_, levels), socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(b"\0kst-listener")
        listener.listen()
        client.connect(b"\0kst-listener")
        expect(levels(), (0, 0), "levels with a connection waiting")
        client.send(b"x")
        expect(levels(), (0, 1), "levels with data on it")
        accepted, _ = listener.accept()
        expect(levels(), (1, 1), "levels after accept")
        accepted.close()
        expect(levels(), (0, 0), "levels after close")


def last_receiver_owns() -> None:
    """A socket counts for the thread that last received on it, and for the main thread once this thread is gone"""
    with _sensors() as (sensors, levels):
        a, b = _udp_pair(socket.AF_INET, "127.0.0.1")
        received, go_on = threading.Event(), threading.Event()

        def receive() -> None:
            b.recv(1)
            received.set()
            go_on.wait()

        thread = threading.Thread(target=receive)
        thread.start()
        a.send(b"x")
        received.wait()
        for _ in range(_N):
            a.send(b"x")
        expect(_levels(sensors, thread.native_id or 0), (_N, 0), "levels of the thread that received")
        expect(levels(), (0, 0), "levels of the thread that made the socket")
        go_on.set()
        thread.join()
        until(lambda: not Path(f"/proc/self/task/{thread.native_id}").exists(), "the thread has ended")
        a.send(b"x")
        expect(levels(), (_N + 1, 0), "levels of the main thread after the next packet")
        until(lambda: sensors.observation(thread.native_id or 0) is None, "the thread is forgotten")
        a.close()
        b.close()
        expect(levels(), (0, 0), "levels after close")


def owner_killed() -> None:
    """A socket whose owner was killed counts for no thread, then for the thread that receives on it"""
    with _sensors() as (sensors, levels):
        a, b = _udp_pair(socket.AF_INET, "127.0.0.1")
        before = levels()
        child = os.fork()
        if not child:
            b.recv(1)
            a.send(b"x")
            threading.Event().wait()
        a.send(b"x")
        until(lambda: _levels(sensors, child) == (1, 0), f"the child owns it, {_levels(sensors, child)}")
        os.kill(child, 9)
        os.waitpid(child, 0)
        expect(levels(), before, "our levels")
        a.send(b"x")
        expect(sensors.observation(child), None, "what is known of the killed child after the next packet")
        b.recv(1)
        expect(levels(), (1, 0), "our levels after we received one of two")
        a.close()
        b.close()
        expect(levels(), (0, 0), "levels after close")


def left_lying() -> None:
    """A message left unread by a computing task no longer counts; a later message and a sleeper's message do"""
    with _sensors() as (sensors, levels), contextlib.ExitStack() as stack:
        a, b = (stack.enter_context(end) for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
        a.send(b"x")
        for _ in range(2):
            sensors.look_again(unread_ms=1000)
            time.sleep(0.6)
        expect(levels(), (1, 1), "levels after a sleep")
        _run_for(1.1)
        sensors.look_again(unread_ms=1000)
        expect(levels(), (0, 0), "levels after as much computing")
        a.send(b"x")
        expect(levels(), (1, 1), "levels with another message")
        b.recv(1)
        expect(levels(), (0, 0), "levels with one read of the two")
        b.recv(1)
        a.send(b"x")
        expect(levels(), (1, 1), "levels with a message behind those that were read")


def lost_events() -> None:
    """Missed changes are corrected by the next look; a level goes with a socket that was closed unseen"""
    with _sensors() as (sensors, levels), contextlib.ExitStack() as stack:
        a, b = (stack.enter_context(end) for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
        known = set(sensors.sockets())
        probes = sensors._sockets
        probes._detach([name for name in probes._links if name != "on_create"])
        try:
            a.send(b"x")
            expect(levels(), (0, 0), "levels while nothing is seen")
            sensors.look_again()
            expect(levels(), (1, 1), "levels after a look")
            b.recv(1)
            sensors.look_again()
            expect(levels(), (0, 0), "levels after another")
            a.close()
            b.close()
            until(lambda: len(known & set(sensors.sockets())) == len(known) - 2, "the closed are gone")
        finally:
            probes.start(every_kind=True)
            probes._attach(("on_readable", "on_wakeup"))
            for names in _OF_KIND.values():
                probes._attach(names)
            probes.watch_threads(True)


def local_passes() -> None:
    """A socket has a level only after a task of a job received on it, until a task of no job receives on it"""
    with sensing("sockets") as sensors, contextlib.ExitStack() as stack:
        a, b = (stack.enter_context(end) for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
        known = set(sensors.sockets())
        tid = threading.get_native_id()
        for _ in range(2):
            a.send(b"x")
        b.recv(1)
        expect((set(sensors.sockets()) - known, _levels(sensors, tid)), (set(), (0, 0)), "of a task in no job")
        with in_job("joins"):
            a.send(b"x")
            expect(_levels(sensors, tid), (0, 0), "levels before it receives")
            b.recv(1)
            expect(_levels(sensors, tid), (1, 0), "levels of the end that it received on")
        b.recv(1)
        a.send(b"x")
        expect(_levels(sensors, tid), (0, 0), "levels after it received in no job")


def everyone_counts() -> None:
    """The sockets of all tasks count if each task that exchanges messages is parallel (classify=mes)"""
    with sensing("sockets") as sensors, contextlib.ExitStack() as stack:
        sensors.count_everyone(True)
        try:
            a, b = (stack.enter_context(end) for end in socket.socketpair())
            a.send(b"x")
            expect(_levels(sensors, threading.get_native_id()), (1, 1), "levels of a task in no job")
            b.recv(1)
        finally:
            sensors.count_everyone(False)


def _run_for(seconds: float) -> None:
    """Use so much CPU time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


run(
    udp_exact, unix_exact, sender_gone, dgram_from_many, tcp_receive, tcp_send, tcp_full, udp_send, listener_has_none,
    last_receiver_owns, owner_killed, left_lying, lost_events, local_passes, everyone_counts,
)  # fmt: skip
