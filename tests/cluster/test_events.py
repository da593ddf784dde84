# SPDX-License-Identifier: GPL-2.0-or-later
"""Events between nodes, over a real broker: their receivers, delays and effects."""

from __future__ import annotations

import asyncio

import pytest

from ctl.contract import Decision, Sizes, State
from ctl.errors import CoschedError
from ctl.percentile import percentile
from tests.cluster.lab import MIB, lab, run, until


def test_a_local_user_and_a_stop_reach_the_nodes_that_hold_the_job_and_no_other() -> None:
    async def work() -> None:
        async with lab() as cluster:
            one, two, three = (cluster.host(name) for name in ("node1", "node2", "node3"))
            for host in (one, two):
                host.relay.hold("7", "alice")
            three.relay.hold("8", "alice")
            await cluster.connected(one, two, three)
            await until(lambda: two.relay.counts["renewed"], 5)
            one.relay.local_user("keyboard")
            await until(lambda: two.state("7") is State.SLOWED, 5)
            assert one.state("7") is State.SLOWED
            one.relay.stops([("7", "swapping")])
            await until(lambda: two.state("7") is State.STOPPED, 5)
            assert two.decided["7"].why == "stopped by node1 (swapping)"
            one.relay.stops([])
            one.relay.local_user("")
            await until(lambda: two.state("7") is State.FREE, 5)
            events = [text for kind, text in two.told if kind == "event"]
            assert events == [
                "node1: LOCAL_U job 7 (keyboard)",
                "node1: STOP job 7 (swapping)",
                "node1: RESUME job 7 (keyboard)",
                "node1: NO_LOCAL job 7",
            ]
            assert [text for kind, text in one.told if kind == "event"] == events
            assert not [text for kind, text in three.told if kind == "event"]
            for host in (one, two, three):
                assert host.relay.drops.counts == {}, host.told

    run(work())


def test_p99_from_cause_to_decision_is_below_50_ms() -> None:
    async def work() -> None:
        async with lab() as cluster:
            one, two = cluster.host("node1"), cluster.host("node2")
            for host in (one, two):
                host.relay.hold("7", "alice")
            await cluster.connected(one, two)
            await until(lambda: two.relay.counts["renewed"], 5)
            took = []
            for turn in range(300):
                stop = turn % 2 == 0
                one.relay.stops([("7", "swapping")] if stop else [])
                took.append(await until(lambda stop=stop: (two.state("7") is State.STOPPED) == stop, 5))  # type: ignore[misc]
            median, p99 = percentile(took, 0.5), percentile(took, 0.99)
            print(f"cause to decision: median {median * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms")
            assert p99 <= 0.05

    run(work())


def test_a_job_that_comes_later_learns_how_things_are() -> None:
    """The node asks: with such a lease, no node would repeat its event for 20 s."""

    async def work() -> None:
        async with lab(lease=60.0) as cluster:
            one, two = cluster.host("node1"), cluster.host("node2")
            one.relay.hold("7", "alice")
            one.relay.stops([("7", "swapping")])
            await cluster.connected(one, two)
            await asyncio.sleep(0.5)
            two.relay.hold("7", "alice")
            assert await until(lambda: two.state("7") is State.STOPPED, 5) < 1.0

    run(work())


def test_a_job_with_any_name_and_one_that_comes_and_goes() -> None:
    async def work() -> None:
        async with lab() as cluster:
            one, two = cluster.host("node1"), cluster.host("node2")
            await cluster.connected(one, two)
            jid = "sim:1.a-b_c"
            for _ in range(20):
                one.relay.hold(jid, "alice")
                one.relay.release(jid)
                await asyncio.sleep(0)
            for host in (one, two):
                host.relay.hold(jid, "alice")
            one.relay.stops([(jid, "swapping")])
            await until(lambda: two.state(jid) is State.STOPPED, 5)
            one.relay.release(jid)
            await until(lambda: two.state(jid) is State.FREE, 1)
            await until(lambda: two.relay.status()["jobs"][0]["nodes"] == [], 5)

    run(work())


def test_an_agent_that_ends_in_good_order_leaves_nothing_stopped() -> None:
    async def work() -> None:
        async with lab(lease=60.0) as cluster:
            one, two = cluster.host("node1"), cluster.host("node2")
            for host in (one, two):
                host.relay.hold("7", "alice")
            one.relay.describe(1000.0, 512 * MIB, 0.5)
            two.relay.describe(1000.0, 512 * MIB, 0.5)
            one.relay.stops([("7", "swapping")])
            await until(lambda: two.state("7") is State.STOPPED, 5)
            await until(lambda: [total.nodes for total in two.totals] == [1, 2], 5)
            await one.relay.farewell()
            await one.stop()
            await until(lambda: two.state("7") is State.FREE, 1)
            await until(lambda: two.totals[-1].nodes == 1, 1)

    run(work())


def test_a_restarted_agent_takes_back_what_it_said_before() -> None:
    async def work() -> None:
        async with lab(lease=60.0) as cluster:
            one, two = cluster.host("node1"), cluster.host("node2")
            for host in (one, two):
                host.relay.hold("7", "alice")
            one.relay.stops([("7", "swapping")])
            await until(lambda: two.state("7") is State.STOPPED, 5)
            await one.stop()
            again = cluster.host("node1", incarnation=2)
            again.relay.hold("7", "alice")
            assert await until(lambda: two.state("7") is State.FREE, 5) < 2.0

    run(work())


def test_a_node_that_forgot_its_incarnation_is_told_by_the_store() -> None:
    async def work() -> None:
        async with lab() as cluster:
            one, two = cluster.host("node1", incarnation=900), cluster.host("node2")
            for host in (one, two):
                host.relay.hold("7", "alice")
            one.relay.describe(1000.0, 512 * MIB, 0.5)
            await until(lambda: two.relay.directory.sizes.get("node1"), 5)
            await until(lambda: two.relay.counts["renewed"], 5)
            await one.stop()
            again = cluster.host("node1", incarnation=1)
            again.relay.hold("7", "alice")
            again.relay.describe(1000.0, 512 * MIB, 0.5)
            again.relay.local_user("keyboard")
            await until(lambda: two.state("7") is State.SLOWED, 5)
            assert again.relay.machine.incarnation == 901

    run(work())


def test_sizes_are_those_of_all_nodes_and_a_differing_l_is_told() -> None:
    async def work() -> None:
        async with lab() as cluster:
            one, two = cluster.host("node1"), cluster.host("node2")
            one.relay.describe(3000.0, 512 * MIB, 0.5)
            two.relay.describe(2100.0, 256 * MIB, 0.25)
            await until(lambda: one.totals[-1] == Sizes(2, 3000.0, 256 * MIB), 5)
            await until(lambda: two.totals[-1] == Sizes(2, 3000.0, 256 * MIB), 5)
            assert one.heard("L is 0.5 here and different on node2")

    run(work())


def test_a_jid_of_another_users_job_is_refused_and_changes_nothing() -> None:
    async def work() -> None:
        async with lab() as cluster:
            one, two = cluster.host("node1"), cluster.host("node2")
            one.relay.hold("7", "alice")
            await cluster.connected(one, two)
            await asyncio.sleep(0.5)
            await two.relay.check_user("7", "alice")
            with pytest.raises(CoschedError, match="job 7 belongs to user alice on node1, not to bob: choose"):
                await two.relay.check_user("7", "bob")
            one.relay.hold("8", "alice")
            await asyncio.sleep(0.5)
            with pytest.raises(CoschedError):
                await two.relay.check_user("8", "bob")
            one.relay.release("8")
            await asyncio.sleep(0.5)
            await two.relay.check_user("8", "bob")
            two.relay.hold("7", "bob")  # as when both began while there was no broker
            one.relay.stops([("7", "swapping")])
            await until(lambda: two.relay.drops.counts["foreign-user"], 5)
            await asyncio.sleep(0.5)
            assert two.state("7") is State.FREE
            assert two.heard("two jobs, end one of")

    run(work())


def test_an_agent_that_cannot_do_what_it_is_told_is_not_the_end_of_the_relay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> None:
        async with lab() as cluster:
            one, two = cluster.host("node1"), cluster.host("node2")
            for host in (one, two):
                host.relay.hold("7", "alice")
            await until(lambda: two.relay.counts["renewed"], 5)
            done = two.apply

            def fail(decision: Decision) -> None:
                done(decision)
                if decision.state is State.STOPPED:
                    raise OSError("the freezer is gone")

            monkeypatch.setattr(two, "apply", fail)
            one.relay.stops([("7", "swapping")])
            await until(lambda: two.heard("job 7: stopped could not be done"), 5)
            one.relay.stops([])
            await until(lambda: two.state("7") is State.FREE, 5)

    run(work())
