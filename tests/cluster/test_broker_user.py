# SPDX-License-Identifier: GPL-2.0-or-later
"""A broker that root starts without systemd: another user, without privileges, which alone reads the broker's keys."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.lab import free_ports

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")


@pytest.fixture
def keeper() -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A node's folder, and the keeper of its broker."""
    with tempfile.TemporaryDirectory(prefix="cosched-broker-") as name:
        directory = Path(name)
        directory.chmod(0o711)
        places = {"COSCHED_CLUSTER_DIR": "etc", "COSCHED_RUN_DIR": "run", "COSCHED_STATE_DIR": "state"}
        environment = {**os.environ, **{name: str(directory / place) for name, place in places.items()}}
        ctl = [sys.executable, "-m", "ctl", "cluster"]
        init = ("init", "--node", "node1", "--address", f"127.0.0.1:{free_ports(1)[0]}", "--no-start")
        subprocess.run([*ctl, *init], cwd=ROOT, env=environment, check=True, capture_output=True)
        with subprocess.Popen([*ctl, "serve"], cwd=ROOT, env=environment, umask=0o077) as process:
            try:
                yield directory, process
            finally:
                process.kill()


def _of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _server(keeper: int) -> int:
    """The keeper's nats-server, once it has a log."""
    for _ in range(200):
        children = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
        for child in children:
            if Path(f"/proc/{child}/comm").read_text().strip() == "nats-server":
                return int(child)
        time.sleep(0.05)
    raise AssertionError("no nats-server")


def test_nats_server_is_a_user_of_its_own(keeper: tuple[Path, subprocess.Popen[bytes]]) -> None:
    directory, process = keeper
    status, user = _of(_server(process.pid)), pwd.getpwnam("nats")
    assert status["Uid"].split() == [str(user.pw_uid)] * 4
    assert status["Gid"].split() == [str(user.pw_gid)] * 4
    assert status["Groups"] == ""
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1"
    for _ in range(100):
        if (directory / "run/broker/server/log").exists():
            break
        time.sleep(0.05)
    else:
        raise AssertionError("nats-server wrote no log where it may write")
    own = {path for path in directory.rglob("*") if path.stat().st_uid == user.pw_uid}
    outside = {path for path in own if "server" not in path.parts and "accounts" not in path.parts}
    assert {path.name for path in outside} == {"broker.key", "broker.pem", "ca.pem", "nats.conf"}
    assert {path.stat().st_mode & 0o777 for path in outside} == {0o400}
    for path in (directory / "run/broker", directory / "state/broker", *directory.glob("etc/*")):
        assert path.stat().st_uid == 0 and not path.stat().st_mode & 0o066, f"{path} is another's to read or write"


def test_nats_server_never_waits_for_khugepaged(keeper: tuple[Path, subprocess.Popen[bytes]]) -> None:
    _, process = keeper
    assert _of(_server(process.pid))["THP_enabled"] == "0"


def test_it_ends_with_its_keeper(keeper: tuple[Path, subprocess.Popen[bytes]]) -> None:
    _, process = keeper
    server = os.pidfd_open(_server(process.pid))
    process.send_signal(signal.SIGKILL)
    for _ in range(100):
        try:
            signal.pidfd_send_signal(server, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    else:
        raise AssertionError("nats-server outlives its keeper")
    os.close(server)
