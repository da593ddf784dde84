# SPDX-License-Identifier: GPL-2.0-or-later
"""Whatever comes from the broker, in any order, the relay takes it or drops it, and goes on.

A relay without a connection is given messages as its subscriptions would give them, beside changes on its own node; the
queue of policy `fit` gets what it makes of them. After each: what is told to people can be shown; a job is stopped or
slowed only by nodes that hold it for the same user; nothing is kept of nodes and jobs beyond those that were named; and
once all leases have ended, no other node's word counts.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from ctl.cluster import facts, wire
from ctl.cluster.directory import Hold, Size
from ctl.cluster.events import MAX_LEASE, Event, Kind
from ctl.cluster.link import LinkError, Member, answer_fields
from ctl.cluster.relay import Relay
from ctl.contract import Decision, JobFacts, Load, NodeFacts, Sizes
from ctl.jobs.queue import Queue
from tests.unit.fuzz.cases import fuzzed, json_values, records

NOW = 1e9
HERE, USER = "node1", "alice"
HELD = ("7", "sim.1")  # jobs of this node
JIDS, NODES = (*HELD, "zz"), (HERE, "node2", "node3")


class Agent:
    """What the relay tells an agent; the queue is the agent's own."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.queue = Queue(HERE)

    def apply(self, decision: Decision) -> None:
        self.told.append(decision.why)

    def sizes(self, sizes: Sizes) -> None:
        assert sizes.nodes >= 1 and sizes.speed_max > 0 and sizes.memory_min > 0

    def facts(self, others: Mapping[str, NodeFacts]) -> None:
        self.queue.hear(others)
        self.queue.decide(NOW)

    def arrived(self, arrivals: Mapping[str, int]) -> None:
        self.queue.arrived(arrivals)

    def tell(self, kind: str, text: str, **details: object) -> None:
        self.told.append(text)


Message = tuple[str, str, bytes]  # which handler, subject, data

_jids, _nodes, _flags, _counts = st.sampled_from(JIDS), st.sampled_from(NODES), st.booleans(), st.integers(0, 3)
_times = st.sampled_from([NOW, NOW, NOW - 50, NOW + 50, NOW - 1000])


def _event(
    node: str, counts: tuple[int, int], jid: str, state: tuple[bool, bool, bool], lease: float, at: float
) -> Message:
    local, stop, second = state
    kind = (Kind.STOP if stop else Kind.RESUME) if second else (Kind.LOCAL_U if local else Kind.NO_LOCAL)
    event = Event(node, *counts, jid, kind, local, stop, lease, "why")
    return "job", wire.event_subject(jid, node), wire.encode_event(event, at)


def _facts(node: str, room: int, jobs: list[JobFacts], turn_s: float) -> Message:
    known = NodeFacts(room, turn_s, tuple({job.jid: job for job in jobs}.values()), Load(2, 1.0, 1.0))
    return "facts", wire.facts_subject(node), facts.encode_facts(known, node, 1, NOW)


def _broken(which: str, subject: str, valid: bytes) -> st.SearchStrategy[Message]:
    """Messages like a valid one of node2, and anything else."""
    return st.tuples(st.just(which), st.just(subject) | st.text(max_size=60), records(valid) | st.just(b""))


_job_facts = st.builds(
    JobFacts, _jids, st.integers(0, 1 << 62), arrival=st.integers(0, 1 << 62), behind=st.floats(0, 1e11),
    since=st.floats(0, 1e11), passed=st.integers(0, 1 << 62), here=_flags, runs=_flags, now=_flags,
)  # fmt: skip
_messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(_event, _nodes, st.tuples(_counts, _counts), _jids, st.tuples(_flags, _flags, _flags),
              st.floats(0, MAX_LEASE), _times),
    st.builds(lambda jid, node: ("job", wire.ask_subject(jid, node), b""), _jids, _nodes),
    st.builds(lambda jid, node, user, at: ("hold", wire.hold_subject(jid, node), Hold(node, 1, user).encode(at)),
              _jids, _nodes, st.sampled_from([USER, USER, "bob"]), _times),
    st.builds(lambda jid, node: ("hold", wire.hold_subject(jid, node), b""), _jids, _nodes),
    st.builds(lambda node, speed, memory, share: ("size", wire.node_subject(node),
                                                  Size(node, 1, speed, memory, share).encode(NOW)),
              _nodes, st.floats(1e-300, 1e12), st.integers(1 << 20, 1 << 62), st.floats(0, 1)),
    st.builds(_facts, _nodes, st.integers(0, 1 << 62), st.lists(_job_facts, max_size=4), st.floats(0, 1e9)),
    _broken(*_event("node2", (1, 1), "7", (True, True, False), 5.0, NOW)),
    _broken("hold", wire.hold_subject("7", "node2"), Hold("node2", 1, USER).encode(NOW)),
    _broken("size", wire.node_subject("node2"), Size("node2", 1, 100.0, 1 << 30, 0.5).encode(NOW)),
    _broken(*_facts("node2", 60, [JobFacts("7", 40)], 30.0)),
)  # fmt: skip
_changes = st.one_of(
    st.tuples(st.sampled_from(["hold", "release", "stop"]), st.sampled_from(HELD)),
    st.tuples(st.just("user"), st.sampled_from(["", "keyboard"])),
)


def _change(relay: Relay, what: str, value: str) -> None:
    match what:
        case "hold":
            relay.hold(value, USER)
        case "release":
            relay.release(value)
        case "stop":
            relay.stops([(value, "swapping")])
        case "user":
            relay.local_user(value)


def _check(relay: Relay, agent: Agent, names: set[str]) -> None:
    """What must hold after each message."""
    for jid in relay.machine.held():
        decision = relay.machine.decision(jid)
        assert decision is not None
        holders = {hold.node: hold.user for hold in relay._holders.of(jid)}
        assert {holders.get(node) for node in decision.by if node != HERE} <= {USER}, f"{decision} of {holders}"
    for text in agent.told:
        assert len(text) < 1000 and text.isprintable(), repr(text)
        text.encode()
    agent.told.clear()
    shown = json.dumps([relay.status(), agent.queue.rows(NOW)], ensure_ascii=False)
    assert len(shown.encode()) < 100_000
    kept = {*relay.directory.sizes, *relay.known.now, *relay._budget._left, *relay.machine._newest}
    assert kept <= names
    assert len(relay._holders._waiting) <= len(names) * len(relay.machine.held())


@given(st.lists(_messages | _changes, min_size=1, max_size=8))
@fuzzed
def test_messages(steps: list[tuple[str, str] | Message]) -> None:
    agent = Agent()
    member = Member(HERE, ("127.0.0.1:1",), "", "", bytes(32))
    relay = Relay(agent, member, 1, wall=lambda: NOW)
    relay.describe(1000.0, 1 << 30, 0.5)
    for jid in HELD:
        relay.hold(jid, USER)
    agent.queue.look(NOW, dict.fromkeys(HELD, 1 << 20), 1 << 30, 30.0)
    handlers = {"job": relay._heard, "hold": relay._holders.heard, "size": relay._heard_size,
                "facts": relay._heard_facts}  # fmt: skip
    names = set(NODES)
    for step in steps:
        if len(step) == 2:
            _change(relay, *step)
        else:
            which, subject, data = step
            names.add(subject.rpartition(".")[2][:63])
            handlers[which](subject, data)
        _check(relay, agent, names)
    relay.stops([])
    relay.local_user("")
    relay.machine.tick(time.monotonic() + MAX_LEASE + 1)
    for jid in relay.machine.held():
        decision = relay.machine.decision(jid)
        assert decision is not None and decision.by == (), f"it counts beyond its lease: {decision}"
    asyncio.run(relay.farewell())


@given(json_values.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=100))
@fuzzed
def test_answers_of_the_store(data: bytes) -> None:
    try:
        fields = answer_fields(data, "asking")
    except LinkError as error:
        assert len(str(error)) < 400
    else:
        assert isinstance(fields, dict) and "error" not in fields
