# SPDX-License-Identifier: GPL-2.0-or-later
"""Records from files of both kinds and from the kernel, and `ctl trace --from … --perfetto`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from ctl.cli.main import main
from ctl.errors import CoschedError
from ctl.kernel import trace
from ctl.monitor import recorder
from ctl.monitor.recorder import Fresh, decisions, read
from tests.unit.monitor.decided import raw

RAW = [raw(10, "wake", 1, (2,)), raw(20, "resume", 4, (1, 2), position=0), raw(30, "expire", 3, (1, 2), running=5)]
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


def lines(path: Path, *values: object) -> Path:
    """A file of JSON lines."""
    path.write_text("".join(json.dumps(one) + "\n" for one in values))
    return path


def fresh(record: bytes, boot_ns: int) -> dict[str, Any]:
    """A record as `ctl trace --json` prints it, on a node that started at this time."""
    decoder = Fresh(lambda _tid: "a")
    decoder.boot_ns = boot_ns
    return decoder.decode(record)


def times(path: Path) -> dict[str, list[int]]:
    """The times of the decisions in a trace, by node."""
    parsed = proto.Trace.FromString(path.read_bytes())
    described = [packet.track_descriptor for packet in parsed.packet if packet.HasField("track_descriptor")]
    tracks = {track.uuid: track for track in described}
    found: dict[str, list[int]] = {}
    for packet in parsed.packet:
        track = tracks.get(packet.track_event.track_uuid)
        if track is not None and track.name == "decisions":
            node = tracks[tracks[track.parent_uuid].parent_uuid].name
            found.setdefault(node, []).append(packet.timestamp)
    return found


def test_both_kinds_of_files(tmp_path: Path) -> None:
    path = tmp_path / "one.bin"
    assert trace.write_file(path, RAW) == 2
    both = list(map(trace.decode, RAW))
    assert list(read(path)) == both
    assert list(read(lines(tmp_path / "one.jsonl", *both))) == both
    assert list(decisions(both)) == [both[0], both[2]]
    assert list(read(lines(tmp_path / "empty.jsonl"))) == []


def test_fresh_records_know_their_job_and_the_time() -> None:
    asked: list[int] = []
    jids = iter(("a", "a", "b"))

    def find(tid: int) -> str:
        asked.append(tid)
        return next(jids)

    decoder = Fresh(find)
    first = decoder.decode(raw(10, "wake", 1, (2, 3)))
    assert (first["task"]["jid"], first["queue"][1]["jid"]) == ("a", "a")
    assert "jid" not in first["queue"][0]  # a local task
    assert first["unix_ns"] == decoder.boot_ns + 10
    assert abs(decoder.boot_ns + time.monotonic_ns() - time.time_ns()) < 10**9
    assert decoder.decode(raw(10**9, "wake", 1))["task"]["jid"] == "a"
    assert decoder.decode(raw(10**9 + 11, "wake", 1))["task"]["jid"] == "b"  # the number may be another's by now
    assert asked == [1, 3, 1]


def test_ended_threads_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_MOST_KNOWN", 3)
    decoder = Fresh(lambda _tid: "a")
    for number in range(20):
        decoder.decode(raw(number * 10**9, "wake", 2 * number + 1))
        assert len(decoder._jids) <= 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cpu": "0"}, "cpu of a decision is '0'"),
        ({"cpu": True}, "cpu of a decision is True"),
        ({"task": 3}, "task of a decision is a int"),
        ({"queue": [{"tid": 1}]}, "comm of a task is None"),
        ({"running": []}, "a task is a list"),
        ({"position": 9}, "position 9 is not in a queue of 1"),
        ({"ns": -1}, "time -1 ns"),
        ({"ns": 2**63}, "time 9223372036854775808 ns"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    good = trace.decode(RAW[0])
    path = lines(tmp_path / "one.jsonl", good, {**good, **change})
    with pytest.raises(CoschedError, match=f"line 2 of .*one.jsonl: {words}"):
        list(read(path))


@given(JSON_VALUES, st.sampled_from(sorted(trace.decode(RAW[0]))))
def test_any_json_is_a_record_or_refused(value: object, name: str) -> None:
    for one in (value, {**trace.decode(RAW[0]), name: value}):
        try:
            trace.check(one)
        except CoschedError:
            continue
        assert isinstance(one, dict) and one.keys() >= trace.decode(RAW[0]).keys()


def test_nodes_are_joined_by_the_time_of_day(tmp_path: Path) -> None:
    one = lines(tmp_path / "node1.jsonl", fresh(RAW[0], 5_000), fresh(RAW[2], 5_000))
    other = lines(tmp_path / "node2.jsonl", fresh(RAW[0], 7_000))
    out = tmp_path / "both.pftrace"
    files = ("--from", str(one), "--from", str(other), "--perfetto", str(out))
    assert main(["trace", *files]) == 0
    assert times(out) == {"node1": [5_010, 5_030], "node2": [7_010]}
    assert main(["trace", *files, "--offset", "node2=-0.000001", "--count", "1"]) == 0
    assert times(out) == {"node1": [5_010], "node2": [6_010]}


def test_records_without_the_time_of_day(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("node1.bin", "node2.bin"):
        trace.write_file(tmp_path / name, RAW)
    out = tmp_path / "both.pftrace"
    files = ["--from", str(tmp_path / "node1.bin"), "--from", str(tmp_path / "node2.bin"), "--perfetto", str(out)]
    assert main(["trace", *files]) == 2 and not out.exists()
    assert "the records of node1 have no time of day" in capsys.readouterr().err
    assert main(["trace", *files, "--offset", "node1=0", "--offset", "node2=1e-6"]) == 0
    assert times(out) == {"node1": [10, 30], "node2": [1_010, 1_030]}
    assert main(["trace", *files[:2], *files[4:]]) == 0 and times(out) == {"node1": [10, 30]}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--offset", "node1=1"), "--offset is for --perfetto"),
        (("--perfetto", "x", "--json"), "leave out --json"),
        (("--perfetto", "x", "--offset", "node1"), "'node1' is no offset: write NODE=SECONDS"),
        (("--perfetto", "x", "--offset", "node1=nan"), "'node1=nan' is no offset"),
        (("--perfetto", "x", "--offset", "node1=1e10"), "at most 1e+09 seconds"),
        (("--perfetto", "x", "--offset", "node9=1"), "no recording is of node 'node9': there are node1"),
        (("--perfetto", "x", "--from", "{0}/node1.jsonl"), "two recordings are of node node1"),
    ],
)
def test_wrong_requests(
    tmp_path: Path, options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    source = lines(tmp_path / "node1.jsonl", trace.decode(RAW[0]))
    assert main(["trace", "--from", str(source), *(one.format(tmp_path) for one in options)]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
