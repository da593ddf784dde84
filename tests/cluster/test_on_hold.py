# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs on hold on several nodes, through a real broker; ctl/node/social.py carries it out (tests/unit/together)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator

from ctl.cluster.events import LEASE
from ctl.cluster.facts import decode, encode_facts
from ctl.cluster.wire import MAX_RECORD
from ctl.contract import JobFacts, NodeFacts, OnHold
from ctl.node.on_hold import JobsOnHold
from tests.cluster.lab import Host, Lab, lab, run, until


class Node:
    """A node that holds jobs of alice, without a queue of jobs."""

    def __init__(self, host: Host) -> None:
        self.host, self.on_hold = host, JobsOnHold(host.tell)

    def look(self) -> None:
        """What the agent does at news, and at the end of an epoch."""
        self.on_hold.hear(self.host.others)
        self.on_hold.keep(lambda _jid: "alice")
        self.host.relay.facts(self.on_hold.facts(None))

    def say(self, on: bool) -> None:
        self.on_hold.say("sim.7:b", "alice", on)
        self.look()

    def has_it(self) -> bool:
        return self.on_hold.get("sim.7:b") is not None


@contextlib.asynccontextmanager
async def nodes(cluster: Lab, *names: str) -> AsyncIterator[list[Node]]:
    """Nodes that look all the time."""
    found = [Node(cluster.host(name)) for name in names]

    async def look() -> None:
        while True:
            await asyncio.sleep(0.01)
            for node in found:
                node.look()

    looking = asyncio.create_task(look())
    try:
        await cluster.connected(*(node.host for node in found))
        yield found
    finally:
        looking.cancel()


def test_it_is_said_on_one_node_heard_on_all_and_released_on_another() -> None:
    async def work() -> None:
        async with lab() as cluster, nodes(cluster, "node1", "node2", "node3") as (one, two, three):
            one.say(True)
            took = await until(lambda: two.has_it() and three.has_it(), 5)
            print(f"known after {1000 * took:.0f} ms")
            three.say(False)
            await until(lambda: not any(node.has_it() for node in (one, two, three)), 5)
            assert two.host.heard("was released by alice")

    run(work())


def test_it_outlives_the_node_where_it_was_said_and_a_broker() -> None:
    async def work() -> None:
        async with lab() as cluster, nodes(cluster, "node1", "node2") as (one, two):
            one.say(True)
            await until(two.has_it, 5)
            await one.host.stop()
            await until(lambda: not two.host.others, LEASE + 2)
            assert two.has_it()
            await cluster.stop_broker("node1")
            one.on_hold, one.host = JobsOnHold(one.host.tell), cluster.host("node1", incarnation=2)
            await cluster.start_broker("node1")
            await until(one.has_it, 15)
            one.say(False)
            await until(lambda: not two.has_it(), 5)

    run(work())


def test_the_largest_record_passes_and_a_wrong_one_changes_nothing() -> None:
    async def work() -> None:
        async with lab() as cluster, nodes(cluster, "node1") as (one,):
            now = time.time()
            words = tuple(OnHold(f"{i:064}", round(now, 3), "u" * 64, True) for i in range(200))
            jobs = tuple(JobFacts(f"{i:064}", 1 << 50, 1 << 50, now, now, 1 << 20) for i in range(200))
            largest = encode_facts(NodeFacts(1 << 50, 30.0, jobs, on_hold=words), "node2", 1, now)
            assert len(largest) <= MAX_RECORD and len(decode(largest, "node2", now)[1].on_hold) == 32
            word = json.loads(largest)["on_hold"][0]
            wrong = (7, [7], [word[:-1]], [word, word], [["", *word[1:]]], [[word[0], -1, *word[2:]]],
                     [[*word[:2], "a b", word[3]]], [[*word[:3], 1]], [word] * 33)  # fmt: skip
            async with cluster.link(cluster.member("node2")) as evil:
                for change in (*({"on_hold": on_hold} for on_hold in wrong), {"fits": 1}):
                    record = json.loads(largest) | {"jobs": []} | change
                    await evil.put("$KV.cosched_jobs.node2", json.dumps(record).encode())
                drops = one.host.relay.drops.counts
                await until(lambda: sum(drops.values()) == len(wrong) + 1, 5, lambda: one.host.told)
                assert not one.host.others
                await evil.put("$KV.cosched_jobs.node2", largest)
                await until(lambda: len(one.host.others) == 1, 5, lambda: one.host.told)

    run(work())
