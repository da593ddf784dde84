# SPDX-License-Identifier: GPL-2.0-or-later
"""Recorded decisions in the reference's terms, from lines of `ctl trace --json` and from raw records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .insert_rq import CAUSES, MES_ONE, RULES, Env, Task
from .window import Window

__all__ = ["PUT_BACK", "WINDOW", "BadRecord", "Record", "from_json", "read"]

# The causes of records that are no insertions
PUT_BACK = "resume"  # a displaced task went back to its place
WINDOW = "window"  # a task left the queue past others, whose window it was not

_NS_PER_MS = 1_000_000


class BadRecord(Exception):
    """The input is not a decision record; one sentence."""


class Record(NamedTuple):
    """An insertion by the kernel, a put-back, or a task that left in its window."""

    cpu: int
    seq: int  # per CPU; gaps are lost records
    env: Env
    task: Task
    seen: tuple[Task, ...]  # the queue as it was, head first; for "message" the task itself is in it
    queue: tuple[Task, ...]  # the same without the task
    start: int  # tasks that were ahead of it
    running: Task | None
    position: int
    overtaken: tuple[int, ...]  # tids
    preempt: bool
    bounded: bool
    gap: bool  # no key was left at its place: it may be further back
    truncated: bool  # the queue was longer than its record
    comms: dict[int, str]
    window: Window  # for "window"


def _task(values: dict[str, Any]) -> Task:
    return Task(
        values["tid"],
        values["parallel"],
        values["credit"],
        values["de"],
        round(values["mes"] * MES_ONE),
        values["com"],
        values["rec"],
        values["flt"],
        values["cpu_ns"],
        values["waiting"],
        values["starved"],
        values["place"],
        values["passed"],
        values["turn"],
    )


def from_json(values: dict[str, Any]) -> Record:
    """One object of `ctl trace --json`. Raises BadRecord, which names the missing part."""
    try:
        return _from_json(values)
    except KeyError as missing:
        raise BadRecord(f"a decision without {missing}: record it with this version's `ctl trace`") from None
    except (TypeError, ValueError) as wrong:
        raise BadRecord(f"a decision with a value of the wrong kind: {wrong}") from None


def _from_json(values: dict[str, Any]) -> Record:
    rule, cause = values["rule"], values["cause"]
    if rule not in RULES or cause not in (*CAUSES, PUT_BACK, WINDOW):
        raise ValueError(f"rule {rule!r}, cause {cause!r}")
    env = Env(
        rule,
        cause,
        values["overloaded"],
        values["mnol"],
        values["mnod"],
        round(values["share_ms"] * _NS_PER_MS),
        values["walk_max"],
        top_denied=values["bounded"],
    )
    everybody = [values["task"], *values["queue"], *([values["running"]] if values["running"] else [])]
    task, seen = _task(values["task"]), tuple(map(_task, values["queue"]))
    queue, start = seen, len(seen)
    if cause in ("message", WINDOW):
        start = next((j for j, q in enumerate(seen) if q.tid == task.tid), start)
        queue = seen[:start] + seen[start + 1 :]
    return Record(
        values["cpu"],
        values["seq"],
        env,
        task,
        seen,
        queue,
        start,
        _task(values["running"]) if values["running"] else None,
        values["position"],
        tuple(values["overtaken"]),
        values["preempt"],
        values["bounded"],
        values["gap"],
        values["truncated"],
        {t["tid"]: t["comm"] for t in everybody},
        Window(values["jobs_window"], values["turns"]),
    )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                yield json.loads(line)
            except ValueError as error:
                raise BadRecord(f"{path}: line {number} is not JSON: {error}") from None


def _raw(path: Path) -> Iterator[dict[str, Any]]:
    from ctl.errors import CoschedError  # only where it is needed: JSON is read without the controller
    from ctl.kernel import trace

    try:
        yield from trace.read_file(path)
    except CoschedError as error:
        raise BadRecord(f"{path}: {error}") from None


def read(path: Path) -> Iterator[Record]:
    """All records of a file, of either kind. Raises BadRecord."""
    with path.open("rb") as stream:
        head = stream.read(4)
    # a raw file starts with a length of less than 2^24, so with a zero where JSON has text
    objects = _lines(path) if head.startswith(b"{") and head[3:] != b"\0" else _raw(path)
    for number, values in enumerate(objects, 1):
        try:
            yield from_json(values)
        except BadRecord as error:
            raise BadRecord(f"{path}: record {number}: {error}") from None
