# SPDX-License-Identifier: GPL-2.0-or-later
"""The relay as an agent has it (ctl/process/relay.py), with another node, a real broker, and without one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from ctl.contract import Decision, Peers, Sizes, State
from ctl.errors import CoschedError
from ctl.process.relay import join
from tests.cluster.lab import MIB, lab, run, until
from tests.cluster.local import NoQueue


class Agent(NoQueue):
    """The calls to an agent."""

    def __init__(self) -> None:
        self.states: dict[str, tuple[str, bool]] = {}
        self.why = ""
        self.others = (0, 0.0, 0)
        self.told: list[str] = []

    def apply(self, decision: Decision) -> None:
        self.states[decision.jid], self.why = (decision.state, decision.elsewhere("node1")), decision.why

    def sizes(self, sizes: Sizes) -> None:
        self.others = (sizes.nodes, sizes.speed_max, sizes.memory_min)

    def tell(self, kind: str, text: str, **_details: object) -> None:
        self.told.append(text)


async def joined(agent: Agent, directory: Path) -> Peers:
    """As the agent does it: in a thread."""
    peers = await asyncio.get_running_loop().run_in_executor(None, join, agent, directory)
    assert peers is not None
    return peers


def test_a_node_without_a_cluster_has_no_peers(tmp_path: Path) -> None:
    assert join(Agent(), tmp_path) is None
    asked = f"join(None, Path({str(tmp_path)!r})); assert 'nats' not in sys.modules"
    script = f"import sys; from pathlib import Path; from ctl.process.relay import join; {asked}"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_agent_and_another_node_hear_each_other() -> None:
    async def work() -> None:
        async with lab() as cluster:
            cluster.member("node1")
            agent, two = Agent(), cluster.host("node2")
            two.relay.hold("7", "alice")
            two.relay.describe(2.0, 128 * MIB, 0.5)
            peers = await joined(agent, cluster.directory / "node1")
            peers.hold("7", "alice")
            peers.describe(1.0, 256 * MIB, 0.5)
            assert agent.states == {"7": ("free", False)}, "decided at once, connected or not"
            peers.start()
            await cluster.connected(two)
            await until(lambda: agent.others == (2, 2.0, 128 * MIB), 10, lambda: agent.told)

            two.relay.local_user("keyboard")
            await until(lambda: agent.states["7"] == ("slowed", True), 5)
            assert agent.why == "local user on node2 (keyboard)"
            peers.stops([("7", "swapping")])
            assert agent.states["7"] == ("stopped", False), "its own stop"
            await until(lambda: two.state("7") is State.STOPPED, 5)
            two.relay.stops([("7", "full")])
            await until(lambda: agent.states["7"] == ("stopped", True), 5)
            peers.stops([])
            assert agent.states["7"] == ("stopped", True), "by the other node alone"

            with pytest.raises(CoschedError, match="alice on node2, not to bob"):
                await peers.check_user("7", "bob")
            two.relay.stops([])
            peers.local_user("mouse")
            two.relay.local_user("")
            await until(lambda: agent.states["7"] == ("slowed", False), 5)
            await until(lambda: two.state("7") is State.SLOWED, 5)
            await peers.end()
            await until(lambda: two.state("7") is State.FREE, 1.5)

    run(work())


def test_without_a_broker_the_node_decides_alone() -> None:
    async def work() -> None:
        async with lab() as cluster:
            cluster.member("node1")
            await cluster.stop_broker(cluster.names[0])
            agent = Agent()
            peers = await joined(agent, cluster.directory / "node1")
            peers.start()
            peers.hold("7", "alice")
            peers.local_user("keyboard")
            assert agent.states["7"] == ("slowed", False)
            peers.stops([("7", "swapping")])
            assert agent.states["7"] == ("stopped", False)
            await until(lambda: any("not connected" in text for text in agent.told), 10)
            peers.stops([])
            assert agent.states["7"] == ("slowed", False)
            await peers.end()

    run(work())
