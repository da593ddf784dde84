# SPDX-License-Identifier: GPL-2.0-or-later
"""Decisions for people and files: from the agent, with the time of day and the jobs of tasks, or from files.

The kernel's record has neither, and both are known while it is fresh only: `unix_ns`, and `jid` of a parallel task.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from ctl.errors import USAGE, CoschedError
from ctl.kernel import trace
from ctl.kernel.member import jid_of
from ctl.monitor.perfetto_trace import Recording
from ctl.protocol import Client

__all__ = ["Fresh", "decisions", "from_agent", "from_file", "read", "shifts", "together"]

_KNOWN_NS: Final = 1_000_000_000  # a thread's number may be another's after this time
_MOST_KNOWN: Final = 4096  # threads, before the old ones are forgotten
_LISTEN: Final = 100  # records between two looks at events
_MOST_S: Final = 1e9  # of an offset; 2^63 ns are 9.2e9 s
_UNIX_NS: Final = range(1 << 62)  # until the year 2116


class Fresh:
    """Decodes records of this node as they come."""

    def __init__(self, find: Callable[[int], str | None] = jid_of) -> None:
        """`find` tells a thread's job."""
        self.boot_ns = time.time_ns() - time.monotonic_ns()
        """The Unix time of the records' 0."""
        self._find = find
        self._jids: dict[int, tuple[int, str | None]] = {}  # thread id -> when it was looked up, and its job

    def decode(self, record: bytes) -> dict[str, Any]:
        """A record with `unix_ns`, and `jid` of parallel tasks: None if the task has ended."""
        values = trace.decode(record)
        for task in filter(None, (values["task"], values["running"], *values["queue"])):
            if task["parallel"]:
                task["jid"] = self._jid(task["tid"], values["ns"])
        return {**values, "unix_ns": values["ns"] + self.boot_ns}

    def _jid(self, tid: int, now: int) -> str | None:
        at, jid = self._jids.get(tid, (now - 2 * _KNOWN_NS, None))
        if now - at > _KNOWN_NS:
            jid = self._find(tid)
            if len(self._jids) >= _MOST_KNOWN:
                self._jids = {one: seen for one, seen in self._jids.items() if now - seen[0] <= _KNOWN_NS}
            self._jids[tid] = now, jid
        return jid


def decisions(records: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The records that are insertions."""
    return (values for values in records if values["cause"] not in trace.BETWEEN)


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file of `ctl trace --raw` or `ctl trace --json`. Raises CoschedError at a wrong record."""
    with path.open("rb") as stream:
        # a raw file starts with a length of less than 2^24, so with a zero where JSON has text
        head = stream.peek(4)[:4]
        yield from _lines(stream, path) if head[:1] == b"{" and head[3:] != b"\0" else _raw(stream)


def _raw(stream: BinaryIO) -> Iterator[dict[str, Any]]:
    return map(trace.decode, trace.unpack(stream))


def _lines(stream: BinaryIO, path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(stream, 1):
        try:
            yield trace.check(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise CoschedError(f"line {number} of {path} is not JSON: {error}") from None
        except CoschedError as error:
            raise CoschedError(f"line {number} of {path}: {error}") from None


def from_file(path: Path, count: int | None, shifts_ns: dict[str, int]) -> Recording:
    """A file's recording, of the node that the file is named for up to the first dot; a shift is added to its times.

    Raises CoschedError.
    """
    node, records = path.name.partition(".")[0], itertools.islice(read(path), count)
    first = next(records, None)
    unix = first is not None and isinstance(at := first.get("unix_ns"), int) and at in _UNIX_NS
    offset = (first["unix_ns"] - first["ns"] if first is not None and unix else 0) + shifts_ns.get(node, 0)
    return Recording(node, itertools.chain([first] if first else [], records), offset, unix)


def from_agent(records: Iterable[bytes], shifts_ns: dict[str, int], follower: Client) -> Recording:
    """This node's recording: the stream `trace`, and the agent's events meanwhile; `follower` is another connection."""
    fresh, events = Fresh(), list[tuple[int, dict[str, Any]]]()
    follower.call("follow")

    def listen() -> None:
        for event in follower.available() or ():
            at = round(event.get("time", time.time()) * 1e9)
            events.append((at - fresh.boot_ns, event))

    def heard() -> Iterator[dict[str, Any]]:
        for number, record in enumerate(records):
            if number % _LISTEN == 0:
                listen()
            yield fresh.decode(record)
        listen()

    node = os.uname().nodename
    return Recording(node, heard(), fresh.boot_ns + shifts_ns.get(node, 0), unix=True, events=events)


def shifts(words: Iterable[str]) -> dict[str, int]:
    """Nanoseconds by node from words like "node2=-0.0015", in seconds. Raises CoschedError (status 2)."""
    found = {}
    for word in words:
        node, sign, text = word.partition("=")
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        if not node or not sign or not abs(seconds) <= _MOST_S:
            raise CoschedError(
                f"{word!r} is no offset: write NODE=SECONDS, as in node2=-0.0015, at most {_MOST_S:g} seconds", USAGE
            )
        found[node] = round(seconds * 1e9)
    return found


def together(recordings: list[Recording], shifts_ns: dict[str, int]) -> None:
    """Check that recordings can be one trace. Raises CoschedError (status 2) with the way out."""
    nodes = [recording.node for recording in recordings]
    if twice := sorted({node for node in nodes if nodes.count(node) > 1}):
        raise CoschedError(f"two recordings are of node {twice[0]}: a file is named for its node, NODE.jsonl", USAGE)
    if unknown := sorted(shifts_ns.keys() - set(nodes)):
        raise CoschedError(f"no recording is of node {unknown[0]!r}: there are {', '.join(nodes)}", USAGE)
    for recording in recordings:
        if len(recordings) > 1 and not recording.unix and recording.node not in shifts_ns:
            raise CoschedError(
                f"the records of {recording.node} have no time of day: record with --json, or give --offset "
                f"{recording.node}=SECONDS",
                USAGE,
            )
