# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples of real sockets: what is whose, and what counts as new."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from ctl.monitor.netmon.figures import FIGURES, OF_OWNERS
from ctl.monitor.netmon.rows import NODE, Owner, Sample
from ctl.monitor.netmon.sampler import Sampler
from tests.unit.kernel.test_sock_diag import connected, datagrams
from tests.unit.monitor.netmon.test_mpi import queues, rank

_BEFORE = """
import socket, sys
held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
held.bind(("127.0.0.1", 0))
held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(100):
    other.sendto(bytes(1000), held.getsockname())
print(flush=True)
sys.stdin.read()
"""  # a process that has dropped datagrams before anybody looked


def mine(sample: Sample) -> dict[str, int | None]:
    """The figures of this process."""
    return next(values for owner, values in sample.rows.items() if owner.pid == os.getpid())


def test_a_backlog_is_the_nodes_and_the_tasks() -> None:
    with connected() as (sender, _), Sampler("lo", "task") as sampler:
        empty = mine(sampler.sample())["sockets.rcv_bytes"]
        sender.sendall(bytes(40_000))
        sample = sampler.sample()
    assert mine(sample)["sockets.rcv_bytes"] == (empty or 0) + 40_000
    assert (sample.rows[NODE]["sockets.rcv_bytes"] or 0) >= 40_000
    assert sample.seconds > 0


def test_drops_count_in_the_period_in_which_they_happen() -> None:
    with datagrams() as (sender, receiver):
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with Sampler("lo", "task") as sampler:
            for _ in range(100):
                sender.send(bytes(1000))
            counted = [mine(sampler.sample())["sockets.drops"] for _ in range(2)]
    assert counted[0] is not None and 90 <= counted[0] < 100 and counted[1] == 0


def test_what_a_socket_dropped_before_the_first_look_does_not_count() -> None:
    command = [sys.executable, "-c", _BEFORE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        process.stdout.readline()
        with Sampler("lo", "task") as sampler:
            sample = sampler.sample()
            of_it = next(values for owner, values in sample.rows.items() if owner.pid == process.pid)
        assert of_it["sockets.drops"] == 0 and (of_it["sockets.rcv_fill"] or 0) > 50
        process.stdin.close()


def test_all_of_a_socket_counts_that_came_after_the_first_look() -> None:
    with Sampler("lo", "node") as sampler, datagrams() as (sender, receiver):
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(100):
            sender.send(bytes(1000))
        counted = sampler.sample().rows[NODE]["sockets.drops"]
    assert counted is not None and counted >= 90


def test_each_owner_has_all_figures_of_its_kind() -> None:
    with connected(), Sampler("lo", "task") as sampler:
        rows = sampler.sample().rows
    assert list(rows[NODE]) == [figure.key for figure in FIGURES]
    task = next(owner for owner in rows if owner.kind == "task")
    assert list(rows[task]) == [figure.key for figure in FIGURES if figure.group in OF_OWNERS]


def test_a_tasks_name_is_printable() -> None:
    comm = Path("/proc/self/comm")
    before = comm.read_text()
    try:
        comm.write_text("a\x1b[2J\r,b")
        with connected(), Sampler("lo", "task") as sampler:
            (name,) = (owner.name for owner in sampler.sample().rows if owner.pid == os.getpid())
    finally:
        comm.write_text(before)
    assert name == "a?[2J?,b"


def test_only_what_is_asked_for_is_found_out() -> None:
    with connected(), Sampler("lo", "node") as sampler:
        assert list(sampler.sample().rows) == [NODE]


def test_the_node_comes_first_then_jobs_then_tasks() -> None:
    owners = [Owner("task", "a", 7), Owner("job", "z"), NODE, Owner("task", "a", 3)]
    sample = Sample(0.0, 1.0, {owner: {} for owner in owners})
    assert [owner for owner, _ in sample.ordered()] == [NODE, owners[1], owners[3], owners[0]]


def test_packets_are_unknown_without_sensors_also_of_a_rank_without_sockets() -> None:
    with rank(queues(3, 5)) as (_, pid), Sampler("lo", "task") as sampler:
        rows = sampler.sample().rows
    (values,) = (values for owner, values in rows.items() if owner.pid == pid)
    assert values["mpi.posted"] == 3 and values["sockets.count"] == 0
    assert values["sockets.rcv_packets"] is None and rows[NODE]["sockets.snd_packets"] is None
