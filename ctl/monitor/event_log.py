# SPDX-License-Identifier: GPL-2.0-or-later
"""What happened on this node, in files that outlive the agent, for `ctl report` and `ctl events`.

A line is a JSON object: an event as `ctl events` tells it ({"time", "kind", "text", ...}), or a row of figures
(kind FIGURES). The first line of a file has kind "log", the node's name and the version of this format. There are two
files: a full or old one takes the place of the one before. No line tells what a job runs; the files are for members of
group cosched.

The files may be lost without harm. The agent puts a damaged file aside and begins anew.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from ctl.contract import Measured
from ctl.errors import USAGE, CoschedError
from ctl.protocol import STATE_DIR, encode_line, parse

__all__ = ["FIGURES", "FILE", "KEPT_S", "EventLog", "Found", "figures", "read"]

FILE: Final = STATE_DIR / "events.jsonl"
KEPT_S: Final = 30 * 86_400.0
"""No event is older, seconds."""
FIGURES: Final = "figures"
_VERSION: Final = 1
_MOST_BYTES: Final = 16 << 20  # of a file: about 5 days with a job all the time, months without
_MODE: Final = 0o640


def _older(path: Path) -> Path:
    """The file before this one."""
    return path.with_suffix(".old.jsonl")


class EventLog:
    """The writer's end; one process writes."""

    def __init__(self, path: Path = FILE, *, group: int = -1, most: int = _MOST_BYTES) -> None:
        """`group`: whose members may read, besides root; `most`: bytes of a file. Touches no file yet."""
        self._path, self._group, self._most = path, group, most
        self._file = -1
        self._begun = 0.0

    def prepare(self) -> str:
        """Put a damaged file aside, and end a line that a killed writer has begun; a sentence about damage, or "".

        Raises OSError.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self._path.open("rb+") as file:
                first, size = file.readline(), file.seek(0, os.SEEK_END)
                if _begun(first) is None:
                    aside = self._path.with_suffix(".damaged")
                    self._path.replace(aside)
                    return f"the log of events is damaged, put aside as {aside}, and begins anew"
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    file.write(b"\n")
        except FileNotFoundError:
            pass
        return ""

    def append(self, lines: bytes) -> None:
        """Write whole lines. Raises OSError: nothing or a part is written, and the next call may succeed."""
        now = time.time()
        if self._file < 0:
            self._open(now)
        size = os.fstat(self._file).st_size
        if size + len(lines) > self._most or not 0 <= now - self._begun < KEPT_S / 2:
            self._turn(now)
        view = memoryview(lines)
        while view:
            view = view[os.write(self._file, view) :]

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _turn(self, now: float) -> None:
        """Begin a new file."""
        self.close()
        self._path.replace(_older(self._path))
        self._open(now)

    def _open(self, now: float) -> None:
        with contextlib.suppress(FileNotFoundError):
            if now - _older(self._path).stat().st_mtime > KEPT_S:
                _older(self._path).unlink()
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(self._path, flags, _MODE)
        if os.fstat(self._file).st_size == 0:
            with contextlib.suppress(OSError):  # not root, in a test
                os.fchown(self._file, -1, self._group)
            first = {"time": now, "kind": "log", "text": "the log begins", "node": os.uname().nodename, "v": _VERSION}
            os.write(self._file, encode_line(first))
        with self._path.open("rb") as file:
            self._begun = _begun(file.readline()) or 0.0


def _begun(line: bytes) -> float | None:
    """When the file with this first line began; None: it is no log of this version."""
    event = _event(line)
    return float(event["time"]) if event and event["kind"] == "log" and event.get("v") == _VERSION else None


def _event(line: bytes) -> dict[str, Any] | None:
    """The event of a line; None if the line is damaged."""
    try:
        event = parse(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict):
        return None
    return event if isinstance(event.get("time"), (int, float)) and isinstance(event.get("kind"), str) else None


class Found(NamedTuple):
    """What a log has."""

    node: str
    events: list[dict[str, Any]]  # the oldest first
    damaged: int  # lines that could not be read


def read(since: float, until: float, path: Path = FILE) -> Found:
    """The events of this span of Unix time. Raises CoschedError (status 2) if this user may not read them, or if there
    are none because no agent has written any."""
    node, events, damaged, files = "", [], 0, 0
    for one in (_older(path), path):
        try:
            with one.open("rb") as file:
                files += 1
                for line in file:
                    event = _event(line)
                    if event is None:
                        damaged += bool(line.strip())
                    elif event["kind"] == "log":
                        node = str(event.get("node", ""))
                    elif since <= event["time"] <= until:
                        events.append(event)
        except FileNotFoundError:
            continue
        except PermissionError:
            what = f"no permission to read {one}: be root or a member of group cosched"
            raise CoschedError(what, USAGE) from None
    if not files:
        raise CoschedError(f"there is no log of events at {path}: an agent writes it, start one with `ctl load`", USAGE)
    return Found(node, sorted(events, key=lambda event: float(event["time"])), damaged)


def figures(now: Measured, stalled: Mapping[str, int], at: float) -> dict[str, object]:
    """A row of figures. `stalled`: resource to the µs since boot in which a task waited for it; `at`: Unix time."""
    status = now["status"]
    contract, queue = status["contract"], status["queue"]
    lost = {name: count for name, count in status["counters"].items() if count and name.endswith(_LOST)}
    return {
        "time": at,
        "kind": FIGURES,
        "policy": status["policy"],
        "overloaded": status["overload"]["effective"],
        "user": contract["local_user"]["present"],
        "set": contract["quantum"]["set_share"],
        "achieved": contract["quantum"]["achieved_share"],
        "stalled": dict(stalled),
        "lost": lost,
        "jobs": {job["jid"]: dict(_of_job(job)) for job in now["jobs"]},
        "waits": [jid for jid, _ in queue["waits"]] if queue else [],
    }


_LOST: Final = ("_lost", "_unobserved")


def _of_job(job: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for name in ("cpu_s", "memory", "swap", "majflt"):
        yield name, round(job[name], 3)
    yield "state", job["state"]
