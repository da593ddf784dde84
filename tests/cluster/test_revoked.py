# SPDX-License-Identifier: GPL-2.0-or-later
"""A node whose key was made worthless: every broker refuses it at once, also one that was away, and for good."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ctl.cluster.link import Link, LinkError, Member
from ctl.cluster.membership import Files, invite, join
from ctl.cluster.revocation import revoke
from ctl.errors import CoschedError
from tests.cluster.lab import Lab, lab, run, until


async def _is_taken(member: Member, server: str) -> bool:
    link = Link(member, lambda: None)
    try:
        await link.connect([server])
        await link.flush()
    except LinkError as error:
        assert "Authorization Violation" in str(error) or "revoked" in str(error).lower(), error
        return False
    finally:
        await link.close()
    return True


async def _revoke(cluster: Lab, name: str) -> tuple[list[str], list[str]]:
    told, missed = await asyncio.to_thread(revoke, cluster.authority, name)
    return told, missed


def test_it_is_cut_off_and_the_others_are_not() -> None:
    async def work() -> None:
        async with lab() as cluster:
            kept, gone = cluster.host("node2"), cluster.host("node3")
            await cluster.connected(kept, gone)
            other = join(Files(cluster.directory / "second"), invite(cluster.authority, "node3"))
            assert await _is_taken(other, cluster.addresses[0])
            assert await _revoke(cluster, "node3") == (["node1"], [])
            await until(lambda: not gone.relay.connected_to, 3)
            for member in (cluster.member("node3"), other):  # all its keys
                assert not await _is_taken(member, cluster.addresses[0])
            assert kept.relay.connected_to
            kept.relay.hold("j", "alice")
            again = join(Files(cluster.directory / "again"), invite(cluster.authority, "node3"))
            assert await _is_taken(again, cluster.addresses[0])

    run(work())


def test_a_broker_that_was_away_learns_it_and_one_that_restarts_knows_it() -> None:
    async def work() -> None:
        async with lab(3) as cluster:
            member = cluster.member("node4")
            await cluster.stop_broker("node3")
            assert await _revoke(cluster, "node4") == (["node1", "node2"], ["node3"])
            await cluster.start_broker("node3")
            await cluster.wait_for(cluster.ready["node3"], "node3")
            for _ in range(120):
                if not await _is_taken(member, cluster.addresses[2]):
                    break
                await asyncio.sleep(0.5)
            assert not await _is_taken(member, cluster.addresses[2]), "the broker that was away"
            await cluster.stop_broker("node2")
            await cluster.start_broker("node2")  # from the first form of the token, and what it has kept
            await cluster.wait_for(cluster.ready["node2"], "node2")
            assert not await _is_taken(member, cluster.addresses[1])

    run(work(), 180)


def test_who_cannot_be_revoked_and_when(tmp_path: Path) -> None:
    async def work() -> None:
        async with lab() as cluster:
            for name, words in (("node1", "has a broker"), ("node9", "was not invited")):
                with pytest.raises(CoschedError, match=words):
                    await _revoke(cluster, name)
            member = cluster.member("node2")
            await cluster.stop_broker("node1")
            with pytest.raises(CoschedError, match="once more when one runs"):
                await _revoke(cluster, "node2")
            await cluster.start_broker("node1")
            assert await _revoke(cluster, "node2") == (["node1"], [])
            assert not await _is_taken(member, cluster.addresses[0])

    run(work())
