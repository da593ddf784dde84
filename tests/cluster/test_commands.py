# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl cluster` as people type it: one command makes a cluster, its line joins the next node, the broker is there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ctl.cluster.certificates import LIFE, end_of
from ctl.cluster.membership import Files
from ctl.cluster.relay import Relay
from tests.cluster.lab import Host, free_ports, run, until

ROOT = Path(__file__).parents[2]


@dataclass
class Machine:
    """A node's files, and its ctl."""

    directory: Path

    def ctl(self, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        return self.any_ctl("cluster", *arguments, typed=typed)

    def any_ctl(self, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ctl", *arguments],
            input=typed,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            cwd=ROOT,
            env=self.environment,
        )

    @property
    def environment(self) -> dict[str, str]:
        places = {"COSCHED_CLUSTER_DIR": "etc", "COSCHED_RUN_DIR": "run", "COSCHED_STATE_DIR": "state"}
        return {**os.environ, **{name: str(self.directory / place) for name, place in places.items()}}

    def good(self, *arguments: str, typed: str = "") -> str:
        done = self.ctl(*arguments, typed=typed)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def files(self) -> Files:
        return Files(self.directory / "etc")


@pytest.fixture
def machines() -> Iterator[list[Machine]]:
    with tempfile.TemporaryDirectory(prefix="cosched-machines-") as directory:
        Path(directory).chmod(0o711)  # a broker that root starts is another user
        made = [Machine(Path(directory) / f"node{i + 1}") for i in range(3)]
        yield made
        for machine in made:
            machine.ctl("leave")


async def together(first: Machine, second: Machine) -> None:
    """Their relays hear each other."""
    hosts = []
    for machine in (first, second):
        member = machine.files.member()
        assert member is not None
        host = Host(member, 1, 3.0, time.time)
        relay = Relay.of_this_node(host, machine.files)
        assert relay is not None
        host.relay = relay
        host.start()
        host.relay.hold("7", "alice")
        hosts.append(host)
    one, two = hosts
    one.relay.local_user("keyboard")
    await until(lambda: two.state("7") == "slowed", 15, lambda: two.told)
    for host in hosts:
        await host.stop()


def test_init_prints_the_invitation_that_joins_the_next_node(machines: list[Machine]) -> None:
    one, two, _ = machines
    address = f"127.0.0.1:{free_ports(1)[0]}"
    invitation = one.good("init", "--node", "node1", "--address", address)
    assert invitation.startswith("cosched1-")
    assert two.good("join", typed=invitation) == f"this node is node2 of the cluster of {address}\n"
    run(together(one, two))
    assert "is in a cluster already" in one.ctl("init").stderr
    assert "runs already" in one.ctl("serve").stderr
    again = json.loads(one.good("invite", "node2", "--json"))
    assert two.good("join", "-", typed=again["invitation"] + "\n")
    run(together(one, two))
    hostless = two.files.member()
    assert hostless is not None
    one.good("leave")
    assert two.ctl("invite", "node3").returncode == 2
    assert Relay.of_this_node(Host(hostless, 1, 3.0, time.time), one.files) is None
    assert not list((one.directory / "etc").glob("[mba]*.json"))


def test_an_invitation_comes_from_where_nobody_else_can_read_it(machines: list[Machine]) -> None:
    one, two, _ = machines
    address = f"127.0.0.1:{free_ports(1)[0]}"
    invitation = one.good("init", "--node", "node1", "--address", address, "--no-start").strip()
    for words in (two.ctl("join", invitation), two.ctl("join", invitation[:12])):
        assert (words.returncode, "reads the invitation from its standard input" in words.stderr) == (2, True)
    file = one.directory / "invitation"
    file.write_text(invitation)
    file.chmod(0o640)
    refused = two.ctl("join", str(file))
    assert (refused.returncode, f"`chmod 600 {file}` first" in refused.stderr) == (2, True)
    assert two.files.member() is None
    file.chmod(0o600)
    assert "this node is node2" in two.good("join", str(file))


def test_a_node_is_revoked_and_invited_again(machines: list[Machine]) -> None:
    one, two, _ = machines
    address = f"127.0.0.1:{free_ports(1)[0]}"
    two.good("join", typed=one.good("init", "--node", "node1", "--address", address))
    told = json.loads(one.good("revoke", "node2", "--json"))
    assert told == {"node": "node2", "told": ["node1"], "missed": []}
    state = next(check for check in json.loads(two.any_ctl("doctor", "--json").stdout)["checks"]
                 if check["check"] == "cluster")
    assert state["state"] == "fails", state
    two.good("join", typed=one.good("invite", "node2"))
    run(together(one, two))


def test_certificates_are_renewed_by_hand(machines: list[Machine]) -> None:
    one = machines[0]
    one.good("init", "--node", "node1", "--address", f"127.0.0.1:{free_ports(1)[0]}")
    end = end_of(one.files.need("broker", "")["certificate"]["certificate"])
    day = time.strftime("%Y-%m-%d", time.localtime(end))
    assert one.good("renew") == f"node1: its certificate is good until {day}\n", "it is good for long enough"
    authority = one.files.need("authority", "")
    one.files.write("authority", {**authority, "life": 4 * LIFE})  # so more than two thirds are over
    told = json.loads(one.good("renew", "--json"))
    assert told["missed"] == []
    assert abs(told["ends"]["node1"] - time.time() - 4 * LIFE) < 120
    one.files.write("authority", {name: value for name, value in authority.items() if name != "life"})
    assert one.good("renew") == "this cluster was founded when certificates had no end\n"


def test_doctor_asks_the_broker(machines: list[Machine]) -> None:
    one, two, _ = machines

    def found(machine: Machine) -> tuple[str, str]:
        checks = json.loads(machine.any_ctl("doctor", "--json").stdout)["checks"]
        return next((check["state"], check["text"]) for check in checks if check["check"] == "cluster")

    assert found(one) == ("ok", "this node is in no cluster")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    line = one.good("init", "--node", "node1", "--address", address)
    two.good("join", "-", typed=line)
    assert found(one) == ("ok", f"this node is node1, and the broker at {address} takes it")
    assert found(two) == ("ok", f"this node is node2, and the broker at {address} takes it")
    keeper = int((one.directory / "run" / "broker" / "lock").read_text())
    os.kill(keeper, signal.SIGTERM)
    with contextlib.suppress(ProcessLookupError):
        while True:  # until it is gone
            os.kill(keeper, 0)
            time.sleep(0.05)
    state, text = found(one)
    assert state == "fails" and "this node's broker does not run" in text
    state, text = found(two)
    assert state == "fails" and f"no broker of {address} takes this node" in text


def test_three_brokers_by_their_lines(machines: list[Machine]) -> None:
    one, two, three = machines
    ports = free_ports(3)
    others = [f"--broker=node{i + 1}=127.0.0.1:{ports[i]}" for i in (1, 2)]
    line = one.good("init", "--node", "node1", "--address", f"127.0.0.1:{ports[0]}", "--no-start", *others)
    two.good("join", "-", "--no-start", typed=line)
    three.good("join", "-", "--no-start", typed=one.good("invite", "node3"))
    for machine in machines:
        assert machine.files.read("broker") is not None

    async def brokers() -> None:
        processes = []
        for machine in machines:
            processes.append(
                await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "ctl", "cluster", "serve"), cwd=ROOT, env=machine.environment
                )
            )
        try:
            await together(one, three)
        finally:
            for process in processes:
                process.terminate()
            codes = [await process.wait() for process in processes]
        assert codes == [0, 0, 0]

    run(brokers())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("serve",), "this node has no broker"),
        (("join",), "this is no invitation"),
        (("join", "/nowhere"), "cannot read /nowhere"),
        (("invite", "node2"), "on the node of `ctl cluster init`"),
        (("revoke", "node2"), "on the node of `ctl cluster init`"),
        (("renew",), "on the node of `ctl cluster init`"),
        (("init", "--node", "a b"), "cannot be called 'a b'"),
        (("init", "--address", "x:0"), "no address"),
        (("init", "--broker", "node2"), "names no broker"),
    ],
)
def test_mistakes_are_sentences_and_status_2(machines: list[Machine], arguments: tuple[str, ...], words: str) -> None:
    done = machines[0].ctl(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.startswith("Error: ")
