# SPDX-License-Identifier: GPL-2.0-or-later
"""The replay of recorded decisions: right records pass, and each possible fault is reported."""

from __future__ import annotations

import copy
import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ctl.kernel import trace
from ctl.kernel.layout import CAUSE_NAMES, RULE_NAMES, ffi
from tests.reference.insert_rq import CAUSES, MES_ONE, RULES, Decision, Env, Task
from tests.reference.ready_queue import ReadyQueue
from tests.reference.records import PUT_BACK, WINDOW
from tests.reference.replay import main
from tests.reference.window import Window

Object = dict[str, Any]


def _t(task: Task) -> Object:
    values: Object = task._asdict()
    return values | {"mes": task.mes / MES_ONE, "comm": f"task{task.tid}"}


def _object(seq: int, env: Env, task: Task, cpu: ReadyQueue, position: int) -> Object:
    """The record of a kernel ahead of an insertion, without the answer."""
    return {
        "cpu": 0,
        "seq": seq,
        "ns": seq * 1000,
        "rule": env.rule,
        "cause": env.cause,
        "overloaded": env.overloaded,
        "task": _t(task),
        "queue": [_t(q) for q in cpu.queue],
        "running": _t(cpu.running) if cpu.running else None,
        "truncated": False,
        "from": position,
        "mnol": env.mnol,
        "mnod": env.mnod,
        "walk_max": env.walk_max,
        "share_ms": env.share_ns / 1e6,
        "jobs_window": False,
        "turns": False,
    }


def _close(values: Object, queue: list[Task], running: Task | None, decision: Decision) -> None:
    charged = [queue[j].tid for j in decision.overtaken]
    if decision.charged_running and running:
        charged.append(running.tid)
    values |= {
        "position": decision.position,
        "overtaken": charged,
        "preempt": decision.preempt,
        "bounded": decision.bounded,
        "gap": False,
    }


def _put_back(seq: int, env: Env, cpu: ReadyQueue, tid: int, position: int) -> Object:
    """The displaced task goes back, before the head that displaced it runs."""
    assert cpu.running
    queue = [cpu.running, *cpu.queue]
    place = next(j for j, q in enumerate(queue) if q.tid == tid)
    values = _object(seq, env._replace(cause=PUT_BACK), queue.pop(place), cpu, position)
    quiet: Object = {"running": None, "overtaken": [], "preempt": False, "bounded": False, "gap": False}
    return values | quiet | {"queue": [_t(q) for q in queue], "position": place}


def _in_window(seq: int, env: Env, cpu: ReadyQueue, window: Window) -> Object | None:
    """A task leaves past others in a window, if one goes first in it."""
    env, queue = env._replace(cause=WINDOW), list(cpu.queue)
    values = _object(seq, env, queue[0], cpu, 0)
    place, charged = cpu.window(window, env)
    quiet: Object = {"running": None, "preempt": False, "bounded": False, "gap": False}
    quiet |= {"jobs_window": window.jobs, "turns": window.turns}
    found = {"overtaken": [queue[j].tid for j in charged], "position": place, "from": place, "task": _t(queue[place])}
    return values | quiet | found if place >= 0 else None


def recording(rule: str, n: int = 300, seed: int = 1, windows: bool = False) -> list[Object]:
    """A CPU under that rule for n insertions: arrivals, messages for queued tasks, dispatches, displacements; with
    windows, some leave past others."""
    rng, cpu, next_tid = random.Random(seed), ReadyQueue(), 100
    made: list[Object] = []
    for _ in range(n):
        seq = len(made) + 1
        while len(cpu.queue) > rng.randint(2, 12) or not cpu.running:
            if not cpu.queue:
                break
            cpu.dispatch()
        if windows and rng.random() < 0.1:
            cpu.turn()
        if windows and len(cpu.queue) > 1 and rng.random() < 0.2:
            window = Window(rng.random() < 0.5, rng.random() < 0.5)
            cpu.queue = [q._replace(turn=window.turns and q.parallel and rng.random() < 0.5) for q in cpu.queue]
            made += filter(None, [_in_window(seq, Env(rule, WINDOW, mnol=2, mnod=3), cpu, window)])
            seq = len(made) + 1
        cause = rng.choice(CAUSES) if len(cpu.queue) > 1 else "wake"
        env = Env(rule, cause, rng.random() < 0.5, 2, 3, 50, 3)
        running, index = cpu.running, rng.randrange(len(cpu.queue)) if cause == "message" else len(cpu.queue)
        old = cpu.queue[index] if cause == "message" else Task(next_tid, rng.random() < 0.7)
        next_tid += 1
        values = {"mes": rng.randint(0, 3) << 9, "com": rng.randint(0, 3), "rec": rng.randint(0, 2)}
        task = old._replace(flt=rng.randint(0, 3), cpu_ns=rng.randint(0, 200), **values)  # type: ignore[arg-type]
        if cause == "credit":
            task = task._replace(parallel=False, credit=True)
        made.append(_object(seq, env, task, cpu, index))
        others = [q for q in cpu.queue if q.tid != task.tid]
        decision = cpu.message(index, env, task) if cause == "message" else cpu.insert(task, env)
        _close(made[-1], others, running, decision)
        if decision.preempt and running:
            made.append(_put_back(len(made) + 1, env, cpu, running.tid, decision.position))
    return made


def replay(tmp_path: Path, objects: list[Object], *options: str) -> Result:
    path = tmp_path / "decisions.jsonl"
    path.write_text("".join(json.dumps(values) + "\n" for values in objects))
    return CliRunner().invoke(main, [str(path), *options])


@pytest.mark.parametrize("rule", RULES)
def test_a_right_recording(rule: str, tmp_path: Path) -> None:
    result = replay(tmp_path, recording(rule))
    assert result.exit_code == 0, result.output
    assert result.output.startswith("replay: 300 decisions in 1 files, 0 mismatches, 0 disorders")


def _busy(objects: list[Object]) -> int:
    """Index of a record after which the queue has at least two other tasks."""
    return next(
        j
        for j, (a, b) in enumerate(itertools.pairwise(objects))
        if a["cause"] == "wake" and b["cause"] == "wake" and len(b["queue"]) > 4 and len(a["overtaken"]) > 1
    )


def _moved(o: list[Object], j: int) -> None:
    o[j]["position"] += 1


def _forgot_a_charge(o: list[Object], j: int) -> None:
    o[j]["overtaken"].pop()


def _preempts(o: list[Object], j: int) -> None:
    o[j]["preempt"] = not o[j]["preempt"]


def _bounds(o: list[Object], j: int) -> None:
    o[j]["bounded"] = not o[j]["bounded"]


def _swaps(o: list[Object], j: int) -> None:
    queue = o[j + 1]["queue"]
    queue[-1], queue[-2] = queue[-2], queue[-1]


def _changes_de(o: list[Object], j: int) -> None:
    o[j + 1]["queue"][-1]["de"] += 1


def _exceeds_mno(o: list[Object], j: int) -> None:
    o[j + 1]["queue"][-1]["de"] = 4


def _intrudes(o: list[Object], j: int) -> None:
    o[j + 1]["queue"].append(_t(Task(9999)))


def _goes_back(o: list[Object], j: int) -> None:
    o[j + 1]["seq"] = o[j]["seq"]


def _jumps_the_queue(o: list[Object], j: int) -> None:
    gone = o[j + 1]["queue"].pop()
    for later in o[j + 2 :]:
        later["queue"] = [q for q in later["queue"] if q["tid"] != gone["tid"]]
    o[j + 1]["running"] = gone


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_moved, "+ reference position"),
        (_forgot_a_charge, "+ reference position"),
        (_preempts, "- kernel    position"),
        (_bounds, "- kernel    position"),
        (_swaps, "order changed"),
        (_changes_de, "was left at"),
        (_exceeds_mno, "above MNO"),
        (_intrudes, "9999 came without a record"),
        (_goes_back, "records out of order"),
        (_jumps_the_queue, "dispatch out of order"),
    ],
)
def test_what_is_wrong_is_told(spoil: Callable[[list[Object], int], None], words: str, tmp_path: Path) -> None:
    objects = recording("pred")
    spoil(objects, _busy(objects))
    result = replay(tmp_path, objects, "--show", "1000")
    assert result.exit_code == 1, result.output
    assert words in result.output


def test_an_overtake_charged_twice(tmp_path: Path) -> None:
    objects = recording("pred")
    values = objects[_busy(objects)]
    values["overtaken"].append(values["overtaken"][0])
    assert replay(tmp_path, objects).exit_code == 1


def test_lost_records_are_counted_and_the_rest_is_still_compared(tmp_path: Path) -> None:
    objects = recording("csm")
    del objects[100:103], objects[200]
    result = replay(tmp_path, objects)
    assert result.exit_code == 0, result.output
    assert "4 lost" in result.output and f"in {len(objects) - 1 - 2} queues" in result.output


def test_sequence_numbers_wrap(tmp_path: Path) -> None:
    objects = recording("csm", 10)
    for j, values in enumerate(objects):
        values["seq"] = (2**32 - 5 + j) % 2**32
    result = replay(tmp_path, objects)
    assert "0 lost" in result.output and f"in {len(objects) - 1} queues" in result.output


def test_truncated_records_are_counted_not_replayed(tmp_path: Path) -> None:
    objects = recording("csm", 50)
    one = next(values for values in objects[20:] if values["cause"] != PUT_BACK)
    one |= {"truncated": True, "position": 77}
    result = replay(tmp_path, objects)
    assert result.exit_code == 0, result.output
    assert "replay: 49 decisions" in result.output and "1 truncated" in result.output


def test_a_top_may_be_denied_and_says_so(tmp_path: Path) -> None:
    env = Env("dyn", "wake")
    cpu = ReadyQueue()
    cpu.insert(Task(2), env)
    values = _object(1, env, Task(9, True, rec=1), cpu, 1)
    values |= {"position": 1, "overtaken": [], "preempt": False, "bounded": True, "gap": False}
    assert replay(tmp_path, [values]).exit_code == 0
    assert replay(tmp_path, [values | {"bounded": False}]).exit_code == 1


def test_without_a_key_a_task_may_stand_further_back_and_says_so(tmp_path: Path) -> None:
    env, cpu = Env("pred", "wake"), ReadyQueue()
    for tid in (2, 3):
        cpu.insert(Task(tid), env)
    values = _object(1, env, Task(9, True, mes=2048), cpu, 2)
    values |= {"position": 1, "overtaken": [3, 2], "preempt": False, "bounded": False, "gap": True}
    result = replay(tmp_path, [values])
    assert result.exit_code == 0 and "1 without a key" in result.output, result.output
    assert replay(tmp_path, [values | {"gap": False}]).exit_code == 1
    assert replay(tmp_path, [values | {"overtaken": [3]}]).exit_code == 1, "the others are still as the rule says"


def test_cpus_are_followed_apart_and_steals_are_no_disorder(tmp_path: Path) -> None:
    objects = recording("pred")
    j = _busy(objects)
    _jumps_the_queue(objects, j)
    other = copy.deepcopy(objects[0]) | {"cpu": 1, "queue": [], "position": 0, "overtaken": []}
    result = replay(tmp_path, [other, *objects])
    assert "dispatch out of order" not in result.output
    assert "1 left from the middle" in result.output


def test_fewer_than_asked_for(tmp_path: Path) -> None:
    result = replay(tmp_path, recording("fifo", 5), "--at-least", "6")
    assert result.exit_code == 3
    assert "5 decisions are fewer than the 6" in result.output


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"cpu": 0}\n', "a decision without 'rule'"),
        ('{"cpu"\n', "line 1 is not JSON"),
        ("\x05\x00\x00\x00half", "5 bytes cannot be"),
    ],
)
def test_what_is_not_a_recording(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "decisions"
    path.write_text(text)
    result = CliRunner().invoke(main, [str(path)])
    assert result.exit_code == 2
    assert words in result.output


def _put(out: Any, values: Object) -> None:
    out.tid, out.comm = values["tid"], values["comm"].encode()
    out.t.flags = 1 * values["parallel"] | 2 * values["credit"] | 16 * values["passed"] | 32 * values["turn"]
    out.t.mes = round(values["mes"] * MES_ONE)
    for name in ("de", "com", "rec", "flt", "cpu_ns"):
        setattr(out.t, name, values[name])


def _raw(values: Object) -> bytes:
    """The object as the kernel writes it."""
    record: Any = ffi.new("struct decision *")
    flags = ("preempt", "truncated", "bounded", "running", "overloaded", "gap", "jobs_window", "turns")
    record.flags = sum(1 << bit for bit, name in enumerate(flags) if values[name])
    for name in ("ns", "seq", "cpu", "position", "mnol", "mnod", "walk_max", "from"):
        setattr(record, name, values[name])
    record.rule, record.cause = RULE_NAMES.index(values["rule"]), CAUSE_NAMES.index(values["cause"])
    record.share_ns = round(values["share_ms"] * 1e6)
    record.nr_overtaken, record.nr = len(values["overtaken"]), len(values["queue"])
    for j, tid in enumerate(values["overtaken"]):
        record.overtaken[j] = tid
    for j, task in enumerate(values["queue"]):
        _put(record.queue[j], task)
    _put(record.task, values["task"])
    if values["running"]:
        _put(record.running, values["running"])
    size = ffi.offsetof("struct decision", "queue") + record.nr * ffi.sizeof("struct trace_task")
    return bytes(ffi.buffer(record, size))


def test_raw_records(tmp_path: Path) -> None:
    objects = recording("ccs")
    trace.write_file(tmp_path / "right.bin", map(_raw, objects))
    result = CliRunner().invoke(main, [str(tmp_path / "right.bin")])
    assert result.exit_code == 0, result.output
    assert "replay: 300 decisions" in result.output
    _moved(objects, _busy(objects))
    trace.write_file(tmp_path / "wrong.bin", map(_raw, objects))
    assert CliRunner().invoke(main, [str(tmp_path / "wrong.bin")]).exit_code == 1


def _in_windows(objects: list[Object]) -> list[Object]:
    return [one for one in objects if one["cause"] == WINDOW]


def test_what_leaves_in_a_window(tmp_path: Path) -> None:
    objects = recording("csm", windows=True)
    result = replay(tmp_path, objects)
    assert result.exit_code == 0 and f"{len(_in_windows(objects))} in windows" in result.output, result.output
    assert f", {sum(one['turns'] for one in _in_windows(objects))} in turns" in result.output
    assert any(one["overtaken"] for one in _in_windows(objects))


_WRONG: tuple[Object, ...] = (
    {"jobs_window": True},
    {"jobs_window": False},
    {"turns": False},
    {"overtaken": []},
    {"overtaken": [1]},
)


@pytest.mark.parametrize("wrong", _WRONG)
def test_a_window_that_is_not_kept(tmp_path: Path, wrong: Object) -> None:
    objects = recording("csm", windows=True)
    for one in _in_windows(objects):
        one.update(wrong)
    assert replay(tmp_path, objects).exit_code == 1


def test_the_kernels_names_are_the_references() -> None:
    assert (RULES, (*CAUSES, PUT_BACK, WINDOW)) == (RULE_NAMES, CAUSE_NAMES)


def test_a_stolen_task_brings_its_de_from_a_cpu_with_another_mno(tmp_path: Path) -> None:
    objects = recording("pred")
    _exceeds_mno(objects, _busy(objects))
    assert "above MNO" in replay(tmp_path, objects, "--show", "1000").output
    objects.insert(0, {**objects[0], "cpu": 7, "mnol": 9, "mnod": 9})
    assert "above MNO" not in replay(tmp_path, objects, "--show", "1000").output


def test_behind_lost_records_de_may_date_from_one_of_them(tmp_path: Path) -> None:
    objects = recording("pred")
    place = _busy(objects)
    _exceeds_mno(objects, place)
    assert "above MNO" in replay(tmp_path, objects, "--show", "1000").output
    for one in objects[place + 1 :]:
        one["seq"] += 5
    output = replay(tmp_path, objects, "--show", "1000").output
    assert "above MNO" not in output and "5 lost" in output
