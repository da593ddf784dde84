# SPDX-License-Identifier: GPL-2.0-or-later
"""Decision records: bytes as the kernel writes them, to the objects of `ctl trace --json` and to files."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from ctl.errors import CoschedError
from ctl.kernel import trace
from ctl.kernel.layout import constant, ffi

FLAGS = ("preempt", "truncated", "bounded", "overloaded", "gap")


def task(tid: int, **values: int) -> dict[str, Any]:
    """A struct trace_task, for cffi."""
    return {"tid": tid, "comm": f"task{tid}".encode(), "t": values}


def record(queue: list[dict[str, Any]], flags: int = 0, **fields: Any) -> bytes:
    """A decision as the kernel sends it: cut behind queue[nr]."""
    decision: Any = ffi.new("struct decision *", {"queue": queue, "nr": len(queue), "flags": flags, **fields})
    size = ffi.offsetof("struct decision", "queue") + len(queue) * ffi.sizeof("struct trace_task")
    return bytes(ffi.buffer(decision, size))


def test_contract() -> None:
    flags = constant("DEC_RUNNING") | constant("DEC_OVERLOADED") | constant("DEC_PREEMPT")
    parallel = constant("TASK_PARALLEL")
    raw = record(
        [task(7, de=1, mes=512, com=3, rec=2, flt=9, flags=parallel, cpu_ns=10**12), task(8)],
        flags,
        cpu=3,
        seq=41,
        ns=2**40,
        rule=constant("RULE_CSM_BOUNDED"),
        cause=constant("CAUSE_MESSAGE"),
        position=1,
        nr_overtaken=1,
        overtaken=[8],
        task=task(9, mes=307, flags=constant("TASK_CREDIT")),
        running=task(5),
        mnol=2,
        mnod=3,
        walk_max=64,
        share_ns=100_500_000,
    )
    got = json.loads(json.dumps(trace.decode(raw)))
    assert got["cpu"] == 3 and got["seq"] == 41 and got["ns"] == 2**40
    assert got["rule"] == "csm-bounded" and got["cause"] == "message"
    assert got["overloaded"] is True and got["preempt"] is True
    assert got["truncated"] is False and got["bounded"] is False
    assert got["position"] == 1 and got["overtaken"] == [8]
    assert [q["tid"] for q in got["queue"]] == [7, 8]
    assert got["queue"][0] == {
        "tid": 7,
        "comm": "task7",
        "parallel": True,
        "de": 1,
        "mes": 0.5,
        "com": 3,
        "rec": 2,
        "flt": 9,
        "cpu_ns": 10**12,
        "credit": False,
        "waiting": False,
        "starved": False,
        "passed": False,
        "turn": False,
        "place": 0,
    }
    assert got["task"]["credit"] is True and got["task"]["parallel"] is False
    assert got["running"]["tid"] == 5
    assert (got["mnol"], got["mnod"], got["walk_max"], got["share_ms"]) == (2, 3, 64, 100.5)


@pytest.mark.parametrize("flag", FLAGS)
def test_each_flag_is_its_own(flag: str) -> None:
    got = trace.decode(record([], constant(f"DEC_{flag.upper()}")))
    assert [name for name in FLAGS if got[name]] == [flag]
    assert got["running"] is None and got["queue"] == [] and got["overtaken"] == []


def test_full_record() -> None:
    longest = constant("MAX_TRACE")
    got = trace.decode(record([task(i) for i in range(longest)], constant("DEC_TRUNCATED")))
    assert [q["tid"] for q in got["queue"]] == list(range(longest))


def test_names_that_are_not_text() -> None:
    raw = record([], task={"tid": 1, "comm": b"\xff" * constant("COMM_LEN")})
    assert trace.decode(raw)["task"]["comm"] == "\ufffd" * constant("COMM_LEN")


@pytest.mark.parametrize("change", [-1, 1, -10_000])
def test_what_is_not_a_record_is_refused(change: int) -> None:
    raw = record([task(1), task(2)])
    raw = raw + bytes(change) if change > 0 else raw[:change]
    with pytest.raises(CoschedError, match="not a decision record"):
        trace.decode(raw)


def test_lost_records_are_gaps_by_cpu() -> None:
    """The first one seen of a CPU begins its count, which goes on behind 2^32."""
    lost = trace.Lost()
    seen = [(0, 5), (1, 90), (0, 6), (0, 9), (1, 91), (2, 2**32 - 1), (2, 0), (2, 2)]
    stream = [record([], cpu=cpu, seq=seq) for cpu, seq in seen]
    assert list(lost.watch(stream)) == stream
    assert lost.count == 2 + 1


def test_files(tmp_path: Path) -> None:
    records = [record([task(i) for i in range(n)], seq=n) for n in range(5)]
    path = tmp_path / "decisions"
    assert trace.write_file(path, records) == 5
    assert [(d["seq"], len(d["queue"])) for d in trace.read_file(path)] == [(n, n) for n in range(5)]
    with path.open("rb") as stream:
        assert list(trace.unpack(stream)) == records


@pytest.mark.parametrize("cut", [1, 4, 100])
def test_a_cut_file_is_told(cut: int) -> None:
    whole = trace.pack(record([])) + trace.pack(record([task(1)]))
    with pytest.raises(CoschedError):
        list(trace.unpack(io.BytesIO(whole[:-cut])))
    with pytest.raises(CoschedError):
        list(trace.unpack(io.BytesIO(whole + b"\1\2")))
