# SPDX-License-Identifier: GPL-2.0-or-later
"""The log of events: bounded, readable after any damage."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.errors import CoschedError
from ctl.monitor.event_log import KEPT_S, EventLog, read

ALL = (0.0, 1e12)


def _line(number: int, **more: Any) -> bytes:
    event = {"time": 1000.0 + number, "kind": "job", "text": f"event {number}", **more}
    return json.dumps(event).encode() + b"\n"


def _texts(path: Path, since: float = 0.0) -> list[str]:
    return [event["text"] for event in read(since, 1e6, path).events]


def _log(path: Path, **options: Any) -> EventLog:
    log = EventLog(path, **options)
    assert log.prepare() == ""
    return log


def test_events_come_back_and_a_span_leaves_out_the_others(tmp_path: Path) -> None:
    log = _log(tmp_path / "state" / "events.jsonl")
    for number in range(5):
        log.append(_line(number))
    assert _texts(tmp_path / "state" / "events.jsonl", 1002.0) == ["event 2", "event 3", "event 4"]


def test_a_second_writer_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for number in range(3):
        log = _log(path)
        log.append(_line(number))
        log.close()
    assert _texts(path) == ["event 0", "event 1", "event 2"]


def test_the_size_is_bounded_and_the_newest_stay(tmp_path: Path) -> None:
    path, most = tmp_path / "events.jsonl", 4096
    log = _log(path, most=most)
    for number in range(1000):
        log.append(_line(number))
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 2 * most
    texts = _texts(path)
    assert texts[-1] == "event 999"
    assert len(texts) > 40
    assert texts == [f"event {number}" for number in range(1000 - len(texts), 1000)]


def test_the_age_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, now = tmp_path / "events.jsonl", time.time()
    day = [0.0]
    monkeypatch.setattr("ctl.monitor.event_log.time.time", lambda: now + day[0] * 86_400)
    log = _log(path)
    for number in range(90):
        day[0] = number
        log.append(_line(number))
        for file in tmp_path.iterdir():
            os.utime(file, (now, now + number * 86_400) if file == path else None)
        kept = len(_texts(path))
        assert min(number + 1, 15) <= kept <= KEPT_S / 86_400 + 1
    log.close()
    day[0] = 200
    os.utime(path, (now, now))
    os.utime(tmp_path / "events.old.jsonl", (now, now))
    log = _log(path)
    log.append(_line(200))
    assert _texts(path)[-1] == "event 200"
    log.close()
    day[0] = 240
    _log(path)
    assert not (tmp_path / "events.old.jsonl").exists(), "older than any event may be, also if nothing is written"


def test_only_owner_and_group_may_read_it(tmp_path: Path) -> None:
    """It has command lines of jobs."""
    log = _log(tmp_path / "events.jsonl")
    log.append(_line(1))
    assert (tmp_path / "events.jsonl").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "content", [b"", b"no log\n", b"\xff\x00" * 5000, b'{"time": 1, "kind": "log", "v": 99}\n', b"[]\n"]
)
def test_a_damaged_file_is_put_aside_and_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(content)
    log = EventLog(path)
    assert "put aside as" in log.prepare()
    log.append(_line(1))
    assert _texts(path) == ["event 1"]
    assert path.with_suffix(".damaged").read_bytes() == content


def test_a_line_cut_off_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = _log(path)
    log.append(_line(1))
    log.append(_line(2)[:-9])
    _log(path).append(_line(3))
    found = read(0.0, 1e6, path)
    assert [event["text"] for event in found.events] == ["event 1", "event 3"]
    assert found.damaged == 1


@given(st.binary(max_size=400), st.integers(0, 3))
def test_any_bytes_in_the_middle_are_survived(junk: bytes, where: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "events.jsonl"
        log = _log(path)
        for number in range(4):
            if number == where:
                log.append(junk + b"\n")
            log.append(_line(number))
        assert {f"event {number}" for number in range(4)} <= set(_texts(path))


def test_without_a_log_the_way_out_is_named(tmp_path: Path) -> None:
    with pytest.raises(CoschedError, match="ctl load"):
        read(*ALL, tmp_path / "events.jsonl")
