# SPDX-License-Identifier: GPL-2.0-or-later
"""The relay carries this node's events to the nodes that hold the same jobs, and the others' events to the agent.

The agent calls `hold`, `release`, `local_user`, `stops` and `describe` at changes. Each call returns at once and works
without a broker; the consequences for this node alone are decided in the call. `run` does the rest: it connects,
announces this node and its jobs, asks the others for their states, and then passes events on. When a connection ends, a
new connection begins in the same way, after a pause that grows and varies, so that the nodes return to a broker one
after the other.

No message is kept for delivery. An event holds for a lease and is repeated (see `ctl.cluster.machine`), and a node that
was cut off sends its current state when it is back.

The network may deliver anything. A message is accepted if it is well-formed and fresh, and if its sender holds the job
for the same user as here, by the sender's own record in the key-value store. Other messages are dropped, counted, and
logged once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Self

from ctl.cluster import wire
from ctl.cluster.directory import FACTOR, Directory, Size
from ctl.cluster.events import LEASE, Event
from ctl.cluster.facts import Facts
from ctl.cluster.holders import Holders
from ctl.cluster.link import Link, LinkError, Member, end
from ctl.cluster.machine import Machine, Verdict
from ctl.cluster.membership import Files
from ctl.cluster.session import Ours, Session
from ctl.cluster.unwritten import Unwritten
from ctl.cluster.wire import Budget, Drop, Drops
from ctl.contract import Local, NodeFacts, Sizes
from ctl.errors import USAGE, CoschedError

__all__ = ["Relay"]

_PAUSES = (0.1, 2.0)  # seconds between attempts to connect, the first and the longest; each is cut by up to a half
_FORGET_EVERY = 5.0  # seconds between two looks for records that were not renewed
_FAREWELL = 2.0  # seconds
_log = logging.getLogger("ctl.cluster")


class Relay:
    """This node's part in the cluster."""

    def __init__(
        self,
        node: Local,
        member: Member,
        incarnation: int,
        lease: float = LEASE,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`incarnation`: from `ctl.cluster.membership.Files.next_incarnation`; `lease`: seconds; `wall`: Unix time."""
        self.machine = Machine(member.name, incarnation, lease)
        self.directory = Directory()
        self.known = Facts()
        self.drops = Drops(lambda text: node.tell("cluster", text, action="drop"))
        self.unwritten = Unwritten(lambda text: node.tell("cluster", text, action="unwritten"))
        self.counts: Counter[str] = Counter()
        self.connected_to = ""
        self._node = node
        self._member = member
        self._wall = wall
        self._servers = member.servers
        self._holders = Holders(self.machine, self.drops, self._settled, wall)
        self._size: Size | None = None
        self._facts: NodeFacts | None = None
        self._sizes: Sizes | None = None
        self._differing: list[str] = []
        self._beyond: list[str] = []
        self._told: dict[str, tuple[bool, bool]] = {}
        self._budget = Budget()
        self._wake = asyncio.Event()
        self._session: Session | None = None
        self._ours = Ours(
            self.machine,
            self._holders,
            lambda: self._size,
            self._heard,
            self._heard_size,
            self._heard_facts,
            lambda: self._facts,
            node.arrived,
            self.unwritten,
            self._wake.set,
            wall,
        )

    @classmethod
    def of_this_node(cls, node: Local, files: Files | None = None) -> Self | None:
        """The relay of this node's membership, a new incarnation; None if it is in no cluster. Raises CoschedError."""
        files = files or Files()
        member = files.member()
        return None if member is None else cls(node, member, files.next_incarnation())

    @property
    def node(self) -> str:
        """The name by which the others know this node."""
        return self.machine.node

    # calls of the agent

    def hold(self, jid: str, user: str) -> None:
        """A job has a task here now, and is this user's."""
        self._holders.own[jid] = user
        self.machine.hold(jid, time.monotonic())
        self._settled()
        if self._session is not None:
            self._session.sync(jid)

    def release(self, jid: str) -> None:
        """The job's last task here has ended."""
        self.machine.release(jid, time.monotonic())
        self._settled()
        self._holders.release(jid)
        self._told.pop(jid, None)
        if self._session is not None:
            self._session.sync(jid)

    def local_user(self, why: str) -> None:
        """A local user is present, by this sign ("keyboard"); an empty string: no user."""
        self.machine.local_user(why, time.monotonic())
        self._settled()

    def stops(self, wants: list[tuple[str, str]]) -> None:
        """All jobs that Set_Memory wants stopped here, each with a reason. The decisions come by `apply`: a job may go
        on because other jobs are stopped, and the lowest JID stops."""
        self.machine.stops(wants, time.monotonic())
        self._settled()

    def describe(self, speed: float, memory: int, share_l: float) -> None:
        """This node's measured speed, its memory in bytes, and its L."""
        self._size = Size(self.machine.node, self.machine.incarnation, speed, memory, share_l)
        self._look_at_sizes()
        if self._session is not None:
            self._session.spawn(self._session.write_size())

    def facts(self, facts: NodeFacts | None) -> None:
        """What this node knows of its memory and its jobs; None: it has no queue of jobs."""
        news, self._facts = facts != self._facts, facts
        if news and self._session is not None:
            self._session.tell_facts()

    async def check_user(self, jid: str, user: str) -> None:
        """Raise CoschedError (status 2) if a node holds this job for another user. Without a broker the check is
        impossible."""
        if self._session is not None:
            with contextlib.suppress(LinkError):
                await self._holders.read_all(self._session.link, jid)
        for hold in self._holders.of(jid):
            if hold.user != user:
                raise CoschedError(
                    f"job {jid} belongs to user {hold.user} on {hold.node}, not to {user}: choose another JID", USAGE
                )

    def status(self) -> dict[str, Any]:
        """The relay's whole state, for `ctl cluster status`."""
        jobs = []
        for jid in self.machine.held():
            decision = self.machine.decision(jid)
            assert decision is not None
            shown = {"jid": jid, "user": self._holders.own.get(jid), "state": decision.state.value}
            nodes = sorted(hold.node for hold in self._holders.of(jid))
            jobs.append({**shown, "by": list(decision.by), "why": decision.why, "nodes": nodes})
        sizes = [{name: getattr(size, name) for name in Size.__dataclass_fields__} for size in self._all_sizes()]
        return {
            "node": self.machine.node,
            "incarnation": self.machine.incarnation,
            "broker": self.connected_to,
            "unwritten": self.unwritten.status(),
            "nodes": sizes,
            "jobs": jobs,
            "counts": dict(self.counts),
            "dropped": dict(self.drops.counts),
        }

    # running

    async def run(self) -> None:
        """Be connected, until cancelled."""
        tasks = [asyncio.create_task(self._tick()), asyncio.create_task(self._stay_connected())]
        try:
            for task in (await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED))[0]:
                task.result()
        finally:
            await end(*tasks)

    async def farewell(self) -> None:
        """Take back this node's events at the others, within 2 s; `run` may be cancelled then."""
        for jid in self.machine.held():
            self.machine.release(jid, time.monotonic())
        await self._publish()
        if self._session is not None:
            with contextlib.suppress(LinkError, TimeoutError):
                async with asyncio.timeout(_FAREWELL):
                    await self._session.withdraw(list(self._holders.own))

    async def _stay_connected(self) -> None:
        failures = 0
        told = False
        while True:
            link = Link(self._member, lambda: self.counts.update(overruns=1))
            session = Session(link, self._ours)
            try:
                await link.connect(random.sample(self._servers, len(self._servers)))
                self._servers = tuple(dict.fromkeys((*self._member.servers, *link.discovered())))
                self._session = session
                await session.begin()
                self.connected_to = link.server
                failures, told = 0, False
                self.machine.say_all(time.monotonic())
                self._wake.set()
                self._node.tell("cluster", f"connected to the broker {link.server}", action="connected")
                await link.lost.wait()
                self._node.tell("cluster", "connection to the broker lost: this node decides alone", action="lost")
            except Exception as error:  # after any exception: the cluster is lost, not the node
                if not isinstance(error, LinkError):
                    _log.exception("the connection failed")
                if not told:
                    self._node.tell("cluster", f"not connected: {error}", action="unreachable")
                    told = True
            finally:
                self._session, self.connected_to = None, ""
                self.unwritten.forget()
                await session.close()
            pause = min(_PAUSES[0] * 2**failures, _PAUSES[1])
            failures = min(failures + 1, 10)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))

    async def _tick(self) -> None:
        """Leases and repetitions. Also without a broker, because leases end then, too."""
        forget = 0.0
        while True:
            pause = min(self.machine.due(), self.known.due()) - time.monotonic()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.005, min(pause, 5.0))):
                    await self._wake.wait()
            self._wake.clear()
            now = time.monotonic()
            self.machine.tick(now)
            if self.known.expire(now):
                self._node.facts(self.known.now)
            if now >= forget:
                self.directory.expire(now)
                self._holders.expire(now)
                forget = now + _FORGET_EVERY
            await self._publish()
            self._deliver()

    async def _publish(self) -> None:
        """Send the machine's events; without a broker, the machine repeats them later."""
        for event in self.machine.events():
            state = (event.local, event.stop)
            if self._told.get(event.jid, (False, False)) != state:
                self._told[event.jid] = state
                self._tell(event)
            if self._session is not None and await self._session.send(event):
                self.counts["sent"] += 1

    # messages from the broker

    def _heard(self, subject: str, data: bytes) -> None:
        """A message about a job."""
        sender = subject.rpartition(".")[2][:63]
        try:
            jid, verb, node = wire.jid_and_node(subject)
            self._budget.spend(node, time.monotonic())
            if verb == "ask":
                self.machine.asked(jid, time.monotonic())
                self._wake.set()
                return
            event = wire.decode_event(data, jid, node, self._wall())
            if self._holders.may_speak(event):
                self._take(event)
            elif self._session is not None and self._holders.wait(event):
                self._session.spawn(self._verify(self._session.link, jid, node))
        except Drop as drop:
            self.drops.count(drop, sender)

    async def _verify(self, link: Link, jid: str, node: str) -> None:
        """An unknown node spoke of a job: accept its event once its record shows that it may."""
        try:
            for event in await self._holders.verify(link, jid, node):
                self._take(event)
        except Drop as drop:
            self.drops.count(drop, node)

    def _take(self, event: Event) -> None:
        """Handle a genuine event."""
        verdict = self.machine.receive(event, time.monotonic())
        self.counts[verdict.value] += 1
        if verdict is Verdict.OWN_NAME:
            raise Drop("own-name", "another program speaks in this node's name: invite this node again")
        if verdict is Verdict.REPLAYED:
            raise Drop("replayed", f"{event.kind} of job {event.jid}, number {event.seq}, was heard before")
        if verdict is Verdict.NOT_HELD:
            raise Drop("not-held", f"{event.kind} of job {event.jid}, which is not here")
        if verdict is Verdict.TAKEN:
            self._tell(event)
        self._settled()

    def _heard_size(self, subject: str, data: bytes) -> None:
        """A node's record, or its end."""
        node = subject.rpartition(".")[2][:63]
        if node == self.machine.node:
            self._heard_own_size(data)
            return
        try:
            if data:
                self.directory.put(Size.decode(data, node, self._wall()), time.monotonic())
            else:
                self.directory.remove(node)
        except Drop as drop:
            self.drops.count(drop, node)
        self._look_at_sizes()

    def _heard_facts(self, subject: str, data: bytes) -> None:
        """A node's record of its jobs, or its end."""
        node = subject.rpartition(".")[2][:63]
        if node == self.machine.node:
            return
        try:
            self._budget.spend(node, time.monotonic())
            changed = self.known.put(node, data, time.monotonic(), self._wall())
        except Drop as drop:
            self.drops.count(drop, node)
            return
        if changed:
            self._node.facts(self.known.now)
        self._wake.set()

    def _heard_own_size(self, data: bytes) -> None:
        """Our own earlier record, which has our last incarnation if this node has forgotten it."""
        with contextlib.suppress(Drop):
            known = Size.decode(data, self.machine.node, self._wall())
            if known.incarnation > self.machine.incarnation:
                self.machine.restart(known.incarnation + 1, time.monotonic())
                self._wake.set()

    # consequences

    def _settled(self) -> None:
        """After a change: apply its consequences here at once, and tell the others in a moment."""
        self._deliver()
        self._wake.set()

    def _deliver(self) -> None:
        for decision in self.machine.decisions():
            try:
                self._node.apply(decision)
            except Exception:  # a failure of the agent must not end the messages to the others
                _log.exception("job %s: %s could not be done", decision.jid, decision.state)
                self._node.tell("cluster", f"job {decision.jid}: {decision.state} could not be done", action="failed")

    def _tell(self, event: Event) -> None:
        text = f"{event.node}: {event.kind} job {event.jid}" + (f" ({event.why})" if event.why else "")
        details = {"jid": event.jid, "node": event.node, "event": event.kind.value}
        self._node.tell("event", text, **details, local=event.local, stop=event.stop)

    def _all_sizes(self) -> list[Size]:
        own = [self._size] if self._size else []
        return sorted([*own, *self.directory.sizes.values()], key=lambda size: size.node)

    def _look_at_sizes(self) -> None:
        if self._size is None:
            return
        sizes = self.directory.total(self._size)
        if sizes != self._sizes:
            self._sizes = sizes
            self._node.sizes(sizes)
        differing = self.directory.differing_share(self._size)
        if differing != self._differing:
            self._differing = differing
            if differing:
                nodes = _some(differing)
                text = f"L is {self._size.share_l:g} here and different on {nodes}: set share_l alike everywhere"
                self._node.tell("cluster", text, action="share_l")
        beyond = self.directory.beyond(self._size)
        if beyond != self._beyond:
            self._beyond = beyond
            if beyond:
                text = (
                    f"{_some(beyond)} told of over {FACTOR} times the speed, or under a {FACTOR}th of the memory, of "
                    "the cluster's middle node, and counts as just that: see what it tells, or leave it out"
                )
                self._node.tell("cluster", text, action="size")


def _some(nodes: list[str]) -> str:
    """The nodes' names, of many the first five."""
    return ", ".join(nodes[:5]) + (" and others" if len(nodes) > 5 else "")
