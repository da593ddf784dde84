# SPDX-License-Identifier: GPL-2.0-or-later
"""Messages from the network: accepted messages, each reason to drop a message, and arbitrary bytes."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.cluster import wire
from ctl.cluster.directory import FACTOR, KEEP, Directory, Hold, Size
from ctl.cluster.events import LEASE, Event, Kind
from ctl.cluster.wire import MAX_MESSAGE, Budget, Drop, Drops
from ctl.contract import MAX_SKEW

NOW = 1.8e9
EVENT = Event("node2", 3, 17, "sim:7", Kind.STOP, True, True, LEASE, "swapping")
SIZE = Size("node2", 3, 2100.0, 1 << 28, 0.5)
HOLD = Hold("node2", 3, "alice")
_text = st.text(max_size=100)
_jids = st.from_regex(r"[A-Za-z0-9._:-]{1,64}", fullmatch=True)
_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=10,
)


def read(data: bytes, now: float = NOW) -> Event:
    return wire.decode_event(data, "sim:7", "node2", now)


def changed(**fields: object) -> bytes:
    """The event with other fields; Ellipsis removes one."""
    new = {**json.loads(wire.encode_event(EVENT, NOW)), **fields}
    return json.dumps({name: value for name, value in new.items() if value is not ...}).encode()


@given(_jids)
def test_every_jid_has_its_own_subject(jid: str) -> None:
    assert wire.jid_and_node(wire.event_subject(jid, "node2")) == (jid, "event", "node2")
    assert wire.jid_and_node(wire.ask_subject(jid, "node2")) == (jid, "ask", "node2")
    assert wire.jid_and_node(wire.hold_subject(jid, "node2")) == (jid, "hold", "node2")
    assert all(not set(word) & set("*> ") for word in wire.event_subject(jid, "node2").split("."))


@given(_jids, st.text(max_size=300), st.booleans(), st.booleans())
def test_what_is_sent_is_read(jid: str, why: str, local: bool, stop: bool) -> None:
    kind = Kind.STOP if stop else Kind.RESUME
    event = Event("n" * 63, 2**60, 2**60, jid, kind, local, stop, LEASE, why)
    data = wire.encode_event(event, NOW)
    assert len(data) <= MAX_MESSAGE
    found = wire.decode_event(data, jid, "n" * 63, NOW)
    assert (found.jid, found.local, found.stop, found.seq) == (jid, local, stop, 2**60)


@pytest.mark.parametrize(
    ("reason", "data"),
    [
        ("oversized", changed(why="x" * MAX_MESSAGE)),
        ("malformed", b""),
        ("malformed", b"\xff\xfe"),
        ("malformed", b"[" * 1000),
        ("malformed", b"[1]"),
        ("malformed", b'"STOP"'),
        ("version", changed(v=2)),
        ("version", changed(v=...)),
        ("malformed", changed(more=1)),
        ("malformed", changed(lease=...)),
        ("forged", changed(node="node1")),
        ("forged", changed(jid="8")),
        ("malformed", changed(node=1)),
        ("malformed", changed(kind="REBOOT")),
        ("malformed", changed(kind="RESUME")),
        ("malformed", changed(kind="NO_LOCAL")),
        ("malformed", changed(stop=1)),
        ("malformed", changed(local="yes")),
        ("malformed", changed(seq=-1)),
        ("malformed", changed(seq=1.5)),
        ("malformed", changed(seq=True)),
        ("malformed", changed(incarnation=2**63)),
        ("malformed", changed(lease=math.nan)),
        ("malformed", changed(lease=1e300)),
        ("malformed", changed(lease=-1)),
        ("malformed", changed(why="x" * 201)),
        ("malformed", changed(why="\x1b[2J")),
        ("malformed", changed(time="now")),
        ("clock", changed(time=NOW + 3600)),
        ("clock", changed(time=NOW - 3600)),
    ],
)
def test_each_reason_to_drop_an_event(reason: str, data: bytes) -> None:
    with pytest.raises(Drop) as dropped:
        read(data)
    assert dropped.value.reason == reason, str(dropped.value)


def test_clocks_may_be_a_little_apart() -> None:
    data = wire.encode_event(EVENT, NOW)
    assert read(data, NOW + MAX_SKEW) == read(data, NOW - MAX_SKEW) == EVENT
    with pytest.raises(Drop, match="3600 s ahead of this node's, allowed are 60 s"):
        read(data, NOW - 3600)


@given(st.binary(max_size=200) | _json.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_do_anything_but_be_dropped(data: bytes) -> None:
    for decode in (read, lambda data: Size.decode(data, "node2", NOW), lambda data: Hold.decode(data, "node2", NOW)):
        with pytest.raises(Drop):
            decode(data)


@given(st.dictionaries(st.sampled_from(sorted(json.loads(wire.encode_event(EVENT, NOW)))), _json))
def test_no_value_of_any_field_is_anything_but_an_event_or_dropped(fields: dict[str, Any]) -> None:
    try:
        event = read(changed(**fields))
    except Drop:
        return
    assert isinstance(event.local, bool)
    assert isinstance(event.seq, int)
    assert 0 <= event.lease <= 60


@pytest.mark.parametrize(
    "subject",
    ["", "cosched.job.7.event", "cosched.job.7.reboot.n", "$KV.cosched_nodes.n", "cosched.job.=2.event.n",
     "cosched.job.=41.event.n", "cosched.job.7.event.n*", "cosched.job..event.n", "cosched.job.7.event."],
)  # fmt: skip
def test_subjects_that_are_none_of_a_job(subject: str) -> None:
    with pytest.raises(Drop):
        wire.jid_and_node(subject)


def test_records_are_read_as_written_and_only_from_their_node() -> None:
    assert Size.decode(SIZE.encode(NOW), "node2", NOW) == SIZE
    assert Hold.decode(HOLD.encode(NOW), "node2", NOW + KEEP) == HOLD
    with pytest.raises(Drop, match="speaks for 'node2'"):
        Size.decode(SIZE.encode(NOW), "node3", NOW)
    with pytest.raises(Drop, match="clock"):
        Hold.decode(HOLD.encode(NOW + 3600), "node2", NOW)


@pytest.mark.parametrize(
    "fields", [{"share_l": 1.01}, {"share_l": -0.1}, {"share_l": None}, {"speed": 0}, {"speed": "fast"}, {"memory": 0}]
)
def test_sizes_that_no_node_can_have(fields: dict[str, Any]) -> None:
    data = json.dumps({**json.loads(SIZE.encode(NOW)), **fields}).encode()
    with pytest.raises(Drop) as dropped:
        Size.decode(data, "node2", NOW)
    assert dropped.value.reason == "malformed"


def test_a_drop_is_counted_each_time_and_told_once_for_each_sender() -> None:
    told: list[str] = []
    drops = Drops(told.append)
    for _ in range(100):
        drops.count(Drop("forged", "it speaks for another"), "node2")
    drops.count(Drop("forged", "it speaks for another"), "node3")
    assert drops.counts == {"forged": 101}
    assert len(told) == 2
    assert told[0].startswith("dropped (forged) from node2: it speaks for another")


def test_a_flood_is_dropped_and_ends() -> None:
    budget = Budget()
    said = 0
    with pytest.raises(Drop, match="more than 500 messages a second"):
        for _ in range(5000):
            budget.spend("node2", 0.0)
            said += 1
    assert said == 2000
    budget.spend("node3", 0.0)
    budget.spend("node2", 1.0)


def test_the_directory_forgets_who_is_silent() -> None:
    directory = Directory()
    own = Size("node1", 1, 3000.0, 1 << 29, 0.5)
    directory.put(SIZE, 0.0)
    directory.put(Size("node2", 2, 9e9, 1 << 20, 0.5), 0.0)  # of an incarnation before
    assert directory.total(own).speed_max == 3000.0
    assert directory.total(own).memory_min == 1 << 28
    directory.expire(KEEP)
    assert directory.total(own).nodes == 1


@given(
    st.lists(st.tuples(st.floats(1e2, 1e4), st.integers(1 << 28, 1 << 31)), min_size=1, max_size=6),
    st.floats(1e-3, 1e12),
    st.integers(1 << 20, 1 << 62),
)
def test_one_node_stretches_no_quanta_and_shrinks_no_pools(
    honest: list[tuple[float, int]], speed: float, memory: int
) -> None:
    """Whatever one node says, it counts as at most 8 times as fast, or an 8th as large, as an honest one."""
    directory = Directory()
    own, *others = (Size(f"node{i}", 1, *size, 0.5) for i, size in enumerate(honest))
    for size in others:
        directory.put(size, 0.0)
    directory.put(Size("liar", 1, speed, memory, 0.5), 0.0)
    now = directory.total(own)
    assert now.speed_max <= max(own.speed, FACTOR * max(speed for speed, _ in honest))
    assert now.memory_min >= min(own.memory, min(memory for _, memory in honest) // FACTOR)
    assert now.speed_max >= own.speed
    assert now.memory_min <= own.memory
    beyond = directory.beyond(own)
    if speed > FACTOR * max(speed for speed, _ in honest) or memory < min(memory for _, memory in honest) // FACTOR:
        assert "liar" in beyond
    elif not beyond:
        speeds, memories = zip(*honest, (speed, memory), strict=True)
        assert (now.speed_max, now.memory_min) == (max(speeds), min(memories))
