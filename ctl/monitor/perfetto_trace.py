# SPDX-License-Identifier: GPL-2.0-or-later
"""Decisions as a trace for Perfetto (https://perfetto.dev): tracks of CPUs, jobs and tasks, one group for each node.

    node ─┬─ CPU 0 ─┬─ decisions   an instant for each, named by its cause; the reason is in its arguments
          │         ├─ runs        the task on the CPU
          │         └─ queued      a counter: tasks in the ready queue
          ├─ job a ─┬─ …           begin, end and stops of the job
          │         └─ rank/4711   the task waits in a queue, or runs
          ├─ local tasks ── …
          └─ events                of the agent: local user, overload, policy and knobs

A flow leads from a message to the decision that it caused, and to the run that followed. ctl/monitor/timeline.py tells
how runs and waits are known. Identities are hashes of names, so traces of several nodes can also be joined by `cat`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

from ctl.kernel.modes import mode
from ctl.monitor.timeline import Decided, Span, Timeline, label

__all__ = ["Recording", "write_trace"]

_OPENS: Final = {("job", "begin"): "runs", ("stop", "stop"): "stopped"}  # an event's kind and action: a slice begins
_CLOSES: Final = {("job", "end"): "runs", ("stop", "resume"): "stopped"}
_CLOCKS: Final = (proto.BUILTIN_CLOCK_BOOTTIME, proto.BUILTIN_CLOCK_REALTIME)
_INT64: Final = range(-(1 << 63), 1 << 63)


@dataclass
class Recording:
    """What one node recorded. `events` is read when `records` is at its end, so both may come from one stream."""

    node: str
    records: Iterable[dict[str, Any]]  # as ctl/kernel/trace.py decodes them; a task may have its "jid"
    offset_ns: int = 0  # to be added to the records' ns: their clock's distance to Unix time, or to another node's
    unix: bool = False  # with the offset, times are Unix times
    events: Sequence[tuple[int, dict[str, Any]]] = ()  # of the agent, each with its time in ns of the same clock


def write_trace(file: IO[bytes], recordings: Iterable[Recording]) -> int:
    """Write a trace with all these recordings; returns the number of decisions."""
    builder = StreamingTraceProtoBuilder(file)
    return sum(_Node(builder, recording).write() for recording in recordings)


def _identity(*names: object) -> int:
    """A number for a thing with these names, the same in every trace; below 2^63, as a reader may keep it signed."""
    return int.from_bytes(hashlib.blake2b(repr(names).encode(), digest_size=8).digest()) >> 1


class _Node:
    """Writes one node's part of a trace."""

    def __init__(self, builder: StreamingTraceProtoBuilder, recording: Recording) -> None:
        self._builder, self._recording = builder, recording
        self._sequence = 1 + _identity(recording.node) % 0x7FFFFFFF
        self._tracks: set[int] = set()
        self._open: set[tuple[str, str]] = set()  # slices of jobs: JID and name

    def write(self) -> int:
        decisions, timeline = 0, Timeline()
        for record in self._recording.records:
            for item in timeline.feed(record):
                if isinstance(item, Span):
                    self._span(item)
                else:
                    if not decisions and self._recording.unix:
                        self._clock(record["ns"])
                    self._decision(item)
                    decisions += 1
        for span in timeline.close():
            self._span(span)
        for ns, event in self._recording.events:
            self._event(ns, event)
        return decisions

    # what happened

    def _decision(self, decided: Decided) -> None:
        record, ns = decided.record, decided.record["ns"]
        task, flows = record["task"], []
        if record["cause"] == "message":
            flows = [self._flow(decided.number)]
            self._instant(self._task(task), ns, "message", {name: task[name] for name in ("com", "rec")}, flows)
        self._instant(self._cpu(record["cpu"], "decisions"), ns, record["cause"], _reason(record), flows)
        self._put(ns, self._cpu(record["cpu"], "queued"), proto.TrackEvent.TYPE_COUNTER, counter_value=decided.queued)

    def _span(self, span: Span) -> None:
        where = f"CPU {span.cpu}"
        flows = [] if span.decision is None else [self._flow(span.decision)]
        if span.kind == "runs":
            self._slice(self._cpu(span.cpu, "runs"), span, label(span.task), terminating_flow_ids=flows)
            self._slice(self._task(span.task), span, f"on {where}")
        else:
            self._slice(self._task(span.task), span, f"queued, {where}")

    def _event(self, ns: int, event: dict[str, Any]) -> None:
        jid, kind = event.get("jid"), event.get("kind", "lost")
        args = {name: value for name, value in event.items() if name not in ("time", "kind")}
        if not isinstance(jid, str):
            self._instant(self._track("events", rank=3), ns, kind, args)
            return
        track, act = self._job(jid), (kind, event.get("action", ""))
        name = _OPENS.get(act) or _CLOSES.get(act)
        if name is None:
            self._instant(track, ns, kind, args)
        elif act in _OPENS and (jid, name) not in self._open:
            self._open.add((jid, name))
            self._put(ns, track, proto.TrackEvent.TYPE_SLICE_BEGIN, name=name, args=args)
        elif act in _CLOSES and (jid, name) in self._open:
            self._open.discard((jid, name))
            self._put(ns, track, proto.TrackEvent.TYPE_SLICE_END)

    # tracks

    def _cpu(self, cpu: int, what: str) -> int:
        parent = self._track(f"CPU {cpu}", rank=0)
        return self._track(what, f"CPU {cpu}", parent=parent, counter=what == "queued")

    def _job(self, jid: str) -> int:
        return self._track(f"job {jid}", rank=1)

    def _task(self, task: dict[str, Any]) -> int:
        jid = task.get("jid")
        if isinstance(jid, str):
            parent, group = self._job(jid), jid
        else:
            group = "tasks of jobs" if task["parallel"] else "local tasks"
            parent = self._track(group, rank=1 if task["parallel"] else 2)
        return self._track(label(task), group, task["tid"], parent=parent)

    def _track(
        self, name: str, *others: object, parent: int | None = None, rank: int = 0, counter: bool = False
    ) -> int:
        """The track of this name, described before its first use."""
        uuid = _identity(self._recording.node, *others, name)
        if uuid not in self._tracks:
            self._tracks.add(uuid)
            node = self._node() if parent is None else parent
            described = proto.TrackDescriptor(uuid=uuid, parent_uuid=node, name=name, sibling_order_rank=rank)
            if counter:
                described.counter.unit = proto.CounterDescriptor.UNIT_COUNT
            self._packet(track_descriptor=described)
        return uuid

    def _node(self) -> int:
        uuid = _identity(self._recording.node)
        if uuid not in self._tracks:
            self._tracks.add(uuid)
            order = proto.TrackDescriptor.EXPLICIT
            self._packet(
                track_descriptor=proto.TrackDescriptor(uuid=uuid, name=self._recording.node, child_ordering=order)
            )
        return uuid

    # packets

    def _flow(self, decision: int) -> int:
        return _identity(self._recording.node, "decision", decision)

    def _clock(self, ns: int) -> None:
        """Tell that the trace's times are those of the day."""
        at = ns + self._recording.offset_ns
        clocks = [proto.ClockSnapshot.Clock(clock_id=clock, timestamp=at) for clock in _CLOCKS]
        self._packet(clock_snapshot=proto.ClockSnapshot(clocks=clocks))

    def _instant(self, track: int, ns: int, name: str, args: dict[str, Any], flow_ids: Sequence[int] = ()) -> None:
        self._put(ns, track, proto.TrackEvent.TYPE_INSTANT, args=args, name=name, flow_ids=flow_ids)

    def _slice(self, track: int, span: Span, name: str, **fields: Any) -> None:
        self._put(span.begin, track, proto.TrackEvent.TYPE_SLICE_BEGIN, name=name, **fields)
        self._put(span.end, track, proto.TrackEvent.TYPE_SLICE_END)

    def _put(
        self,
        ns: int,
        track: int,
        kind: proto.TrackEvent.Type.ValueType,
        args: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        event = proto.TrackEvent(type=kind, track_uuid=track, debug_annotations=_annotations(args or {}), **fields)
        self._packet(timestamp=max(0, ns + self._recording.offset_ns), track_event=event)

    def _packet(self, **fields: Any) -> None:
        self._builder.write_packet(proto.TracePacket(trusted_packet_sequence_id=self._sequence, **fields))


def _reason(record: dict[str, Any]) -> dict[str, Any]:
    """A decision's arguments: the record, with its queue in short, and the mode that decided about a task of a job."""
    task = record["task"]
    decided_by = mode(record["rule"], overloaded=record["overloaded"], received=task["rec"] > 0)
    shown = {name: value for name, value in record.items() if name not in ("cpu", "ns", "unix_ns", "queue", "running")}
    shown["mode"] = decided_by if task["parallel"] else None
    shown["running"] = None if record["running"] is None else label(record["running"])
    shown["queue"] = [label(entry) for entry in record["queue"]]
    return shown


def _annotations(args: dict[str, Any]) -> Iterator[proto.DebugAnnotation]:
    """Arguments in Perfetto's form; None is left out."""
    for name, value in args.items():
        if value is not None:
            yield _annotation(value, name=name)


def _annotation(value: object, **name: str) -> proto.DebugAnnotation:
    if isinstance(value, bool):
        return proto.DebugAnnotation(bool_value=value, **name)
    if isinstance(value, int) and value in _INT64:
        return proto.DebugAnnotation(int_value=value, **name)
    if isinstance(value, float):
        return proto.DebugAnnotation(double_value=value, **name)
    if isinstance(value, dict):
        return proto.DebugAnnotation(dict_entries=_annotations(value), **name)
    if isinstance(value, (list, tuple)):
        return proto.DebugAnnotation(array_values=[_annotation(one) for one in value if one is not None], **name)
    return proto.DebugAnnotation(string_value=str(value), **name)
