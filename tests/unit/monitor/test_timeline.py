# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs and waits between decisions: what records say of them, and what records in any order cannot break."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given

from ctl.kernel.layout import constant
from ctl.kernel.trace import BETWEEN, PUT_BACK
from ctl.monitor.timeline import Decided, Span, Timeline
from tests.unit.monitor.decided import decided, records

Seen = tuple[str, int, int, int]


def followed(recorded: list[dict[str, Any]]) -> list[Span | Decided]:
    """All that a timeline says of records."""
    timeline = Timeline()
    items = [item for values in recorded for item in timeline.feed(values)]
    return [*items, *timeline.close()]


def spans(*recorded: dict[str, Any]) -> list[Seen]:
    """Kind, thread id, begin and end of each span, in the order of their begin."""
    found = [item for item in followed(list(recorded)) if isinstance(item, Span)]
    return sorted(
        ((span.kind, span.task["tid"], span.begin, span.end) for span in found), key=lambda seen: (seen[2], seen[0])
    )


def test_a_turn_of_each() -> None:
    """On expiry the next task has left the queue already: its run begins there."""
    found = spans(
        decided(100, "fork", 2, (), running=4),
        decided(120, "expire", 4, ()),  # 2 has the CPU from now on
        decided(140, "expire", 2, ()),  # 4 has it again
        decided(150, "wake", 6, (2,), running=4),
    )
    assert ("queued", 2, 100, 120) in found
    assert ("runs", 4, 100, 120) in found
    assert ("runs", 2, 120, 140) in found
    assert ("queued", 4, 120, 140) in found
    assert ("runs", 4, 140, 150) in found
    assert ("queued", 6, 150, 150) in found
    assert len(found) == 7  # and 2 in the queue from 140 on


def test_a_run_between_two_records() -> None:
    """A task that left the queue and came back without a record of its run ran since the record before, at most."""
    assert ("runs", 2, 100, 130) in spans(decided(100, "fork", 2, ()), decided(130, "expire", 2, ()))


def test_nobody_runs() -> None:
    """A record without a running task ends the run."""
    found = spans(decided(10, "wake", 2, (), running=4), decided(30, "wake", 6, (2,)))
    assert ("runs", 4, 10, 30) in found


def test_a_displaced_task() -> None:
    """Its run ends with the decision, and its return to the queue is no decision and no run."""
    items = followed(
        [
            decided(10, "wake", 2, (), running=4),
            decided(20, "credit", 6, (2,), running=4, position=0, flags=constant("DEC_PREEMPT")),
            decided(21, PUT_BACK, 4, (6, 2), position=1),
        ]
    )
    found = [item for item in items if isinstance(item, Span)]
    assert [(span.task["tid"], span.begin, span.end) for span in found if span.kind == "runs"] == [(4, 10, 20)]
    assert [item.number for item in items if isinstance(item, Decided)] == [0, 1]
    assert [item.queued for item in items if isinstance(item, Decided)] == [1, 2]


def test_a_task_on_another_cpu() -> None:
    """An idle CPU took it: it waits no longer where it was."""
    found = spans(decided(10, "wake", 2, (), cpu=0), decided(30, "wake", 4, (), running=2, cpu=1))
    assert ("queued", 2, 10, 30) in found and ("runs", 2, 30, 30) in found


def test_a_queue_longer_than_its_record() -> None:
    """Nobody is known to have left it."""
    found = spans(
        decided(10, "wake", 2, ()),
        decided(20, "wake", 4, (6,), flags=constant("DEC_TRUNCATED")),
        decided(30, "wake", 8, (6, 4)),
    )
    assert ("queued", 2, 10, 20) not in found


def test_a_message() -> None:
    """The run that follows knows the decision, which a message caused; the queue is as long as before."""
    items = followed(
        [
            decided(10, "wake", 3, (5, 7), running=1),
            decided(20, "message", 7, (5, 7, 3), running=1, position=0, **{"from": 1}),
            decided(30, "expire", 1, (5, 3)),
            decided(40, "expire", 7, (5, 3)),
        ]
    )
    assert [item.queued for item in items if isinstance(item, Decided)] == [3, 3, 3, 3]
    runs = [item for item in items if isinstance(item, Span) and item.kind == "runs"]
    assert [(span.task["tid"], span.begin, span.end, span.decision) for span in runs] == [
        (1, 10, 30, None),
        (7, 30, 40, 1),
    ]


def test_a_message_before_an_unseen_run() -> None:
    """The task ran, slept and woke since: its next run does not follow the message."""
    items = followed(
        [
            decided(10, "message", 7, (7,), running=1, position=0, **{"from": 0}),
            decided(20, "wake", 7, (), running=1),
            decided(30, "expire", 1),
            decided(40, "expire", 7),
        ]
    )
    found = [span.decision for span in items if isinstance(span, Span) and span.kind == "runs"]
    assert found == [None, None]


@given(records())
def test_any_records(recorded: list[dict[str, Any]]) -> None:
    """Decisions stay as they are; a CPU runs one task at a time, and a task is in one place at a time."""
    items = followed(recorded)
    insertions = [values for values in recorded if values["cause"] not in BETWEEN]
    assert [item.record for item in items if isinstance(item, Decided)] == insertions
    assert [item.number for item in items if isinstance(item, Decided)] == list(range(len(insertions)))
    places: dict[object, list[Span]] = {}
    for span in (item for item in items if isinstance(item, Span)):
        places.setdefault(("task", span.task["tid"]), []).append(span)
        if span.kind == "runs":
            places.setdefault(("cpu", span.cpu), []).append(span)
    for alike in places.values():
        for one, other in itertools.pairwise(sorted(alike, key=lambda span: (span.begin, span.end))):
            assert one.begin <= one.end <= other.begin <= other.end
