# SPDX-License-Identifier: GPL-2.0-or-later
"""A qdisc that holds and drops packets, in a network namespace of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ctl.errors import CoschedError
from ctl.kernel.net_device import Device

ROOT = Path(__file__).resolve().parents[3]
HELD = """
import json, socket, subprocess, sys
sys.path.insert(0, sys.argv[1])
from ctl.monitor.netmon.rows import NODE
from ctl.monitor.netmon.sampler import Sampler
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
subprocess.run("tc qdisc add dev lo root tbf rate 8kbit burst 1600 limit 10420".split(), check=True)
sender, receiver = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
receiver.bind(("127.0.0.1", 0))
with Sampler("lo", "node") as sampler:
    for _ in range(30):
        try:
            sender.sendto(bytes(1000), receiver.getsockname())
        except OSError:  # dropped
            pass
    told = [sampler.sample().rows[NODE] for _ in range(2)]
shown = subprocess.check_output(["tc", "-s", "qdisc", "show", "dev", "lo"], text=True)
print(json.dumps({"told": told, "shown": shown}))
"""


def test_a_device_that_has_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel answers with an error for a number that no device has."""
    monkeypatch.setattr("ctl.kernel.net_device.socket.if_nametoindex", lambda _name: 999_999)
    with Device("lo") as device, pytest.raises(CoschedError, match="interface lo is gone: netlink: No such device"):
        device.counters()


@pytest.fixture(scope="module")
def held() -> dict[str, Any]:
    """What the monitor told of two periods, and what tc(8) showed after them."""
    if shutil.which("tc") is None:
        pytest.skip("there is no tc here")
    command = ["unshare", "--net", sys.executable, "-c", HELD, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if "Operation not permitted" in done.stderr:
        pytest.skip("only root makes network namespaces")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_packets_and_bytes_that_it_holds_are_its_backlog(held: dict[str, Any]) -> None:
    first, second = held["told"]
    assert first["qdisc.packets"] == second["qdisc.packets"] == 10
    assert first["qdisc.bytes"] == 10 * 1042  # with the headers of UDP, IP and Ethernet
    backlog = f"backlog {first['qdisc.bytes']}b {first['qdisc.packets']}p"
    assert backlog in held["shown"] or backlog.replace("10420b", "10Kb") in held["shown"]


def test_what_it_drops_counts_once(held: dict[str, Any]) -> None:
    first, second = held["told"]
    passed = first["device.tx_packets"]
    assert (first["qdisc.drops"], second["qdisc.drops"]) == (30 - 10 - passed, 0)
    assert f"dropped {first['qdisc.drops']}" in held["shown"]
    assert 0 < passed < 5
