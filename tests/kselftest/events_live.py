#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""An agent in a cluster: another node slows and stops the agent's job, and hears of its user; it works on without a
broker.

The other node is a relay in this process; broker, credentials, agent and jobs are real.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctl.kernel.cgroups import PARENT
from tests.cluster.local import NoQueue
from tests.kselftest import ktap
from tests.kselftest.command import Follower, agent, asked, ctl, following, refused
from tests.kselftest.node import spawned

if TYPE_CHECKING:
    from ctl.cluster.relay import Relay
    from ctl.contract import Decision, Sizes

_LEASE = 3.0  # seconds


class Other(NoQueue):
    """The other node's agent: it keeps the decisions of its relay."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.told: list[str] = []

    def apply(self, decision: Decision) -> None:
        self.states[decision.jid] = decision.state.value

    def sizes(self, sizes: Sizes) -> None:
        pass

    def tell(self, kind: str, text: str, **details: object) -> None:
        self.told.append(text)


async def _until(condition: Callable[[], bool], what: str, seconds: float = 20.0) -> float:
    """Wait for a condition; returns the waiting time in ms."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < ktap.PATIENCE * seconds, f"{what}: not within {ktap.PATIENCE * seconds:g} s"
        await asyncio.sleep(0.002)
    return (time.monotonic() - began) * 1000


@contextlib.asynccontextmanager
async def _other(node: Other, invitation: str) -> AsyncIterator[Relay]:
    """A second node of the cluster."""
    from ctl.cluster.link import end
    from ctl.cluster.membership import Files, join
    from ctl.cluster.relay import Relay

    with tempfile.TemporaryDirectory() as directory:
        member = join(Files(Path(directory)), invitation)
        relay = Relay(node, member, int(time.time()), _LEASE)
        task = asyncio.create_task(relay.run())
        try:
            await _until(lambda: bool(relay.connected_to), "the other node is connected")
            yield relay
        finally:
            await end(task)


def _frozen(jid: str) -> bool:
    return "frozen 1" in (PARENT / jid / "cgroup.events").read_text()


async def _asked(*arguments: str) -> Any:
    return await asyncio.to_thread(asked, *arguments)


async def _together(invitation: str) -> None:
    node = Other()
    async with _other(node, invitation) as other:
        other.describe(1000.0, 256 << 20, 0.5)
        other.hold("j", "root")
        await _until(lambda: node.states.get("j") == "free", "the other node holds the job")
        other.local_user("keyboard")
        end = time.monotonic() + ktap.PATIENCE * 20
        while (row := (await _asked("jobs"))[0])["state"] != "slowed":
            assert time.monotonic() < end, row
        assert "local user on other (keyboard)" in row["why"], row
        contract, known = (await _asked("status"))["contract"], await _asked("cluster", "status")
        ktap.expect([one["node"] for one in known["nodes"]], ["here", "other"], "nodes of `ctl cluster status`")
        ktap.expect(
            [(one["jid"], one["state"], one["nodes"]) for one in known["jobs"]], [("j", "slowed", ["other"])], "jobs"
        )
        page = " ".join((await asyncio.to_thread(ctl, "top", "--once", "--page", "nodes")).split())
        for wanted in (" 2 nodes ", " here (here) 1 ", " other 1 256 MiB ", "on here, other; local user on other (key"):
            assert wanted in page, f"no {wanted!r} on the dashboard's page: {page}"
        ktap.expect(contract["memory"]["pool"], 128 << 20, "M_Paral, of the smallest node's memory")
        assert contract["weight"] < 1, f"W beside a faster node: {contract['weight']}"
        other.stops([("j", "swapping")])
        ktap.note(f"frozen {await _until(lambda: _frozen('j'), 'stopped by the other'):.0f} ms after the other's stop")
        other.stops([])
        ktap.note(f"thawed {await _until(lambda: not _frozen('j'), 'let go on'):.0f} ms after its end")
        other.local_user("")
        await asyncio.to_thread(ctl, "set", "local_user=on")
        await _until(lambda: node.states["j"] == "slowed", "the other node hears of the user here")
        await asyncio.to_thread(ctl, "set", "local_user=off")
        await _until(lambda: node.states["j"] == "free", "the other node hears that the user is gone")
        other.stops([("j", "swapping")])
        await _until(lambda: _frozen("j"), "stopped once more")
    took = await _until(lambda: not _frozen("j"), "the stop ends with its lease", _LEASE + 10)
    ktap.note(f"the other node died: the job went on after {took / 1000:.1f} s, its lease is {_LEASE:g} s")


async def _partly(invitation: str) -> None:
    """Events off and on again; then the broker goes."""
    from ctl.process import broker as serve

    node = Other()
    async with _other(node, invitation) as other:
        other.hold("j", "root")
        other.stops([("j", "swapping")])
        await _until(lambda: _frozen("j"), "stopped by the other")
        await asyncio.to_thread(ctl, "set", "events=off")
        await _until(lambda: not _frozen("j"), "events=off lets it go")
        await asyncio.to_thread(ctl, "set", "events=policy")
        await _until(lambda: _frozen("j"), "stopped again with events on")
        other.hold("k", "nobody")
        await asyncio.sleep(1)
        await asyncio.to_thread(refused, "run", "--job", "k", "--", "true", words=("nobody", "other", "choose another"))
        await asyncio.to_thread(serve.stop)
        await _until(lambda: not _frozen("j"), "without the broker the stop ends", _LEASE + 15)
        now = await _asked("status")
        ktap.expect((now["loaded"], now["sched_ext"]["state"]), (True, "enabled"), "the node, alone")


def _has_told(follower: Follower) -> None:
    """Check the output of `ctl cluster events` about these events."""
    others = [{"node": "other", "event": event} for event in ("LOCAL_U", "STOP", "RESUME")]
    own = [{"node": "here", "event": event} for event in ("LOCAL_U", "NO_LOCAL")]
    follower.hears(*others, *own, *[{"kind": "stop", "action": action} for action in ("stop", "resume")])


def events() -> None:
    """Nodes that hold the same job slow it, stop it and let it go on together; a node alone works on."""
    if importlib.util.find_spec("nats") is None or shutil.which("nats-server") is None:
        raise ktap.Skip("this image has no nats-server, or no nats-py")
    answer = asked("cluster", "init", "--node", "here", "--address", "127.0.0.1", "--next", "other")
    try:
        with (
            agent("local_user=off", "epoch_ms=300", policy="ccs"),
            spawned("ctl", "run", "--job", "j", "--", "sleep", "1000"),
        ):
            ktap.until(lambda: "broker 127.0.0.1:4222" in ctl("status"), "connected to the broker", 60)
            assert "cluster: here, broker 127.0.0.1:4222" in ctl("status")
            invitation = answer["invitation"]
            with following("cluster", "events") as follower:
                asyncio.run(_together(invitation))
                _has_told(follower)
            asyncio.run(_partly(invitation))
    finally:
        subprocess.run(["ctl", "cluster", "leave"], check=False, capture_output=True)


if __name__ == "__main__":
    ktap.run(events)
