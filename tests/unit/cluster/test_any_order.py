# SPDX-License-Identifier: GPL-2.0-or-later
"""Up to 4 nodes and 3 jobs, anything in any order: events lost, doubled, overtaken, nodes restarted, clocks apart.

Random histories of a network. Once the network carries messages again, all nodes agree on every job, and with the rule
computed from all wants at once. Once the network carries no messages, no node keeps a job stopped for another node.

COSCHED_RUNS sets the number of runs, 10,000 take two minutes: COSCHED_RUNS=10000 just test-unit -k any_order
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ctl.cluster.events import LEASE, Event, jid_order
from ctl.cluster.machine import Machine
from ctl.contract import State

RUNS = int(os.environ.get("COSCHED_RUNS", "600"))
JIDS = ("9", "10", "sort")  # in the order of the rule
_node = st.integers(0, 3)
_jid = st.sampled_from(JIDS)


class Host:
    """A node: its machine, which restarts with the node, and its jobs and clock, which do not restart."""

    def __init__(self, name: str, clock: float) -> None:
        self.name = name
        self.offset = clock
        self.incarnation = 0
        self.held: set[str] = set()
        self.machine = self.start()

    def start(self) -> Machine:
        self.incarnation += 1
        self.local = False
        self.wants: tuple[str, ...] = ()
        self.machine = Machine(self.name, self.incarnation)
        return self.machine

    def state(self, jid: str) -> State:
        decision = self.machine.decision(jid)
        assert decision is not None
        return decision.state


class Cluster(RuleBasedStateMachine):
    """All of it. `flying` are messages on their way, each to one node."""

    @initialize(count=st.integers(2, 4), clocks=st.tuples(*[st.floats(0, 1e6)] * 4), held=st.data())
    def start(self, count: int, clocks: tuple[float, ...], held: st.DataObject) -> None:
        self.time = 0.0
        self.hosts = [Host(f"n{i}", clocks[i]) for i in range(count)]
        self.flying: list[tuple[Host, Event]] = []
        self.history: list[Event] = []
        for host in self.hosts:
            for jid in held.draw(st.sets(_jid, min_size=2)):
                self.do_hold(host, jid)

    def now(self, host: Host) -> float:
        return self.time + host.offset

    def host(self, number: int) -> Host:
        return self.hosts[number % len(self.hosts)]

    def send(self, host: Host) -> None:
        """Hand a node's events to the network, which takes them to the holders of the job."""
        for event in host.machine.events():
            self.history.append(event)
            self.flying += [(other, event) for other in self.hosts if other is not host and event.jid in other.held]

    def do_hold(self, host: Host, jid: str) -> None:
        host.held.add(jid)
        host.machine.hold(jid, self.now(host))
        self.send(host)

    # what happens on a node

    @rule(number=_node, jid=_jid)
    def job_comes(self, number: int, jid: str) -> None:
        self.do_hold(self.host(number), jid)

    @rule(number=_node, jid=_jid)
    def job_ends(self, number: int, jid: str) -> None:
        host = self.host(number)
        host.held.discard(jid)
        host.wants = tuple(want for want in host.wants if want != jid)
        host.machine.release(jid, self.now(host))
        self.send(host)

    @rule(number=_node, present=st.booleans())
    def user(self, number: int, present: bool) -> None:
        host = self.host(number)
        host.local = present
        host.machine.local_user("keyboard" if present else "", self.now(host))
        self.send(host)

    @rule(number=_node, jids=st.sets(_jid, min_size=1, max_size=2))
    def memory(self, number: int, jids: set[str]) -> None:
        self.want(self.host(number), jids)

    @rule(number=_node)
    def room(self, number: int) -> None:
        self.want(self.host(number), set())

    def want(self, host: Host, jids: set[str]) -> None:
        host.wants = tuple(sorted(jids & host.held))
        host.machine.stops([(jid, "memory") for jid in host.wants], self.now(host))
        self.send(host)

    @rule(number=_node, other=_node, jid=_jid)
    def directory(self, number: int, other: int, jid: str) -> None:
        """A node reads that another does not hold a job."""
        host, gone = self.host(number), self.host(other)
        if jid not in gone.held:
            host.machine.gone(gone.name, jid, self.now(host))
            self.send(host)

    @rule(number=_node)
    def restart(self, number: int) -> None:
        """The agent is killed and starts again: the jobs are still there, nothing else is."""
        host = self.host(number)
        host.start()
        for jid in sorted(host.held):
            self.do_hold(host, jid)

    @rule(seconds=st.floats(0, LEASE), awake=st.sets(_node))
    def time_passes(self, seconds: float, awake: set[int]) -> None:
        """Some nodes notice, others are busy."""
        self.time += seconds
        for number in awake:
            self.tick(self.host(number))

    def tick(self, host: Host) -> None:
        host.machine.tick(self.now(host))
        self.send(host)

    # what the network does

    @rule(which=st.integers(0, 100), copies=st.integers(0, 2))
    def message(self, which: int, copies: int) -> None:
        """A message on its way, in any order: lost, delivered, or delivered and still on its way."""
        if self.flying:
            host, event = self.flying.pop(which % len(self.flying))
            if copies:
                self.deliver(host, event)
            if copies == 2:
                self.flying.append((host, event))

    @rule()
    def all_lost(self) -> None:
        self.flying.clear()

    def deliver(self, host: Host, event: Event) -> None:
        host.machine.receive(event, self.now(host))
        self.send(host)

    # what must hold

    @invariant()
    def own_stops_are_wanted(self) -> None:
        for host in getattr(self, "hosts", []):
            for jid in host.held:
                decision = host.machine.decision(jid)
                assert decision is not None
                if decision.state is State.STOPPED and host.name in decision.by:
                    assert jid in host.wants
                if decision.state is State.FREE:
                    assert not host.local

    def teardown(self) -> None:
        if hasattr(self, "hosts"):
            self.agree()
            self.replay()
            self.let_go()

    def agree(self) -> None:
        """The network is good again, if not in order: after a lease all nodes say the same, and what the rule says."""
        for host in self.hosts:
            for jid in host.held:
                host.machine.asked(jid, self.now(host))  # as each does when it is back
        for _ in range(40):
            self.time += LEASE / 20
            for host in self.hosts:
                self.tick(host)
            self.carry()
        expected = self.expected()
        for host in self.hosts:
            for jid in sorted(host.held):
                assert host.state(jid) is expected[jid], (host.name, jid, host.machine.decision(jid))

    def carry(self) -> None:
        steps = 0
        while self.flying:
            self.deliver(*self.flying.pop(steps % len(self.flying)))
            steps += 1
            assert steps < 2000, "they never stop talking"

    def replay(self) -> None:
        """All messages of the holders again, the newest first: no state changes."""
        before = [(host.name, jid, host.state(jid)) for host in self.hosts for jid in sorted(host.held)]
        holders = {(host.name, jid) for host in self.hosts for jid in host.held}
        for event in reversed(self.history):
            for host in self.hosts:
                if event.jid in host.held and (event.node, event.jid) in holders:
                    host.machine.receive(event, self.now(host))
                    host.machine.events()
        assert before == [(host.name, jid, host.state(jid)) for host in self.hosts for jid in sorted(host.held)]

    def expected(self) -> dict[str, State]:
        """The states by the rule, from all wants at once: the lowest JID first, each stop counting for the next."""
        stopped: dict[str, set[str]] = {jid: set() for jid in JIDS}  # by whom
        for jid in sorted(JIDS, key=jid_order):
            for host in self.hosts:
                below = [lower for lower in JIDS if jid_order(lower) < jid_order(jid) and lower in host.held]
                taken = [lower for lower in below if lower in host.wants or stopped[lower]]
                if jid in host.wants and len(taken) < len(host.wants):
                    stopped[jid].add(host.name)
        states = {}
        for jid in JIDS:
            users = any(host.local and jid in host.held for host in self.hosts)
            states[jid] = State.STOPPED if stopped[jid] else State.SLOWED if users else State.FREE
        return states

    def let_go(self) -> None:
        """The network is dead: after a lease every node has only its own reasons."""
        self.time += LEASE
        for host in self.hosts:
            host.machine.tick(self.now(host))
            for jid in host.held:
                decision = host.machine.decision(jid)
                assert decision is not None
                assert set(decision.by) <= {host.name}, "a stop outlived its lease"
                assert (decision.state is State.STOPPED) == (jid in host.wants)


TestAnyOrder = Cluster.TestCase
TestAnyOrder.settings = settings(
    max_examples=RUNS,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
