# SPDX-License-Identifier: GPL-2.0-or-later
"""What nodes tell each other of their jobs (policy `fit`), through a real broker: who hears it, and for how long."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from functools import partial

import pytest

from ctl.cluster.broker import Broker
from ctl.cluster.events import LEASE
from ctl.cluster.facts import encode_facts
from ctl.cluster.link import Link
from ctl.contract import JobFacts, NodeFacts
from tests.cluster.lab import Host, Lab, lab, run, until

ROOM = NodeFacts(60, 30.0, ())


def facts(*jobs: JobFacts) -> NodeFacts:
    return NodeFacts(60, 30.0, jobs)


def test_the_others_hear_at_once_and_jobs_get_numbers_in_their_order() -> None:
    async def work() -> None:
        async with lab() as cluster:
            one, two = cluster.host("node1"), cluster.host("node2")
            one.relay.facts(facts(JobFacts("a", 40)))
            await cluster.connected(one, two)
            await until(lambda: "a" in one.numbers, 5)
            two.relay.facts(facts(JobFacts("b", 40)))
            await until(lambda: "b" in two.numbers, 5)
            assert one.numbers["a"] < two.numbers["b"], "as they came"
            await until(lambda: "node1" in two.others and "node2" in one.others, 5)
            news = facts(JobFacts("a", 50, one.numbers["a"], runs=True))
            one.relay.facts(news)
            took = await until(lambda: two.others["node1"] == news, 5)
            print(f"known after {1000 * took:.0f} ms")
            three = cluster.host("node3")
            await until(lambda: three.others == {"node1": news, "node2": two.relay._facts}, 5)

    run(work())


def test_who_leaves_or_is_lost_is_forgotten() -> None:
    """A farewell is heard at once, a loss after a lease."""

    async def work() -> None:
        async with lab() as cluster:
            one, two, three = (cluster.host(name) for name in ("node1", "node2", "node3"))
            for host in (one, two, three):
                host.relay.facts(ROOM)
            await until(lambda: one.others.keys() == {"node2", "node3"}, 10)
            await three.relay.farewell()
            await three.stop()
            await until(lambda: one.others.keys() == {"node2"}, 1)
            await two.stop()
            took = await until(lambda: not one.others, LEASE + 2)
            assert took > LEASE / 2
            back = cluster.host("node2", incarnation=2)
            back.relay.facts(ROOM)
            await until(lambda: one.others == {"node2": ROOM}, 5)
            back.relay.facts(None)
            await until(lambda: not one.others, 1)

    run(work())


async def without_broker(cluster: Lab) -> tuple[Host, Host]:
    """Two nodes that heard of each other, until the lease ended after their broker had."""
    one, two = cluster.host("node1"), cluster.host("node2")
    for host in (one, two):
        host.relay.facts(facts(JobFacts("a", 40)))
    await until(lambda: one.others and two.others, 10)
    await cluster.stop_broker("node1")
    await until(lambda: not one.others and not two.others, LEASE + 2)
    return one, two


def test_without_a_broker_the_others_facts_end_with_the_lease_and_come_back() -> None:
    async def work() -> None:
        async with lab() as cluster:
            one, two = await without_broker(cluster)
            await cluster.start_broker("node1")
            await until(lambda: one.others and two.others, 10)

    run(work())


def test_facts_are_heard_also_where_the_buckets_come_after_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that lost its store answers before its keeper has made the buckets anew."""
    gate, look = asyncio.Event(), Broker._look

    async def late(broker: Broker, link: Link, there: Callable[[], None]) -> None:
        await gate.wait()
        await look(broker, link, there)

    async def work() -> None:
        async with lab() as cluster:
            one, two = await without_broker(cluster)
            monkeypatch.setattr(Broker, "_look", late)
            starting = asyncio.create_task(cluster.start_broker("node1"))
            for host in (one, two):
                await until(partial(getattr, host.relay, "connected_to"), 15)
            await asyncio.sleep(1)
            gate.set()
            await starting
            await until(lambda: one.others and two.others, 10)

    run(work())


def test_a_wrong_record_changes_nothing() -> None:
    def changed(**fields: object) -> bytes:
        return json.dumps(json.loads(encode_facts(news, "node3", 1, time.time())) | fields).encode()

    news = facts(JobFacts("x", 40))
    job = json.loads(encode_facts(news, "node3", 1, time.time()))["jobs"][0]

    async def work() -> None:
        async with lab() as cluster:
            one = cluster.host("node1")
            one.relay.facts(ROOM)
            await cluster.connected(one)
            async with cluster.link(cluster.member("node3")) as evil:
                records = (
                    b"x",
                    changed(room=-1),
                    changed(room="much"),
                    changed(turn_s=-1),
                    changed(jobs=7),
                    changed(jobs=[7]),
                    changed(jobs=[job[:-1]]),
                    changed(jobs=[job, job]),
                    changed(jobs=[["", *job[1:]]]),
                    changed(jobs=[[job[0], -1, *job[2:]]]),
                    changed(jobs=[[*job[:-1], 1]]),
                    changed(jobs=[job] * 200),
                    changed(node="node2"),
                    changed(time=time.time() - 1000),
                    changed(load=7),
                    changed(load=[1]),
                    changed(load=[1, "fast", 0.0, 0.0]),
                    changed(more=1),
                )
                for record in records:
                    await evil.put("$KV.cosched_jobs.node3", record)
                await until(lambda: sum(one.relay.drops.counts.values()) == len(records), 5, lambda: one.told)
                assert not one.others
                await evil.put("$KV.cosched_jobs.node3", changed())
                await until(lambda: one.others == {"node3": news}, 5)

    run(work())
