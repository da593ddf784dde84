# SPDX-License-Identifier: GPL-2.0-or-later
"""Decision records: taken from the ring buffer, turned into JSON, kept in files.

A record is a struct decision of bpf/cosched.h cut behind queue[nr]. Two kinds of record between decisions are no
insertions, but later insertions find the queue as they left it: a displaced task goes back to its place; and in a
window of gangs a task leaves the queue past others, which are charged for it. In files and raw streams the length
precedes each record: u32, little endian. All but Decisions works on a host that never ran the scheduler.
"""

from __future__ import annotations

import select
import struct
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ctl.errors import CoschedError
from ctl.kernel import layout
from ctl.kernel.layout import constant, ffi
from ctl.kernel.ringbuf import RingBuffer

__all__ = [
    "BETWEEN",
    "PUT_BACK",
    "WINDOW",
    "Decisions",
    "Lost",
    "check",
    "decode",
    "is_decision",
    "pack",
    "read_file",
    "task_json",
    "unpack",
    "up_to",
    "write_file",
]

_LENGTH = struct.Struct("<I")
_FULL = ffi.sizeof("struct decision")
_HEAD = ffi.offsetof("struct decision", "queue")
_TASK = ffi.sizeof("struct trace_task")
_NS_PER_MS = 1_000_000
_LATEST_NS = 1 << 61  # 73 years
_FLAGS = {name: constant(f"TASK_{name.upper()}") for name in ("credit", "waiting", "starved", "passed", "turn")}
_PARALLEL = constant("TASK_PARALLEL")
_PLACE_SHIFT, _PLACES = constant("TASK_PLACE_SHIFT"), constant("PLACES")
_PREEMPT, _TRUNCATED = constant("DEC_PREEMPT"), constant("DEC_TRUNCATED")
_BOUNDED, _GAP = constant("DEC_BOUNDED"), constant("DEC_GAP")
_NO_INSERTIONS = constant("CAUSE_RESUME"), constant("CAUSE_WINDOW")
BETWEEN = PUT_BACK, WINDOW = tuple(layout.CAUSE_NAMES[cause] for cause in _NO_INSERTIONS)
"""The causes of records that are no insertions."""
_JOBS, _TURN = constant("DEC_JOBS"), constant("DEC_TURN")
_RUNNING, _OVERLOADED = constant("DEC_RUNNING"), constant("DEC_OVERLOADED")


class Lost:
    """Counts the records missing from a stream since the first one seen: gaps in seq, per CPU."""

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self.count = 0
        self._next: dict[int, int] = {}

    def see(self, record: bytes) -> None:
        """Count those missing between this record and the one before from the same CPU. Raises CoschedError."""
        decision = _view(record)
        expected = self._next.get(decision.cpu, decision.seq)
        self.count += (decision.seq - expected) & 0xFFFFFFFF
        self._next[decision.cpu] = (decision.seq + 1) & 0xFFFFFFFF

    def watch(self, stream: Iterable[bytes]) -> Iterator[bytes]:
        """Pass the records on."""
        for record in stream:
            self.see(record)
            yield record


class Decisions:
    """A consumer of the decision ring buffer; a context manager. A ring buffer has one consumer."""

    def __init__(self, map_fd: int) -> None:
        """Consume the ring buffer map behind this descriptor, which must stay open. Raises CoschedError."""
        self._lost = Lost()
        self._taken: list[bytes] = []
        self._lock = threading.Lock()
        self._ring = RingBuffer(map_fd, self._take, _HEAD)

    def _take(self, record: bytes) -> None:
        self._lost.see(record)
        self._taken.append(record)

    @property
    def lost(self) -> int:
        """How many records the kernel had to drop since the first one read."""
        return self._lost.count

    def fileno(self) -> int:
        """A descriptor that is readable (poll, epoll, add_reader) when there are records."""
        return self._ring.epoll_fd

    def read(self, at_most: int | None = None) -> list[bytes]:
        """The records present now, oldest first, and perhaps some later records; or the first few."""
        with self._lock:
            self._ring.consume(at_most)
            taken, self._taken = self._taken, []
        return taken

    def wait(self, timeout_ms: int) -> list[bytes]:
        """As read(), but waits up to timeout_ms for the first record."""
        select.select([self], [], [], timeout_ms / 1000)
        return self.read()

    def close(self) -> None:
        """Free the consumer; unread records stay in the ring buffer."""
        with self._lock:
            self._ring.close()

    def __enter__(self) -> Decisions:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _view(record: bytes) -> Any:
    """The struct decision that lies in these bytes. Raises CoschedError if they are not exactly one."""
    if len(record) >= _HEAD:
        decision: Any = ffi.cast("struct decision *", ffi.from_buffer(record))
        if len(record) == _HEAD + decision.nr * _TASK <= _FULL:
            return decision
    raise CoschedError(f"{len(record)} bytes are not a decision record of {layout.HEADER}: another version wrote them")


def task_json(task: Any) -> dict[str, Any]:
    """A struct trace_task (bpf/cosched.h) by the papers' names, as it stands in JSON."""
    values = task.t
    return {
        "tid": task.tid,
        "comm": layout.text(task.comm),
        "parallel": bool(values.flags & _PARALLEL),
        "de": values.de,
        "mes": layout.mes_number(values.mes),
        "com": values.com,
        "rec": values.rec,
        "flt": values.flt,
        "cpu_ns": values.cpu_ns,
        "place": values.flags >> _PLACE_SHIFT & (_PLACES - 1),
        **{name: bool(values.flags & flag) for name, flag in _FLAGS.items()},
    }


def decode(record: bytes) -> dict[str, Any]:
    """A record as the object that `ctl trace --json` prints. Raises CoschedError if it is none."""
    decision = _view(record)
    flags = decision.flags
    return {
        "cpu": decision.cpu,
        "seq": decision.seq,
        "ns": decision.ns,
        "rule": layout.RULE_NAMES[decision.rule],
        "cause": layout.CAUSE_NAMES[decision.cause],
        "overloaded": bool(flags & _OVERLOADED),
        "task": task_json(decision.task),
        "queue": [task_json(decision.queue[i]) for i in range(decision.nr)],
        "running": task_json(decision.running) if flags & _RUNNING else None,
        "position": decision.position,
        "overtaken": [decision.overtaken[i] for i in range(min(decision.nr_overtaken, len(decision.overtaken)))],
        "preempt": bool(flags & _PREEMPT),
        "truncated": bool(flags & _TRUNCATED),
        "bounded": bool(flags & _BOUNDED),
        "gap": bool(flags & _GAP),
        "jobs_window": bool(flags & _JOBS),
        "turns": bool(flags & _TURN),
        "from": getattr(decision, "from"),
        "mnol": decision.mnol,
        "mnod": decision.mnod,
        "walk_max": decision.walk_max,
        "share_ms": decision.share_ns / _NS_PER_MS,
    }


def check(values: object) -> dict[str, Any]:
    """A record from elsewhere, as decode() makes them; more keys are allowed. Raises CoschedError, which names the
    part that is missing or of another kind."""
    found = _check(values, _EXAMPLE, "a decision")
    task = _EXAMPLE["task"]
    for entry in (*found["queue"], *(() if found["running"] is None else (found["running"],))):
        _check(entry, task, "a task")
    if not 0 <= found["ns"] < _LATEST_NS:
        raise CoschedError(f"time {found['ns']} ns cannot be: the kernel's clock has 0 to {_LATEST_NS}")
    if not 0 <= found["position"] <= len(found["queue"]) and not found["truncated"]:
        raise CoschedError(f"position {found['position']} is not in a queue of {len(found['queue'])}")
    return found


def _check(values: object, example: dict[str, Any], what: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise CoschedError(f"{what} is a {type(values).__name__}: another version wrote it, or another program")
    for name, one in example.items():
        value = values.get(name)
        if isinstance(one, dict):
            _check(value, one, f"{name} of {what}")
        elif one is not None and type(value) is not type(one):
            raise CoschedError(f"{name} of {what} is {value!r}: another version wrote it, or another program")
    return values


def is_decision(record: bytes) -> bool:
    """Whether it is an insertion."""
    return _view(record).cause not in _NO_INSERTIONS


def up_to(count: int | None, records: Iterable[bytes]) -> Iterator[bytes]:
    """The records up to so many decisions; all for None."""
    left = count
    for record in records:
        yield record
        if left is not None and is_decision(record):
            left -= 1
            if not left:
                return


def pack(record: bytes) -> bytes:
    """A record with its length ahead, as in files and raw streams."""
    return _LENGTH.pack(len(record)) + record


def unpack(stream: BinaryIO) -> Iterator[bytes]:
    """The records of a stream written with pack(). Raises CoschedError if it ends in the middle of one."""
    while head := stream.read(_LENGTH.size):
        length = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else 0
        if not _HEAD <= length <= _FULL:
            raise CoschedError(f"a record of {length} bytes cannot be: {_HEAD} to {_FULL} bytes are a decision")
        record = stream.read(length)
        if len(record) < length:
            raise CoschedError(f"the last record is cut: {len(record)} of {length} bytes are there")
        yield record


def read_file(path: Path) -> Iterator[dict[str, Any]]:
    """The decoded records of a file."""
    with path.open("rb") as stream:
        for record in unpack(stream):
            yield decode(record)


def write_file(path: Path, records: Iterable[bytes]) -> int:
    """Write records to a file; returns the number of decisions."""
    number = 0
    with path.open("wb") as stream:
        for record in records:
            stream.write(pack(record))
            number += is_decision(record)
    return number


_EXAMPLE = decode(bytes(_HEAD))  # all keys, with a value of their kind; `running` is None
