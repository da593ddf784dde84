# SPDX-License-Identifier: GPL-2.0-or-later
"""The way of events to the disk, with a real writer: nothing waits for it, and what is lost is counted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ctl.monitor.event_log import read

_AGENT = """
import os, signal, sys, time
from pathlib import Path
from ctl.process import recording
keep = recording.start(Path(sys.argv[1]), print)
"""


def _run(path: Path, code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _AGENT + code, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def _events(path: Path) -> list[dict[str, Any]]:
    return read(0.0, 1e12, path).events if path.exists() else []


def _wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_events_are_on_disk_also_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    code = """
for n in range(100):
    keep({"time": float(n), "kind": "job", "text": "x"})
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert _run(path, code).returncode == -signal.SIGKILL
    _wait(lambda: len(_events(path)) == 100)


def test_a_stopped_writer_delays_nobody_and_lost_events_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    code = """
keep({"time": 0.0, "kind": "job", "text": "first"})
writer = int(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text())
time.sleep(0.3)
os.kill(writer, signal.SIGSTOP)
slowest = 0.0
for n in range(20000):
    before = time.thread_time()
    keep({"time": 1.0 + n, "kind": "job", "text": "x" * 200})
    slowest = max(slowest, time.thread_time() - before)
os.kill(writer, signal.SIGCONT)
time.sleep(0.5)
keep({"time": 1e6, "kind": "job", "text": "last"})
print(slowest)
"""
    done = _run(path, code)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.05
    _wait(lambda: _events(path) != [] and any(event["text"] == "last" for event in _events(path)))
    events = _events(path)
    lost = sum(event["lost"] for event in events if event["kind"] == "lost")
    assert lost > 0
    assert lost + sum(event["kind"] == "job" for event in events) == 20002


def test_an_event_that_is_too_long_is_counted_and_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    code = """
for text in ("first", "x" * 70_000, "last"):
    keep({"time": 1.0, "kind": "job", "text": text})
"""
    assert _run(path, code).returncode == 0
    _wait(lambda: len(_events(path)) == 3)
    assert {event["text"] for event in _events(path)} == {"first", "1 events were not recorded", "last"}


def test_a_place_that_cannot_be_written_is_told_and_harmless(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = _run(tmp_path / "file" / "events.jsonl", 'keep({"time": 1.0, "kind": "job", "text": "x"})')
    assert done.returncode == 0
    assert "events are not recorded" in done.stdout


def test_the_writer_holds_nothing_of_the_agent(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    code = """
keep({"time": 1.0, "kind": "job", "text": "x"})
writer = int(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text())
log = Path(sys.argv[1])
while not log.exists() or log.read_bytes().count(b"\\n") < 2:  # as it begins, the writer reads it by another descriptor
    time.sleep(0.02)
print(len(os.listdir(f"/proc/{writer}/fd")))
"""
    lock = os.open(tmp_path / "lock", os.O_CREAT)
    command = [sys.executable, "-c", _AGENT + code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300, pass_fds=(lock,))
    os.close(lock)
    assert int(done.stdout) <= 5  # three standard ones, the socket, the log
