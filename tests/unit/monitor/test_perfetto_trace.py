# SPDX-License-Identifier: GPL-2.0-or-later
"""Traces for Perfetto: decoded with its protobuf classes, and read by its own trace processor."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from ctl.kernel.modes import mode
from ctl.kernel.trace import BETWEEN
from ctl.monitor.perfetto_trace import Recording, write_trace
from tests.examples import examples
from tests.unit.monitor.decided import decided, records
from tests.unit.monitor.trace_processor import TraceProcessor
from tests.unit.reference.test_replay import recording

BOOT = 1_764_000_000_000_000_000  # Unix time of the records' 0, ns
EVENTS: list[tuple[int, dict[str, Any]]] = [
    (5_000, {"kind": "job", "action": "begin", "jid": "a", "text": "job a began", "time": 1.0}),
    (6_000, {"kind": "stop", "action": "stop", "jid": "a", "text": "job a stopped: memory"}),
    (7_000, {"kind": "policy", "text": "policy rr instead of ccs", "policy": "rr"}),
    (9_000, {"kind": "stop", "action": "resume", "jid": "a", "text": "job a goes on"}),
    (9_500, {"lost": 3}),
]


def traced(*recordings: Recording) -> bytes:
    """A trace of recordings."""
    file = io.BytesIO()
    assert write_trace(file, recordings) >= 0
    return file.getvalue()


def recorded() -> list[dict[str, Any]]:
    """300 decisions of rule ccs in a queue that is kept by the papers' rules, and put-backs."""
    return [{**values, "queue": [*values["queue"]]} for values in recording("ccs")]


def insertions(values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The decisions among records."""
    return [one for one in values if one["cause"] not in BETWEEN]


@pytest.fixture(scope="module")
def processor() -> Iterator[TraceProcessor]:
    """A trace of two nodes, the second with a clock that is 1 ms behind."""
    shifted = Recording("node2", recorded(), BOOT + 1_000_000, unix=True)
    with TraceProcessor(traced(Recording("node1", recorded(), BOOT, unix=True, events=EVENTS), shifted)) as running:
        yield running


def decisions_of(processor: TraceProcessor, node: str) -> list[dict[str, Any]]:
    """The decisions of a node's CPU 0 in the order of time."""
    return processor.rows(
        "select slice.ts, slice.name, slice.arg_set_id from slice join track on track.id = track_id "
        "join track cpu on cpu.id = track.parent_id join track node on node.id = cpu.parent_id "
        f"where track.name = 'decisions' and cpu.name = 'CPU 0' and node.name = '{node}' order by slice.ts, slice.id"
    )


@pytest.mark.parametrize(("node", "offset"), [("node1", BOOT), ("node2", BOOT + 1_000_000)])
def test_perfetto_reads_every_decision_in_its_order(processor: TraceProcessor, node: str, offset: int) -> None:
    wanted = [(values["ns"] + offset, values["cause"]) for values in insertions(recorded())]
    assert [(row["ts"], row["name"]) for row in decisions_of(processor, node)] == wanted


def test_perfetto_reads_the_reasons(processor: TraceProcessor) -> None:
    rows = processor.rows("select arg_set_id, key, int_value, string_value, display_value from args")
    args: dict[int, dict[str, Any]] = {}
    for row in rows:
        args.setdefault(row["arg_set_id"], {})[row["key"].removeprefix("debug.")] = row
    for row, values in zip(decisions_of(processor, "node1"), insertions(recorded()), strict=True):
        reason = args[row["arg_set_id"]]
        assert reason["rule"]["string_value"] == values["rule"] == "ccs"
        assert reason["cause"]["string_value"] == values["cause"]
        assert reason["position"]["int_value"] == values["position"]
        assert reason["seq"]["int_value"] == values["seq"]
        assert reason["preempt"]["display_value"] == str(values["preempt"]).lower()
        assert reason["task.tid"]["int_value"] == values["task"]["tid"]
        overtaken = [one["int_value"] for key, one in sorted(reason.items()) if key.startswith("overtaken[")]
        assert sorted(overtaken) == sorted(values["overtaken"])
        parallel = values["task"]["parallel"]
        wanted = mode("ccs", overloaded=values["overloaded"], received=values["task"]["rec"] > 0) if parallel else None
        assert (reason["mode"]["string_value"] if "mode" in reason else None) == wanted
        queue = [reason[f"queue[{place}]"]["string_value"] for place in range(len(values["queue"]))]
        assert queue == [f"{task['comm']}/{task['tid']}" for task in values["queue"]]


def test_perfetto_has_no_complaint(processor: TraceProcessor) -> None:
    """No track without its description, no slice without its end, no packet dropped."""
    assert processor.rows("select name, value from stats where severity in ('error', 'data_loss') and value > 0") == []
    assert processor.rows("select name from slice where dur < 0 and name != 'runs'") == []
    assert processor.rows("select name from track where name = ''") == []


def test_perfetto_follows_messages(processor: TraceProcessor) -> None:
    """From the task to the decision of the same time, and on to the task's run."""
    rows = processor.rows(
        "select a.name as one, b.name as other, b.ts - a.ts as later, track.name as track from flow "
        "join slice a on a.id = slice_out join slice b on b.id = slice_in join track on track.id = b.track_id"
    )
    messages = [values for values in insertions(recorded()) if values["cause"] == "message"]
    arrivals = [row for row in rows if row["track"] == "decisions"]
    assert {(row["one"], row["other"], row["later"]) for row in arrivals} == {("message", "message", 0)}
    assert len(arrivals) == 2 * len(messages) > 100
    runs = [row for row in rows if row["track"] == "runs"]
    assert len(runs) > 40 and {row["one"] for row in runs} == {"message"} and min(row["later"] for row in runs) >= 0


def test_perfetto_reads_queues_and_events(processor: TraceProcessor) -> None:
    lengths = processor.rows(
        "select value from counter join track on track.id = track_id join track cpu on cpu.id = track.parent_id "
        "join track node on node.id = cpu.parent_id where track.name = 'queued' and node.name = 'node1' order by ts"
    )
    wanted = [len(one["queue"]) + (one["cause"] != "message") for one in insertions(recorded())]
    assert [row["value"] for row in lengths] == wanted
    stops = processor.rows(
        "select slice.ts, dur, track.name as track from slice join track on track.id = track_id "
        "where slice.name = 'stopped'"
    )
    assert [(row["ts"] - BOOT, row["dur"], row["track"]) for row in stops] == [(6_000, 3_000, "job a")]
    others = processor.rows(
        "select slice.name from slice join track on track.id = track_id where track.name = 'events' order by ts"
    )
    assert [row["name"] for row in others] == ["policy", "lost"]


def test_joined_files_are_one_trace() -> None:
    """`cat node1.pftrace node2.pftrace`: what each has alone is what both have."""
    one, other = (traced(Recording(node, recorded(), BOOT, unix=True)) for node in ("node1", "node2"))
    with TraceProcessor(one + other) as processor:
        assert len(decisions_of(processor, "node1")) == len(decisions_of(processor, "node2")) == 300
        assert processor.rows("select name from stats where severity in ('error', 'data_loss') and value > 0") == []


def test_a_task_is_on_the_track_of_its_job() -> None:
    values = decided(10, "wake", 1, (3, 2))
    values["task"]["jid"] = "a"
    trace = proto.Trace.FromString(traced(Recording("node1", [values])))
    tracks = [packet.track_descriptor for packet in trace.packet if packet.HasField("track_descriptor")]
    names = {track.uuid: track.name for track in tracks}
    parents = {track.name: names.get(track.parent_uuid) for track in tracks}
    assert parents["task1/1"] == "job a" and parents["task3/3"] == "tasks of jobs"
    assert parents["task2/2"] == "local tasks"
    assert parents["job a"] == parents["CPU 0"] == "node1" and parents["node1"] is None


@given(records())
@examples(60)
def test_any_records_make_a_trace(values: list[dict[str, Any]]) -> None:
    """Each decision is there once, each slice that begins ends, each track is described before its first event."""
    trace = proto.Trace.FromString(traced(Recording("node1", values, 1_000)))
    described: dict[int, str] = {}
    seen, depth = [], dict[int, int]()
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            assert packet.track_descriptor.uuid not in described
            described[packet.track_descriptor.uuid] = packet.track_descriptor.name
            continue
        event = packet.track_event
        assert event.track_uuid in described
        if event.type == proto.TrackEvent.TYPE_INSTANT and described[event.track_uuid] == "decisions":
            seen.append((packet.timestamp - 1_000, event.name))
        step = {proto.TrackEvent.TYPE_SLICE_BEGIN: 1, proto.TrackEvent.TYPE_SLICE_END: -1}.get(event.type, 0)
        depth[event.track_uuid] = depth.get(event.track_uuid, 0) + step
        assert 0 <= depth[event.track_uuid] <= 1
    assert not any(depth.values())
    assert seen == [(one["ns"], one["cause"]) for one in insertions(values)]
