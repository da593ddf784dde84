#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl netmon` finds backlogs of known size: a receiver that does not read, a qdisc that holds and drops packets."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Iterator

from ctl.monitor.netmon.rows import NODE, Owner, Values
from ctl.monitor.netmon.sampler import Sampler
from tests.kselftest.command import ctl
from tests.kselftest.ktap import expect, note, run, until
from tests.kselftest.node import in_job, sensing

_MESSAGES = 20
_SIZE = 1000  # bytes of a message
_FRAME = _SIZE + 8 + 20 + 14  # with the headers of UDP, IP and Ethernet


@contextlib.contextmanager
def _datagrams() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A UDP socket that is connected to another one, over the loopback."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
    ):
        receiver.bind(("127.0.0.1", 0))
        sender.connect(receiver.getsockname())
        yield sender, receiver


@contextlib.contextmanager
def _stream() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a TCP connection over the loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        other, _ = server.accept()
        with other:
            yield client, other


@contextlib.contextmanager
def _netem(*words: str) -> Iterator[None]:
    """The loopback with this netem qdisc."""
    subprocess.run(["tc", "qdisc", "add", "dev", "lo", "root", "netem", *words], check=True)
    try:
        yield
    finally:
        subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], check=True)


def _send(sender: socket.socket) -> None:
    for _ in range(_MESSAGES):
        sender.send(bytes(_SIZE))


def _node(sampler: Sampler) -> Values:
    return sampler.sample().rows[NODE]


def unread() -> None:
    """Messages that a job's task does not read: bytes by sock_diag, packets by the sensors, job and task by name."""
    job = Owner("job", "unread")
    with sensing("sockets") as sensors, in_job("unread"), _datagrams() as (sender, receiver), _stream() as (near, far):
        sensors.attend()
        _send(sender)
        near.sendall(bytes(3 * _SIZE))
        with Sampler("lo", "task") as sampler:
            until(lambda: sampler.sample().rows[job]["sockets.rcv_packets"] == _MESSAGES + 1, "the sensors count", 5)
            rows = sampler.sample().rows
            (task,) = (values for owner, values in rows.items() if owner.pid == os.getpid())
            note(f"job {rows[job]}")
            expect(task, rows[job], "figures of the job's only task")
            got = rows[job]["sockets.rcv_bytes"] or 0
            expect(got >= _MESSAGES * _SIZE + 3 * _SIZE, True, f"bytes of the job, {got}, are at least those sent")
            for _ in range(_MESSAGES):
                receiver.recv(_SIZE)
            expect(sampler.sample().rows[job]["sockets.rcv_bytes"], 3 * _SIZE, "bytes after the datagrams were read")
            far.recv(3 * _SIZE, socket.MSG_WAITALL)
            until(lambda: sampler.sample().rows[job]["sockets.rcv_packets"] == 0, "the sensors count down", 5)


def held_by_a_qdisc() -> None:
    """Packets that a qdisc delays are its backlog, in packets and bytes; then they have passed the device."""
    with _netem("delay", "2s"), _datagrams() as (sender, _), Sampler("lo", "node") as sampler:
        _send(sender)
        values = _node(sampler)
        expect((values["qdisc.packets"], values["qdisc.bytes"]), (_MESSAGES, _MESSAGES * _FRAME), "backlog")
        expect(values["device.tx_packets"], 0, "packets sent")
        sent = 0

        def passed() -> bool:
            nonlocal sent
            sent += _node(sampler)["device.tx_packets"] or 0
            return sent == _MESSAGES

        until(passed, "the packets pass", 10)
        expect(_node(sampler)["qdisc.packets"], 0, "backlog after that")


def dropped_by_a_qdisc() -> None:
    """Packets beyond the limit of a qdisc are its drops, in the period in which they were dropped."""
    with _netem("delay", "1s", "limit", "5"), _datagrams() as (sender, _), Sampler("lo", "node") as sampler:
        for _ in range(_MESSAGES):
            with contextlib.suppress(OSError):  # ENOBUFS
                sender.send(bytes(_SIZE))
        values = _node(sampler)
        expect((values["qdisc.packets"], values["qdisc.drops"]), (5, _MESSAGES - 5), "backlog, drops")
        expect(_node(sampler)["qdisc.drops"], 0, "drops of the next period")


def _retransmitted() -> int:
    """Segments that TCP has sent again since boot, as the kernel counts them."""
    with open("/proc/net/snmp") as file:
        names, values = (line.split() for line in file if line.startswith("Tcp:"))
    return int(values[names.index("RetransSegs")])


def sent_again() -> None:
    """Segments that TCP sends again are counted, as many as the kernel counts."""
    with _stream() as (near, far), Sampler("lo", "node") as sampler:
        before, total = _retransmitted(), 0

        def seen() -> int:
            nonlocal total
            total += _node(sampler)["sockets.retransmits"] or 0
            return total

        with _netem("loss", "100%"):  # not a part of them: TCP doubles its wait with each loss in turn
            near.sendall(bytes(50_000))
            until(lambda: seen() >= 2, "segments are sent again", 20)
        far.recv(50_000, socket.MSG_WAITALL)
        seen()
        until(lambda: _node(sampler)["sockets.snd_segments"] == 0, "all is acknowledged", 20)
    note(f"{total} seen, {_retransmitted() - before} counted by the kernel")
    expect(total <= _retransmitted() - before, True, f"{total} are no more than the kernel counts")


def the_command() -> None:
    """The command tells a backlog, period for period, and ends with its report on itself."""
    with in_job("told"), _datagrams() as (sender, _):
        _send(sender)
        *samples, last = (
            json.loads(line) for line in ctl("netmon", "lo", "-d", "100ms", "-t", "2", "--json").splitlines()
        )
    note(f"{len(samples)} samples; {last['report']}")
    expect(len(samples) > 1, True, "samples")
    for sample in samples:
        (job,) = (row for row in sample["rows"] if (row["kind"], row["name"]) == ("job", "told"))
        expect(job["sockets"]["rcv_bytes"] >= _MESSAGES * _SIZE, True, f"the backlog in {job}")
    expect(last["report"]["samples"], len(samples), "samples of the report")


if __name__ == "__main__":
    run(unread, held_by_a_qdisc, dropped_by_a_qdisc, sent_again, the_command)
