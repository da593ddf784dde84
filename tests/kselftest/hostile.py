#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A client that sends nonsense: each request is refused in one sentence; the agent keeps its knobs and its size."""

from __future__ import annotations

import itertools
import json
import socket
from pathlib import Path

from ctl import protocol
from tests.kselftest import ktap
from tests.kselftest.command import agent, asked

_DEEP = "[" * 900 + "]" * 900  # parsed within Python's stack, but not shown within it
_LONG = "9" * 4000
_TEXT = '"' + "x" * 60_000 + '"'
_VALUES = (
    "null",
    "true",
    "-1",
    "1e400",
    _LONG,
    "NaN",
    '"\\ud800"',
    _TEXT,
    "[]",
    "{}",
    _DEEP,
    f'{{"x":{_DEEP}}}',
    f'{{"mno":{_DEEP}}}',
    f'{{"mno":{_LONG}}}',
    f"{{{_TEXT}:1}}",
)
_ARGUMENTS = (
    ("set", ("knobs",)),
    ("switch", ("policy", "knobs")),
    ("enter", ("jid", "memory", "program")),
    ("place", ("count", "memory", "by")),
    ("cancel", ("jid", "signal", "grace")),
    ("nope", ("x",)),
    ("status", ("x",)),
)
_OTHERS = {"policy": '"csm"', "jid": '"j"', "count": "1"}  # what a request needs beside the argument that is wrong
_GROWTH_KB = 16 << 10


def _requests() -> list[bytes]:
    """Each operation with each argument wrong in each way, and each as the version and the operation."""
    made = [
        {"v": "1", "op": json.dumps(op), **{n: v for n, v in _OTHERS.items() if n in names}, name: value}
        for (op, names), value in itertools.product(_ARGUMENTS, _VALUES)
        for name in names
    ]
    made += [{"v": value, "op": '"status"'} for value in _VALUES] + [{"v": "1", "op": value} for value in _VALUES]
    return [b"{" + b",".join(f'"{n}":{v}'.encode() for n, v in request.items()) + b"}\n" for request in made]


def _resident_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def nonsense_is_refused() -> None:
    """Of each operation with each argument wrong, too deep, too long or no text."""
    with agent("fit=on") as pid:
        before, was = asked("get"), _resident_kb(pid)
        refused = 0
        for request in _requests():
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(ktap.TIME_OUT_S)
                client.connect(str(protocol.SOCKET))
                client.sendall(request)
                answer = json.loads(client.makefile("rb").readline())
            if not answer["ok"]:
                refused += 1
                assert len(answer["error"]) < 1000, f"{len(answer['error'])} characters: {answer['error'][:200]}"
                assert "failed to answer" not in answer["error"], f"{request[:100]!r}: {answer['error']}"
        ktap.note(f"{refused} of {len(_requests())} requests refused")
        ktap.expect(asked("get"), before, "the knobs")
        grown = _resident_kb(pid) - was
        ktap.note(f"the agent has grown by {grown} KB")
        assert grown < _GROWTH_KB, f"the agent has grown by {grown} KB"


if __name__ == "__main__":
    ktap.run(nonsense_is_refused)
