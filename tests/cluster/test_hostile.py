# SPDX-License-Identifier: GPL-2.0-or-later
"""Messages of broken or hostile members, and of strangers: they change nothing, are counted, and logged once."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from dataclasses import replace

import pytest

from ctl.cluster import wire
from ctl.cluster.directory import Hold, Size
from ctl.cluster.events import Event, Kind
from ctl.cluster.link import Link, LinkError
from ctl.cluster.membership import Files, found, invite, join
from ctl.contract import State
from tests.cluster.lab import MIB, Host, Lab, lab, run, until


def stop(node: str, seq: int = 1, jid: str = "7", incarnation: int = 1) -> Event:
    return Event(node, incarnation, seq, jid, Kind.STOP, False, True, 9.0, "for no reason")


async def listening(cluster: Lab) -> Host:
    """node1, which holds job 7 and is connected."""
    one = cluster.host("node1")
    one.relay.hold("7", "alice")
    await cluster.connected(one)
    await asyncio.sleep(0.2)
    return one


def test_the_broker_takes_from_a_node_only_what_is_its_own() -> None:
    """None of these messages is delivered, whatever the program of node3 is."""

    async def work() -> None:
        async with lab() as cluster:
            one, two = await listening(cluster), cluster.host("node2")
            two.relay.hold("7", "alice")
            two.relay.describe(1000.0, 512 * MIB, 0.5)
            await until(lambda: "node2" in one.relay.directory.sizes or two.relay.counts["renewed"], 5)
            heard: list[tuple[str, bytes]] = []
            async with cluster.link(cluster.member("node1")) as ear, cluster.link(cluster.member("node3")) as evil:
                for subject in ("cosched.job.>", "$KV.cosched_holds.>", "$KV.cosched_nodes.*", "$KV.cosched_jobs.*"):
                    await ear.subscribe(subject, lambda subject, data: heard.append((subject, data)))
                await ear.flush()
                heard.clear()
                for subject in (
                    "cosched.job.7.event.node2",
                    "cosched.job.7.ask.node2",
                    "cosched.job.7.event.node3.node2",
                    "cosched.anything",
                    "$KV.cosched_holds.7.node2",
                    "$KV.cosched_nodes.node2",
                    "$KV.cosched_jobs.node2",
                    "$SYS.REQ.SERVER.PING",
                    "_INBOX.node1.x.y",
                ):
                    await evil.publish(subject, wire.encode_event(stop("node2", 99), time.time()))
                await evil.publish("cosched.job.7.ask.node3", b"")  # allowed, so we know that the others went through
                await until(lambda: ("cosched.job.7.ask.node3", b"") in heard, 5)
                await asyncio.sleep(0.3)
                assert not [subject for subject, data in heard if b"for no reason" in data]
                assert await ear.keys("cosched_holds")
            assert one.state("7") is State.FREE

    run(work())


def test_a_member_cannot_change_the_store_nor_have_it_speak() -> None:
    """A consumer delivers where its maker wants, a republishing stream under any subject: nodes make neither."""

    async def work() -> None:
        async with lab() as cluster:
            await listening(cluster)
            forging = {"deliver_subject": "cosched.job.7.event.node2", "ack_policy": "none", "deliver_policy": "all"}
            republish = {"src": ">", "dest": "cosched.job.7.event.node2"}
            requests = {
                "STREAM.DELETE.KV_cosched_holds": b"",
                "STREAM.PURGE.KV_cosched_holds": b"",
                "STREAM.MSG.DELETE.KV_cosched_holds": b'{"seq":1}',
                "STREAM.UPDATE.KV_cosched_holds": json.dumps({"name": "KV_cosched_holds", "subjects": ["x"]}).encode(),
                "STREAM.CREATE.evil": json.dumps({"name": "evil", "subjects": ["x"], "republish": republish}).encode(),
                "CONSUMER.CREATE.KV_cosched_holds": json.dumps(
                    {"stream_name": "KV_cosched_holds", "config": forging}
                ).encode(),
            }
            async with cluster.link(cluster.member("node3")) as evil:
                answers = await asyncio.gather(
                    *(evil.request(f"$JS.API.{what}", data) for what, data in requests.items()), return_exceptions=True
                )
                assert all(isinstance(answer, LinkError) for answer in answers), answers
                assert await evil.keys("cosched_holds") == ["$KV.cosched_holds.7.node1"]

    run(work())


def test_a_member_cannot_purge_what_others_wrote() -> None:
    """A put may carry a header that empties a bucket; the buckets do not allow it."""

    async def work() -> None:
        async with lab() as cluster:
            await listening(cluster)
            async with cluster.link(cluster.member("node3")) as evil:
                answer = await evil.request("$KV.cosched_holds.7.node3", b"x", {"Nats-Rollup": "all"})
                assert "error" in json.loads(answer.data)
                assert await evil.keys("cosched_holds") == ["$KV.cosched_holds.7.node1"]

    run(work())


def test_messages_of_a_member_that_are_not_taken_are_counted_and_told_once() -> None:
    async def work() -> None:
        async with lab() as cluster:
            one = await listening(cluster)
            now = time.time()
            good = wire.encode_event(stop("node3"), now)
            async with cluster.link(cluster.member("node3")) as evil:
                bad = {
                    "forged": wire.encode_event(stop("node2"), now),
                    "malformed": b"\x00garbage",
                    "oversized": b"{" + b" " * 1020 + b"}",
                    "version": b'{"v": 9}',
                    "clock": wire.encode_event(stop("node3"), now - 3600),
                    "no-holder": good,
                }
                assert len(bad["oversized"]) <= wire.MAX_MESSAGE  # larger ones the broker does not take at all
                del bad["oversized"]
                for data in bad.values():
                    for _ in range(5):
                        await evil.publish("cosched.job.7.event.node3", data)
                await until(lambda: one.relay.drops.counts["no-holder"], 8)
                for reason in ("forged", "malformed", "version", "clock"):
                    assert one.relay.drops.counts[reason] == 5
                for reason in bad:
                    assert len(one.heard(f"dropped ({reason}) from node3")) == 1
                assert one.state("7") is State.FREE
                assert [decision.state for _, decision in one.changes] == [State.FREE]

                await evil.put("$KV.cosched_holds.7.node3", Hold("node3", 1, "alice").encode(time.time()))
                await evil.publish("cosched.job.7.event.node3", wire.encode_event(stop("node3", 5), time.time()))
                await until(lambda: one.state("7") is State.STOPPED, 5)
                for seq in (5, 4):
                    old = wire.encode_event(replace(stop("node3", seq), kind=Kind.RESUME, stop=False), time.time())
                    await evil.publish("cosched.job.7.event.node3", old)
                await until(lambda: one.relay.drops.counts["replayed"] == 2, 5)
                assert one.state("7") is State.STOPPED

    run(work())


def test_what_is_larger_than_any_message_ends_the_senders_connection() -> None:
    async def work() -> None:
        async with lab() as cluster:
            one = await listening(cluster)
            async with cluster.link(cluster.member("node3")) as evil:
                evil._client._max_payload = 1 << 30
                await evil.publish("cosched.job.7.event.node3", b"x" * 100_000)
                await asyncio.wait_for(evil.lost.wait(), 5)
            assert one.relay.connected_to
            assert one.relay.drops.counts == {}

    run(work())


def test_a_flood_of_a_member_does_not_keep_the_others_from_being_heard() -> None:
    async def work() -> None:
        async with lab() as cluster:
            one, two = await listening(cluster), cluster.host("node2")
            two.relay.hold("7", "alice")
            await until(lambda: two.relay.counts["renewed"], 5)
            async with cluster.link(cluster.member("node3")) as evil:
                for _ in range(6000):
                    await evil.publish("cosched.job.7.event.node3", b"flood")
                await evil.flush()
                two.relay.local_user("keyboard")
                await until(lambda: one.state("7") is State.SLOWED, 5)
            assert one.relay.drops.counts["flood"] > 1000
            assert len(one.heard("dropped (flood)")) == 1

    run(work())


@pytest.mark.parametrize("ahead", [3600, -3600])
def test_a_node_whose_clock_is_off_by_an_hour(ahead: int) -> None:
    async def work() -> None:
        async with lab() as cluster:
            one = await listening(cluster)
            late = cluster.host("node2", wall=lambda: time.time() + ahead)
            late.relay.hold("7", "alice")
            late.relay.describe(9e9, 64 * MIB, 0.5)
            one.relay.describe(1000.0, 512 * MIB, 0.5)
            late.relay.stops([("7", "swapping")])
            one.relay.local_user("keyboard")
            await until(lambda: one.relay.drops.counts["clock"] and late.relay.drops.counts["clock"], 8)
            await asyncio.sleep(0.5)
            assert one.decided["7"].by == ("node1",)
            assert [total.speed_max for total in one.totals] == [1000.0]
            assert late.decided["7"].by == ("node2",), "it decides for itself"
            word = "ahead of" if ahead > 0 else "behind"
            assert len(one.heard(f"its clock is 3600 s {word} this node's")) in (1, 2)  # event and record may be told

    run(work())


def test_garbage_in_the_store_changes_nothing() -> None:
    async def work() -> None:
        async with lab() as cluster:
            one = await listening(cluster)
            one.relay.describe(1000.0, 512 * MIB, 0.5)
            now = time.time()
            size = json.loads(Size("node3", 1, 1000.0, 512 * MIB, 0.5).encode(now))
            records = [b"garbage", b"\xff" * 1000, b"[]", b"{}", json.dumps({**size, "share_l": 1.5}).encode()]
            records += [json.dumps({**size, field: value}).encode() for field, value in
                        [("speed", 1e300), ("memory", -1), ("node", "node1"), ("time", now + 1e6), ("v", 2)]]
            async with cluster.link(cluster.member("node3")) as evil:
                for record in records:
                    await evil.put("$KV.cosched_nodes.node3", record)
                    await evil.put("$KV.cosched_holds.7.node3", record)
                await evil.put("$KV.cosched_holds.=ZZ.node3", b"garbage")
                await evil.publish("cosched.job.7.event.node3", wire.encode_event(stop("node3"), now))
            await until(lambda: one.relay.drops.counts["no-holder"] or one.relay.drops.counts["version"] > 2, 8)
            await until(lambda: sum(one.relay.drops.counts.values()) >= 2 * len(records), 5)
            assert one.state("7") is State.FREE
            assert [total.nodes for total in one.totals] == [1]
            assert one.relay.directory.sizes == {}
            again = cluster.host("node4")  # reads the garbage that is there, from the store
            again.relay.hold("7", "alice")
            await until(lambda: again.relay.drops.counts["version"], 5)
            assert set(again.relay.directory.sizes) <= {"node1"}

    run(work())


def test_a_wrong_credential_is_a_sentence() -> None:
    async def work() -> None:
        async with lab() as cluster:
            member = cluster.member("node2")
            other = Files(cluster.directory / "other")
            found(other, "node1", cluster.addresses[0], {})
            stranger = join(Files(cluster.directory / "stranger"), invite(other, "node2"))
            for wrong, words in (
                (replace(member, seed=bytes(32)), "no broker of .* takes this node: .*Authorization Violation"),
                (replace(stranger, ca=member.ca), "no broker of .* takes this node: .*Authorization Violation"),
                (replace(member, token=member.token[:-8] + "AAAAAAAA"), "Authorization Violation"),
                (stranger, "no broker of .* takes this node: .*certificate verify failed"),
                (replace(member, ca="garbage"), "the cluster's certificate is damaged"),
            ):
                with pytest.raises(LinkError, match=words):
                    await Link(wrong, lambda: None).connect(wrong.servers)
            host = Host(replace(member, seed=bytes(32)), 1, 2.0, time.time).start()
            await until(lambda: host.heard("not connected: no broker of"), 5)
            host.relay.hold("7", "alice")
            assert host.state("7") is State.FREE
            await host.stop()

    run(work())


def test_nobody_talks_to_a_broker_without_tls() -> None:
    async def work() -> None:
        async with lab() as cluster:
            name, _, port = cluster.addresses[0].rpartition(":")

            def plain() -> bytes:
                with socket.create_connection((name, int(port)), 5) as connection:
                    connection.recv(4096)
                    connection.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
                    return connection.recv(4096)

            def unknown() -> None:
                context = ssl.create_default_context()
                with socket.create_connection((name, int(port)), 5) as connection:
                    connection.recv(4096)
                    context.wrap_socket(connection, server_hostname="broker.cosched")

            loop = asyncio.get_running_loop()
            assert b"PONG" not in await loop.run_in_executor(None, plain)
            with pytest.raises(ssl.SSLCertVerificationError):
                await loop.run_in_executor(None, unknown)

    run(work())
