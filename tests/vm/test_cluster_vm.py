# SPDX-License-Identifier: GPL-2.0-or-later
"""vm/cluster against real virtual machines: names, logins, the wire between them, and how nodes end and come back."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.vm.test_vm import assert_gone, processes
from vm.control import Control
from vm.host import REPO, VmError

pytestmark = pytest.mark.vm

CLUSTER = REPO / "vm" / "cluster"
LIMIT_S = 900  # two nodes took 302 s on two CPUs that four other virtual machines shared
END = ("--timeout", "120")  # for a cluster that nothing else ends if a test fails


def cluster(
    count: int, script: str, *options: str, stdin: bytes = b"", limit: int = LIMIT_S
) -> subprocess.CompletedProcess[bytes]:
    """Run a shell script on the first of so many nodes."""
    return subprocess.run([CLUSTER, str(count), *options, "--", "sh", "-c", script], input=stdin, capture_output=True,
                          timeout=limit, check=False)


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """Build missing artefacts first, so that no stage line gets into a test's output."""
    subprocess.run([REPO / "vm" / "build"], check=True, capture_output=True)
    subprocess.run([REPO / "vm" / "run", "--", "true"], check=True, capture_output=True)


def test_nodes_know_each_other_and_the_command_is_as_in_vm_run(tmp_path: Path) -> None:
    script = """
        set -e
        alias ssh='ssh -n' # the input is for cat
        hostname; ssh node2 hostname; ssh node2 ssh node1 hostname
        ping -c 1 -W 5 node2 >/dev/null
        ssh node2 'echo $COSCHED_NODE of $COSCHED_NODES; test $PYTHONPATH = /src; ctl policies --json >/dev/null'
        for node in node1 node2; do
            ssh $node "python3 -c 'from ctl.cluster.membership import *; print(*Files().member().servers)'"
        done
        pgrep -c nats-server
        cat; echo err >&2; echo kept >/out/file
        exit 7
    """
    done = cluster(2, script, "--out", str(tmp_path / "out"), stdin=b"from the host\n")
    assert done.stdout.decode().splitlines() == [
        "node1", "node2", "node1", "node2 of node1=10.77.0.1 node2=10.77.0.2",
        "10.77.0.1:4222", "10.77.0.1:4222", "1", "from the host",
    ], done.stderr
    assert (done.stderr, done.returncode) == (b"err\n", 7)
    assert (tmp_path / "out" / "file").read_text() == "kept\n"


def test_node_is_cut_off_killed_and_brought_back() -> None:
    script = """
        reach() { ping -c 1 -W 1 node2 >/dev/null 2>&1 && echo reached || echo not; }
        member() { ssh node2 md5sum /etc/cosched/cluster/member.json; }
        member >/tmp/before; ssh node2 touch /root/mine
        reach; vm/node cut node2; vm/node nodes; reach; cat /sys/class/net/lo/operstate
        vm/node mend node2; sleep 1; reach; ssh node2 ls /root/mine
        vm/node kill node2; vm/node nodes; reach; vm/node cut node2; echo $?
        vm/node start node2; vm/node nodes; reach
        member | cmp - /tmp/before; ssh node2 ls /root/mine; vm/node start node2; vm/node cut node3
        vm/node kill node2
    """
    done = cluster(2, script)
    assert done.stdout.decode().split("\n") == [
        "reached", "node1 up", "node2 cut", "not", "unknown", "reached", "/root/mine",
        "node1 up", "node2 off", "not", "1", "node1 up", "node2 up", "reached", "",
    ], done.stderr
    assert done.stderr.decode().splitlines() == [
        "vm/node: node2 is off: start it first",
        "ls: cannot access '/root/mine': No such file or directory",
        "vm/node: node2 is up: only a node that was killed can be started",
        "vm/node: there is no node 'node3': there are node1, node2",
    ]
    assert done.returncode == 0


def test_requests_come_from_the_host_too(tmp_path: Path) -> None:
    path = tmp_path / "control"
    control = Control(path)
    script = "echo ready; head -c 24 /dev/input/event0 | od -A n -t d2 -j 16 -N 4; sleep 1000"
    with subprocess.Popen([CLUSTER, "2", "--alone", *END, "--control", path, "--", "sh", "-c", script],
                          stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"ready\n"
        assert control.nodes() == {"node1": "up", "node2": "up"}
        time.sleep(1)  # until head has opened the device
        control.key("node1", "a")
        assert run.stdout.readline().split() == [b"1", b"30"]  # EV_KEY, KEY_A
        with pytest.raises(VmError, match=r"QEMU refuses send-key: .*'nothing'"):
            control.key("node2", "nothing")
        control.cut("node1")
        assert control.nodes() == {"node1": "cut", "node2": "up"}
        control.kill("node1")
        assert run.wait(20) == 125
    assert not path.exists()
    with pytest.raises(VmError, match="cannot reach vm/cluster at"):
        control.nodes()


def test_four_nodes_on_a_small_machine() -> None:
    script = "for i in 1 2 3 4; do ssh node$i 'hostname; test -e /etc/cosched/cluster/member.json'; done"
    done = cluster(4, script, "--memory", "256")
    assert (done.stdout.split(), done.returncode) == ([b"node1", b"node2", b"node3", b"node4"], 0), done.stderr


def test_two_clusters_do_not_hear_each_other() -> None:
    script = "ping -c 1 node2 >&2; echo up; sleep 1000"
    with subprocess.Popen([CLUSTER, "2", "--alone", *END, "--", "sh", "-c", script],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"up\n"
        done = cluster(1, "ping -c 3 -W 1 10.77.0.2", "--alone")
        other.terminate()
        assert other.wait(20) == 128 + signal.SIGTERM
    assert done.returncode == 1
    assert b"3 packets transmitted, 0 received" in done.stdout


@pytest.mark.parametrize(("script", "options", "status", "reason"), [
    ("sleep 1000", ("--timeout", "40"), 124, b"vm: the command did not end within 40 s\n"),
    ("ssh node2 'echo c >/proc/sysrq-trigger'; sleep 1000", (), 125, b"vm: node2: the guest's kernel panicked\n"),
    ("echo c >/proc/sysrq-trigger; sleep 1000", (), 125, b"vm: the guest's kernel panicked\n"),
    ("true", ("--env", "PATH=/nowhere"), 125, b"/src/vm/guest/node failed:"),
])
def test_whatever_happens_all_are_powered_off(
    script: str, options: tuple[str, ...], status: int, reason: bytes
) -> None:
    token = f"cosched.token={os.getpid()}x{status}"
    done = cluster(2, script, "--alone", "--append", token, *options)
    assert done.returncode == status, done.stderr
    assert reason in done.stderr
    assert processes(token) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_signal_powers_all_off(number: signal.Signals) -> None:
    token = f"cosched.token={os.getpid()}y{int(number)}"
    command = [str(CLUSTER), "2", "--alone", *END, "--append", token, "--", "sh", "-c", "echo up; sleep 1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        assert len(processes(token)) >= 3
        run.send_signal(number)
        status = run.wait(20)
    assert status == (-9 if number == signal.SIGKILL else 128 + number)
    assert_gone(token)


@pytest.mark.parametrize(("options", "words"), [
    (("0",), "'0' is not a whole number from 1 to 32 (nodes)"),
    (("2", "--loss", "101"), "'101' is not a number from 0 to 100 (percent)"),
    (("2", "--delay", "x"), "'x' is not a number from 0 to 10000 (ms)"),
])
def test_bad_options_are_2(options: tuple[str, ...], words: str) -> None:
    done = subprocess.run([CLUSTER, *options, "--", "true"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in " ".join(done.stderr.split())
