# SPDX-License-Identifier: GPL-2.0-or-later
"""`ctl events`: a log as an agent writes it, and what comes after."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ctl.cli.main import main
from ctl.monitor import event_log, follow
from ctl.monitor.event_log import EventLog
from ctl.protocol import encode_line

NOW = time.time()


def event(ago: float, kind: str, **more: object) -> dict[str, Any]:
    return {"time": NOW - ago, "kind": kind, "text": f"{kind} {ago:g} s ago", **more}


LONG_AGO, BEGIN = event(100_000, "agent"), event(9000, "job", jid="a")
STOP, USER = event(6000, "stop", jid="b"), event(3000, "local_user")
FOLLOW, LOST, END = event(0, "follow"), event(-1, "lost"), event(-2, "job", jid="a")


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "events.jsonl"
    writer = EventLog(path)
    for one in (LONG_AGO, BEGIN, event(8000, event_log.FIGURES, jobs={}), STOP, USER):
        writer.append(encode_line(one))
    writer.close()

    def come() -> Iterator[dict[str, Any]]:
        yield from (FOLLOW, USER, LOST, END)

    monkeypatch.setattr(event_log, "FILE", path)
    monkeypatch.setattr(follow, "follow", come)
    return path


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("", [BEGIN, STOP, USER]),
        ("--since 7d", [LONG_AGO, BEGIN, STOP, USER]),
        ("--since 2h", [STOP, USER]),
        ("--job a", [BEGIN]),
        ("--follow", [FOLLOW, USER, LOST, END]),
        ("-f --since 2h", [STOP, USER, FOLLOW, LOST, END]),  # what is in the log and comes is told once
        ("-f --since 3h -j a", [BEGIN, FOLLOW, LOST, END]),
    ],
)
def test_which_events_are_told(capsys: pytest.CaptureFixture[str], words: str, wanted: list[dict[str, Any]]) -> None:
    assert main(["events", "--json", *words.split()]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == wanted


def test_what_is_past_has_its_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", "--job", "b"]) == 0
    day = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(STOP["time"]))
    assert capsys.readouterr().out.startswith(f"{day}.") and STOP["text"] == "stop 6000 s ago"


def test_without_a_log_the_way_out_is_named(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.unlink()
    assert main(["events"]) == 2
    assert "start one with `ctl load`" in capsys.readouterr().err
    assert main(["events", "--since", "soon"]) == 2
    assert "--since 'soon' is no time: give 90m, 12h, 7d" in capsys.readouterr().err
    assert main(["events", "--follow", "--json"]) == 0
