# SPDX-License-Identifier: GPL-2.0-or-later
"""vm/cluster --icount: the same command runs the same, whatever the host does; nodes end, come back and are cut off."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm.test_cluster_vm import CLUSTER
from tests.vm.test_vm import processes
from vm.host import REPO
from vm.qemu import EPOCH

pytestmark = pytest.mark.vm

LIMIT_S = 900  # all wait for the slowest, which on a busy host is slow
END = ("--timeout", str(LIMIT_S))
QUANTUM_US = 100  # the default
# Round trips, an MPI program over both nodes, and what shows the smallest difference: all interrupts, all switches.
FIGURES = """
    mpicc.mpich -O2 -o /tmp/wait /src/tests/progs/mpi_wait.c
    gcc -O2 -o /tmp/clock /src/tests/progs/clock_offset.c
    scp -q /tmp/wait /tmp/clock node2:/tmp/
    ping -c 20 -i 0.05 -q node2 | tail -1
    mpiexec.mpich -hosts node1,node2 -ppn 1 -n 2 /tmp/wait 200 60 1 0
    for node in node1 node2; do ssh -n $node '/tmp/clock; cat /proc/interrupts /proc/uptime; grep ctxt /proc/stat'; done
    od -A n -N 8 -t x8 /dev/urandom
"""


def cluster(script: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Run a shell script on the first of two nodes in lock-step."""
    command = [str(CLUSTER), "2", "--icount", "--alone", *options, "--", "sh", "-c", script]
    return subprocess.run(command, input=b"", capture_output=True, timeout=LIMIT_S, check=False)


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """Build what is missing first, so that no stage line gets into a test's output."""
    subprocess.run([REPO / "vm" / "build"], check=True, capture_output=True)
    subprocess.run([CLUSTER, "1", "--icount", "--alone", "--", "true"], check=True, capture_output=True)


@contextlib.contextmanager
def busy_host() -> Iterator[None]:
    """Have other work on the host: more than it has CPUs."""
    hogs = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(3)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def figures(*options: str) -> str:
    done = cluster(FIGURES, *options)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def test_the_same_command_runs_the_same_on_an_idle_and_on_a_busy_host() -> None:
    first = figures()
    with busy_host():
        assert figures() == first
    trip = re.search(r"min/avg/max/mdev = ([\d.]+)/([\d.]+)/", first)
    assert trip, first
    assert QUANTUM_US / 1000 < float(trip.group(1)) < 3 * QUANTUM_US / 1000
    clocks = [int(clock) for clock in re.findall(r"^\d{19}$", first, re.M)]
    assert abs(clocks[0] - EPOCH * 10**9) < 50_000
    assert abs(clocks[1] - clocks[0]) < 20_000  # ns; a preemption between the two readings of one program is as long


def test_another_seed_and_another_quantum_are_another_run() -> None:
    script = "od -A n -N 8 -t x8 /dev/urandom; ping -c 5 -i 0.05 -q node2 | tail -1"
    first, second = (cluster(script, *options).stdout.decode().splitlines()
                     for options in (("--seed", "2"), ("--seed", "3", "--quantum", "1000")))
    assert first[0] != second[0]
    trips = [float(line.split("/")[4]) for line in (first[1], second[1])]
    assert trips[0] < 0.5 < 1 < trips[1] < 3  # ms


def test_packets_are_late_and_lost() -> None:
    # the first packets wait for the address, whose own packets may be lost
    script = "ping -c 5 -i 0.5 node2 >/dev/null; tc qdisc show | grep -o 'loss .*%'; ping -c 400 -i 0.3 -q node2"
    said = cluster(script, "--delay", "100", "--loss", "10").stdout.decode()
    assert "loss 10%" in said
    trip = re.search(r"min/avg/max/mdev = ([\d.]+)/", said)
    assert trip is not None, said
    assert 200 <= float(trip.group(1)) < 200.5  # ms
    lost = re.search(r"400 packets transmitted, (\d+) received", said)
    assert lost is not None, said
    assert 0.73 <= int(lost.group(1)) / 400 <= 0.89  # each way loses a tenth; four standard deviations


def test_node_is_cut_off_killed_and_brought_back_in_lockstep() -> None:
    script = """
        reach() { ping -c 1 -W 1 node2 >/dev/null 2>&1 && echo reached || echo not; }
        ssh node2 touch /root/mine
        reach; vm/node cut node2; vm/node nodes; reach
        vm/node mend node2; sleep 1; reach; ssh node2 ls /root/mine
        ssh -n node2 'timeout 9 head -c 24 /dev/input/event0 | od -A n -t d2 -j 16 -N 4' & sleep 2
        vm/node key node2 b; wait; vm/node key node2 nothing
        vm/node kill node2; vm/node nodes; reach; vm/node start node2; vm/node nodes; reach
        ssh node2 ls /root/mine; vm/node kill node2; sleep 1; echo end
    """
    done = cluster(script)
    assert done.stdout.decode().split("\n") == [
        "reached", "node1 up", "node2 cut", "not", "reached", "/root/mine", "      1     48",
        "node1 up", "node2 off", "not", "node1 up", "node2 up", "reached", "end", "",
    ], done.stderr
    assert done.stderr.decode().splitlines() == [
        "vm/node: QEMU refuses sendkey nothing: invalid parameter: nothing",
        "ls: cannot access '/root/mine': No such file or directory",
    ]


def test_clocks_are_apart_as_wished() -> None:
    script = """
        gcc -O2 -o /tmp/clock /src/tests/progs/clock_offset.c; scp -q /tmp/clock node2:/tmp/
        /tmp/clock; ssh node2 /tmp/clock
    """
    done = cluster(script, "--clock-skew", "250")
    first, second = map(int, done.stdout.split())
    assert abs(second - first - 250_000_000) < 20_000  # ns


def test_the_host_reaches_guests_in_lockstep(tmp_path: Path) -> None:
    path = tmp_path / "control"
    script = "echo ready; cat; sleep 1000000"
    command = [str(CLUSTER), "2", "--icount", "--alone", *END, "--control", str(path), "--", "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as run:
        assert run.stdout is not None and run.stdin is not None
        assert run.stdout.readline() == b"ready\n"
        run.stdin.write(b"from the host\n")
        run.stdin.close()
        assert run.stdout.readline() == b"from the host\n"
        nodes = subprocess.run([REPO / "vm/node", "--control", path, "nodes"], capture_output=True, check=True)
        assert nodes.stdout == b"node1 up\nnode2 up\n"
        for request in (("cut", "node2"), ("kill", "node2"), ("start", "node2")):
            subprocess.run([REPO / "vm/node", "--control", path, *request], check=True)
        subprocess.run([REPO / "vm/node", "--control", path, "kill", "node1"], check=False)
        assert run.wait(20) == 125


def test_a_dead_node_ends_the_cluster_with_a_sentence() -> None:
    token = "cosched.token=lockstep"
    script = "ssh -n node2 'echo c >/proc/sysrq-trigger'; sleep 100000"
    done = cluster(script, "--append", token)
    assert done.returncode == 125
    assert b"vm: node2: the guest's kernel panicked\n" in done.stderr
    assert processes(token) == []


def test_a_signal_powers_all_off_in_lockstep() -> None:
    token = "cosched.token=lockstep-signal"
    command = [str(CLUSTER), "2", "--icount", "--alone", *END, "--append", token]
    command += ["--", "sh", "-c", "echo up; sleep 1000000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        run.send_signal(signal.SIGTERM)
        assert run.wait(LIMIT_S) == 128 + signal.SIGTERM
    assert processes(token) == []


@pytest.mark.parametrize(("options", "words"), [
    (("--quantum", "100"), "--quantum is for nodes in lock-step: add --icount"),
    (("--seed", "1"), "--seed is for nodes in lock-step: add --icount"),
    (("--clock-skew", "1"), "--clock-skew is for nodes in lock-step: add --icount"),
    (("--icount", "--quantum", "5"), "'5' is not a whole number from 10 to 100000 (us)"),
])
def test_wrong_lockstep_options_are_2(options: tuple[str, ...], words: str) -> None:
    done = subprocess.run([CLUSTER, "2", *options, "--", "true"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in " ".join(done.stderr.split())
