# SPDX-License-Identifier: GPL-2.0-or-later
"""Whatever comes from the broker, a decoder takes it or drops it, and says why in a sentence that can be shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

from hypothesis import example, given
from hypothesis import strategies as st

from ctl.cluster import facts, wire
from ctl.cluster.directory import Hold, Size
from ctl.cluster.events import Event, Kind
from ctl.contract import JobFacts, NodeFacts
from tests.unit.fuzz.cases import fuzzed, records

NOW = 1e9
EVENT = wire.encode_event(Event("node1", 1, 1, "sim.1", Kind.LOCAL_U, True, False, 5.0, "a key"), NOW)
HOLD = Hold("node1", 1, "alice").encode(NOW)
SIZE = Size("node1", 1, 100.0, 1 << 30, 0.5).encode(NOW)
FACTS = facts.encode_facts(NodeFacts(60, 30.0, (JobFacts("sim.1", 40),)), "node1", 1, NOW)
DEEP = b'{"v":' + b"[" * 500 + b"]" * 500 + b"}"  # parsed, but not shown, within Python's stack

WIDE = json.dumps({"v": {str(i) * 20: {str(j) * 20: "x" * 20 for j in range(4)} for i in range(4)}}).encode()


def taken_or_dropped(decode: Callable[[], object]) -> None:
    """Decode from deep in a program's stack; a drop has a sentence of one line that a terminal can show.

    What is taken is text throughout: half a surrogate pair is none.
    """

    def below(depth: int) -> None:
        if depth:
            below(depth - 1)
            return
        try:
            json.dumps(decode(), ensure_ascii=False, default=asdict).encode()
        except wire.Drop as drop:
            sentence = str(drop)
            assert len(sentence) < 400
            assert sentence.isprintable(), repr(sentence)
            sentence.encode()

    below(300)


@given(records(EVENT))
@example(DEEP)
@example(WIDE)
@fuzzed
def test_events(data: bytes) -> None:
    taken_or_dropped(lambda: wire.decode_event(data, "sim.1", "node1", NOW))


@given(records(HOLD), records(SIZE))
@example(DEEP, DEEP)
@fuzzed
def test_holds_and_sizes(hold: bytes, size: bytes) -> None:
    taken_or_dropped(lambda: Hold.decode(hold, "node1", NOW))
    taken_or_dropped(lambda: Size.decode(size, "node1", NOW))


@given(records(FACTS))
@example(FACTS.replace(b"30.0", b"[" * 700 + b"]" * 700))
@example(FACTS.replace(b"sim.1", rb"\ud800"))
@fuzzed
def test_facts(data: bytes) -> None:
    taken_or_dropped(lambda: facts.decode(data, "node1", NOW))


@given(st.text(max_size=100) | st.text("$KVcoshedjbn.=*>AF09", max_size=60))
@fuzzed
def test_subjects(subject: str) -> None:
    for text in (subject, f"cosched.job.{subject}.event.node1", f"$KV.{wire.HOLDS}.{subject}"):
        taken_or_dropped(lambda text=text: wire.jid_and_node(text))  # type: ignore[misc]
