# SPDX-License-Identifier: GPL-2.0-or-later
"""Certificates that end in seconds: they are renewed before, by themselves, and no connection ends of it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator

import pytest

from ctl.cluster import certificates
from ctl.cluster.broker import Broker
from ctl.cluster.certificates import BROKER_NAME, Certificate, end_of
from ctl.cluster.link import LinkError
from ctl.cluster.membership import Files
from ctl.cluster.renewal import Kept, keep_renewing, renew
from ctl.contract import State
from ctl.errors import CoschedError
from tests.cluster.lab import Lab, lab, run, until

LIFE = 18.0  # seconds: they are renewed when 6 are left


async def shown(cluster: Lab, address: str) -> str:
    """The certificate that a broker shows to new connections."""
    member = cluster.member("node1")
    context = ssl.create_default_context(cadata=member.ca)
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    await reader.readline()  # INFO
    await writer.start_tls(context, server_hostname=BROKER_NAME)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return ssl.DER_cert_to_PEM_cert(der)


@contextlib.asynccontextmanager
async def renewing(files: Files) -> AsyncIterator[None]:
    task = asyncio.create_task(keep_renewing(files))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("brokers", [1, 3])
def test_links_outlive_their_certificates(brokers: int) -> None:
    async def work() -> None:
        async with lab(brokers, life=LIFE) as cluster, renewing(cluster.authority):
            first = [end_of(await shown(cluster, address)) for address in cluster.addresses]
            one, two = cluster.host("node1"), cluster.host("node2")
            await cluster.connected(one, two)
            for host in (one, two):
                host.relay.hold("7", "alice")
            pids = [broker.pid for broker, _ in cluster.brokers.values()]
            await asyncio.sleep(max(0.0, max(first) - time.time()) + 1)
            for address, end in zip(cluster.addresses, first, strict=True):
                assert end_of(await shown(cluster, address)) >= end + LIFE / 3, cluster.log("node1")
            assert not one.heard("lost") and not two.heard("lost"), "a link ended"
            assert [broker.pid for broker, _ in cluster.brokers.values()] == pids, "a broker was started anew"
            one.relay.local_user("keyboard")
            await until(lambda: two.state("7") is State.SLOWED, 3)
            late = cluster.host("node4")
            await cluster.connected(late)
            name = cluster.names[-1]
            await cluster.restart_broker(name)  # it begins with the certificate that it has kept
            await cluster.wait_for(cluster.ready[name], name)
            assert end_of(await shown(cluster, cluster.addresses[-1])) > time.time()

    run(work(), 120)


def test_without_renewal_nobody_is_taken_any_more_and_the_broker_says_why() -> None:
    async def work() -> None:
        async with lab(life=6.0) as cluster:
            member = cluster.member("node2")
            async with cluster.link(member):
                pass
            await asyncio.sleep(6.5)
            with pytest.raises(LinkError, match="certificate"):
                async with cluster.link(member):
                    pass
            assert (await renew(cluster.authority)).missed == ["node1"]
            content = Files(cluster.directory / "node1").read("broker")
            assert content is not None
            again = Broker(content, cluster.directory / "again", cluster.directory / "kept")
            with pytest.raises(CoschedError, match=r"this broker's certificate ended on .* `ctl cluster invite`"):
                await again.run(lambda: None)

    run(work())


def test_a_year_is_renewed_when_four_months_are_left() -> None:
    async def work() -> None:
        async with lab() as cluster:
            ends, missed = await renew(cluster.authority)
            assert missed == []
            assert abs(ends["node1"] - time.time() - 365 * 86_400) < 120
            assert end_of(await shown(cluster, cluster.addresses[0])) == ends["node1"], "it is new enough"
            authority = cluster.authority.need("authority", "")
            soon = {**authority, "life": certificates.LIFE * 4}  # so three quarters of a life are over
            cluster.authority.write("authority", soon)
            later = (await renew(cluster.authority)).ends["node1"]
            assert abs(later - time.time() - 4 * certificates.LIFE) < 120
            await asyncio.sleep(0.5)
            assert end_of(await shown(cluster, cluster.addresses[0])) == later

    run(work())


def test_only_the_clusters_own_certificates_are_taken() -> None:
    async def work() -> None:
        async with lab() as cluster:
            content = Files(cluster.directory / "node1").read("broker")
            assert content is not None
            changes: list[None] = []
            kept = Kept(content, cluster.directory / "kept.pem", lambda: changes.append(None))
            present, life = kept.present, 2 * certificates.LIFE
            ours = Certificate(**cluster.authority.need("authority", "")["ca"])
            refused = (
                certificates.renewed(certificates.make_authority(), present, life),
                certificates.renewed(ours, present, certificates.LIFE - 3600),
                certificates.make_certificate(ours, "node1", "127.0.0.1", life).certificate,
                ours.certificate,
                "no certificate",
            )
            for other in refused:
                assert kept.answer(other.encode()) == present.encode(), other
            assert kept.answer(b"\xff") == present.encode()
            assert not changes and not (cluster.directory / "kept.pem").exists()
            new = certificates.renewed(ours, present, life)
            assert kept.answer(new.encode()) == new.encode()
            assert (kept.answer(b""), len(changes)) == (new.encode(), 1)
            async with cluster.link(cluster.member("node3")) as evil:  # a member may not even ask
                with pytest.raises(LinkError):
                    await evil.request("cosched.certificate.keeper-node1", new.encode())

    run(work())
