# SPDX-License-Identifier: GPL-2.0-or-later
"""Brokers that are not there, die, come back empty, hang; nodes that are cut off: nothing stays stopped, and all is
right within 5 s of the reconnection."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

from ctl.cluster import unwritten
from ctl.contract import State
from tests.cluster.lab import MIB, Host, Lab, Wire, lab, run, until

RIGHT_WITHIN = 5.0  # seconds


def pair(*hosts: Host) -> None:
    """Let all hold job 7, and know their size."""
    for host in hosts:
        host.relay.hold("7", "alice")
        host.relay.describe(1000.0, 512 * MIB, 0.5)


async def stopped(cluster: Lab) -> tuple[Host, Host]:
    """Two nodes that hold job 7, which the first has stopped on both."""
    one, two = cluster.host("node1"), cluster.host("node2")
    pair(one, two)
    one.relay.stops([("7", "swapping")])
    await until(lambda: two.state("7") is State.STOPPED, 5)
    return one, two


def test_without_a_broker_a_node_decides_alone() -> None:
    async def work() -> None:
        async with lab() as cluster:
            await cluster.stop_broker("node1")
            one = cluster.host("node1")
            one.relay.hold("7", "alice")
            one.relay.hold("9", "alice")
            assert one.state("7") is State.FREE
            one.relay.local_user("keyboard")
            assert one.state("7") is State.SLOWED
            one.relay.stops([("9", "swapping")])
            assert (one.state("7"), one.state("9")) == (State.SLOWED, State.STOPPED)
            await until(lambda: one.heard("not connected"), 5)
            one.relay.stops([])
            one.relay.local_user("")
            one.relay.release("9")
            assert one.state("7") is State.FREE
            await one.relay.check_user("7", "bob")
            await asyncio.sleep(2)
            assert len(one.heard("not connected")) == 1, "told once, not with each attempt"

    run(work())


def test_a_lost_brokers_stops_end_with_their_lease_and_local_decisions_go_on() -> None:
    async def work() -> None:
        async with lab(lease=3.0) as cluster:
            one, two = await stopped(cluster)
            await cluster.stop_broker("node1")
            lost = time.monotonic()
            two.relay.local_user("keyboard")
            await until(lambda: two.state("7") is State.SLOWED, 4)
            assert 1.5 < time.monotonic() - lost < 3.5
            assert one.state("7") is State.STOPPED, "its own reason is still there"
            one.relay.stops([])
            assert one.state("7") is State.FREE, "and node2's user is out of reach"
            assert two.heard("connection to the broker lost: this node decides alone")

    run(work())


def test_a_broker_that_comes_back_empty_is_filled_by_the_nodes() -> None:
    async def work() -> None:
        async with lab() as cluster:
            one, two = await stopped(cluster)
            await cluster.stop_broker("node1")
            await until(lambda: two.state("7") is State.FREE, 5)
            two.relay.local_user("keyboard")
            await cluster.start_broker("node1")
            back = time.monotonic()
            await until(lambda: two.state("7") is State.STOPPED, RIGHT_WITHIN)
            one.relay.stops([])
            await until(lambda: one.state("7") is State.SLOWED and one.decided["7"].by == ("node2",), RIGHT_WITHIN)
            assert time.monotonic() - back < RIGHT_WITHIN
            async with cluster.link(cluster.member("node1")) as link:
                keys: set[str] = set()
                while len(keys) < 4:
                    assert time.monotonic() - back < RIGHT_WITHIN, keys
                    keys = {*await link.keys("cosched_holds"), *await link.keys("cosched_nodes")}
                assert keys == {
                    "$KV.cosched_holds.7.node1",
                    "$KV.cosched_holds.7.node2",
                    "$KV.cosched_nodes.node1",
                    "$KV.cosched_nodes.node2",
                }

    run(work())


def test_a_broker_that_is_killed_is_started_again_and_a_new_node_finds_all() -> None:
    async def work() -> None:
        async with lab() as cluster:
            one = cluster.host("node1")
            pair(one)
            one.relay.stops([("7", "swapping")])
            await cluster.connected(one)
            before = cluster.brokers["node1"][0].pid
            cluster.signal_broker("node1", signal.SIGKILL)
            await until(lambda: one.heard("connection to the broker lost"), 5)
            await until(lambda: cluster.brokers["node1"][0].pid not in (0, before), 5)
            two = cluster.host("node2")
            pair(two)
            await until(lambda: two.state("7") is State.STOPPED, RIGHT_WITHIN)

    run(work())


def test_a_node_that_is_cut_off_lets_go_and_is_right_again_when_it_is_back() -> None:
    """The wire is cut silently: no reset, no end."""

    async def work() -> None:
        async with lab(lease=3.0) as cluster:
            wire = await Wire(cluster.addresses[0]).start()
            one, two = cluster.host("node1"), cluster.host("node2", wire=wire)
            three = cluster.host("node3")
            pair(one, two, three)
            one.relay.stops([("7", "swapping")])
            two.relay.local_user("keyboard")
            await until(lambda: two.state("7") is State.STOPPED and three.state("7") is State.STOPPED, 5)
            wire.cut()
            await until(lambda: two.state("7") is State.SLOWED, 4)
            assert three.state("7") is State.STOPPED, "the others go on together"
            await until(lambda: two.heard("connection to the broker lost"), 6)
            one.relay.stops([])
            await until(lambda: three.state("7") is State.FREE, 1)
            one.relay.local_user("mouse")
            two.relay.local_user("")
            assert two.state("7") is State.FREE
            wire.mend()
            took = await until(lambda: two.state("7") is State.SLOWED, RIGHT_WITHIN)
            print(f"right {took:.2f} s after the wire was mended")
            assert two.decided["7"].by == ("node1",)

    run(work())


def test_a_node_that_was_away_asks_how_things_are() -> None:
    """With such a lease, the others would not say it again for 20 s."""

    async def work() -> None:
        async with lab(lease=60.0) as cluster:
            wire = await Wire(cluster.addresses[0]).start()
            one, two = cluster.host("node1"), cluster.host("node2", wire=wire)
            pair(one, two)
            await cluster.connected(one, two)
            wire.cut()
            await until(lambda: two.heard("connection to the broker lost"), 6)
            one.relay.local_user("mouse")
            wire.mend()
            await until(lambda: two.state("7") is State.SLOWED, RIGHT_WITHIN)

    run(work())


def test_a_broker_that_hangs_is_left() -> None:
    async def work() -> None:
        async with lab() as cluster:
            _, two = await stopped(cluster)
            cluster.signal_broker("node1", signal.SIGSTOP)
            try:
                await until(lambda: two.state("7") is State.FREE, 4)
                await until(lambda: two.heard("connection to the broker lost"), 7)
            finally:
                cluster.signal_broker("node1", signal.SIGCONT)
            await until(lambda: two.state("7") is State.STOPPED, RIGHT_WITHIN)

    run(work())


def test_a_bucket_that_takes_no_records_is_told_and_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sealed bucket answers questions about itself, and takes nothing, for ever."""
    monkeypatch.setattr(unwritten, "PATIENCE", 1.0)

    async def work() -> None:
        async with lab() as cluster:
            one = cluster.host("node1")
            pair(one)
            await cluster.connected(one)
            async with cluster.link(cluster.keeper("node1")) as link:
                bucket = (await link.ask("STREAM.INFO.KV_cosched_holds"))["config"]
                await link.ask("STREAM.UPDATE.KV_cosched_holds", **bucket | {"sealed": True})
            one.relay.hold("8", "alice")
            await until(lambda: one.heard("cosched_holds has taken no record of this node"), 5)
            assert one.relay.status()["unwritten"].keys() == {"cosched_holds"}
            await until(lambda: one.heard("cosched_holds takes this node's records again"), 8)
            assert not one.relay.status()["unwritten"]
            assert len(one.heard("has taken no record")) == 1
            async with cluster.link(cluster.member("node1")) as link:
                began = time.monotonic()
                while await link.keys("cosched_holds") != [f"$KV.cosched_holds.{jid}.node1" for jid in "78"]:
                    assert time.monotonic() - began < RIGHT_WITHIN, "what was written before is written again"

    run(work())


def test_of_three_brokers_one_may_die_and_no_event_is_lost() -> None:
    """A stop every 20 ms, each of another job, while the sender's own broker is killed and, when it is back, another
    broker: every node hears each stop, and no stop ends in between. The lease is longer than both outages on a busy
    host, so what was lost is asked for or repeated at a new connection, not every third of the lease."""

    async def work() -> None:
        async with lab(brokers=3, lease=45.0) as cluster:
            sender, *others = hosts = [cluster.host(f"node{i + 1}") for i in range(6)]
            jids = [str(number) for number in range(120)]
            for host in hosts:
                for jid in jids:
                    host.relay.hold(jid, "alice")
            await cluster.connected(*hosts)
            for host in hosts:
                while min(len(job["nodes"]) for job in host.relay.status()["jobs"]) < 5:
                    await asyncio.sleep(0.1)
            names = dict(zip(cluster.addresses, cluster.names, strict=True))
            victims = [names[sender.relay.connected_to]]
            victims += [name for name in cluster.names if name not in victims][:1]
            for number in range(len(jids)):
                if number == 30:
                    await cluster.stop_broker(victims[0])
                if number == 60:
                    await cluster.start_broker(victims[0])
                    await cluster.wait_for(cluster.ready[victims[0]], victims[0])
                if number == 90:
                    await cluster.stop_broker(victims[1])
                sender.relay.stops([(jid, "swapping") for jid in jids[: number + 1]])
                await asyncio.sleep(0.02)
            sent = time.monotonic()
            for host in others:
                while not all(host.state(jid) is State.STOPPED for jid in jids):
                    assert time.monotonic() - sent < RIGHT_WITHIN, host.relay.machine.node
                    await asyncio.sleep(0.01)
                for jid in jids:
                    states = [decision.state for _, decision in host.changes if decision.jid == jid]
                    assert states == [State.FREE, State.STOPPED], (host.relay.machine.node, jid)
            assert sender.heard("connection to the broker lost")

    run(work(), 120)
