#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The streams of the agent: recorded decisions, whole and counted, and readers that are slow."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

from ctl import protocol
from tests.kselftest import ktap
from tests.kselftest.command import agent, asked, ctl
from tests.kselftest.node import spawned


def _hogs() -> contextlib.AbstractContextManager[Any]:
    """Four of a job, on one CPU: the other one is for readers."""
    return spawned("taskset", "1", "ctl", "run", "--job", "h", "--", ktap.program("hog"), "4")


def decisions_are_traced() -> None:
    """Trace gives the requested number of decisions, as JSON and as records."""
    with agent("quantum_ms=5"), _hogs():
        lines = ctl("trace", "--json", "--count", "200").splitlines()
        ktap.expect(len(lines), 200, "decisions printed")
        wanted = {"cpu", "rule", "overloaded", "task", "queue", "running", "position", "overtaken", "preempt", "cause"}
        assert wanted <= json.loads(lines[0]).keys(), f"fields of a decision: {lines[0]}"
        ctl("trace", "--output", "/tmp/decisions.bin", "--count", "300")
        written = ctl("trace", "--from", "/tmp/decisions.bin", "--json").splitlines()
        ktap.expect(len(written), 300, "decisions in the file")
        ktap.until(lambda: asked("status")["trace"]["readers"] == 0, "nobody traces any more")


def _tracks_and_decisions(path: Path) -> tuple[set[str], int]:
    """Names of tracks, and the number of decisions, in a trace for Perfetto."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

    trace = proto.Trace.FromString(path.read_bytes())
    names = {packet.track_descriptor.uuid: packet.track_descriptor.name for packet in trace.packet}
    decisions = [packet for packet in trace.packet if names.get(packet.track_event.track_uuid) == "decisions"]
    assert all(packet.track_event.name and packet.track_event.debug_annotations for packet in decisions)
    assert all(abs(packet.timestamp / 1e9 - time.time()) < 600 for packet in decisions), "it has not the time of day"
    return set(names.values()), len(decisions)


def traced_for_perfetto() -> None:
    """Trace writes what Perfetto opens: so many decisions, or until it is interrupted."""
    out = Path("/tmp/decisions.pftrace")
    with agent("quantum_ms=5"), _hogs():
        ktap.until(lambda: [job["tasks"] for job in asked("jobs")] == [4], "the job runs")
        ctl("trace", "--perfetto", str(out), "--count", "300")
        names, decisions = _tracks_and_decisions(out)
        ktap.expect(decisions, 300, "decisions in the trace")
        assert {"CPU 0", "runs", "job h", os.uname().nodename} <= names, names
        assert any(name.startswith("hog/") for name in names), names
        out.unlink()
        with spawned("ctl", "trace", "--perfetto", str(out)) as tracing:
            ktap.until(lambda: out.exists() and out.stat().st_size > 0, "it records")
            tracing.send_signal(signal.SIGINT)
            ktap.expect(tracing.wait(ktap.TIME_OUT_S), 0, "its status")
        assert _tracks_and_decisions(out)[1] > 0, "no decision before the interruption"


def slow_reader() -> None:
    """A client that reads nothing, and a client that sends half a line, delay no other client."""
    with agent("quantum_ms=1"), _hogs(), contextlib.ExitStack() as stack:
        for line in (protocol.encode_request("trace"), b'{"v":1', protocol.encode_request("follow")):
            lazy = stack.enter_context(socket.socket(socket.AF_UNIX))
            lazy.connect(str(protocol.SOCKET))
            lazy.sendall(line)
        time.sleep(3)
        ktap.expect(asked("get")["quantum_ms"], 1, "quantum_ms")


if __name__ == "__main__":
    ktap.run(decisions_are_traced, traced_for_perfetto, slow_reader)
