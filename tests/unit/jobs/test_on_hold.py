# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs on hold in the queue of policy `fit`: no room, no turn, no passes, and nobody waits for them."""

from __future__ import annotations

from ctl.contract import JobFacts, NodeFacts, Wish
from ctl.jobs.queue import Queue

MB = 1 << 20
WHY = "on hold by eve"


def look(queue: Queue, at: float, turn_s: float = 0, **sizes: int) -> dict[str, str]:
    """The jobs that are stopped in a room of 60 MiB, and why; sizes in MiB."""
    return dict(queue.look(at, {jid: size * MB for jid, size in sizes.items()}, 60 * MB, turn_s))


def states(queue: Queue) -> dict[str, str]:
    return {row["jid"]: row["state"] for row in queue.rows(0)["jobs"]}


def test_it_keeps_no_room_from_others() -> None:
    queue = Queue()
    assert list(look(queue, 0, a=40, b=30)) == ["b"]
    queue.on_hold({"a": WHY})
    assert look(queue, 1, a=40, b=30) == {"a": WHY}
    assert states(queue) == {"a": "on_hold", "b": "runs"}
    assert [job.runs for job in queue.facts().jobs] == [False, True]
    assert queue.ask(Wish("c", "eve", need=30 * MB), 2) == "", "what is free, is free for all"
    queue.on_hold({})
    assert "needs 40 MiB" not in look(queue, 3, a=40, b=30).get("a", ""), "its place is the first, and there is room"


def test_it_stops_also_where_there_is_room_for_all() -> None:
    queue = Queue()
    queue.on_hold({"a": WHY})
    assert look(queue, 0, a=10, b=10) == {"a": WHY}
    assert queue.rows(0)["turn_left_s"] is None, "nobody waits"


def test_one_that_waits_outside_does_not_begin() -> None:
    queue = Queue()
    queue.on_hold({"a": WHY})
    assert queue.ask(Wish("a", "eve", need=MB), 0) == WHY
    assert queue.ask(Wish("a", "eve", need=MB, now=True, again=True), 1) == WHY, "its owner's later word counts"
    assert states(queue) == {"a": "on_hold"} and look(queue, 2) == {}
    queue.on_hold({})
    assert queue.ask(Wish("a", "eve", need=MB, again=True), 3) == ""


def test_nobody_is_passed_by_it_and_it_is_passed_by_nobody() -> None:
    queue = Queue()
    look(queue, 0, a=40, b=40)
    queue.on_hold({"a": WHY})
    for number in range(20):
        look(queue, 1 + number, a=40, **{f"j{number}": 40})
    assert next(row["passed"] for row in queue.rows(30)["jobs"] if row["jid"] == "a") == 0


def test_released_it_is_behind_those_that_waited_meanwhile() -> None:
    queue = Queue()
    assert list(look(queue, 1, 30, a=40, b=40, c=40)) == ["b", "c"]
    queue.on_hold({"a": WHY})
    stopped = [list(look(queue, at, 30, a=40, b=40, c=40)) for at in (2, 31, 61, 62)]
    assert stopped == [["a", "c"], ["a", "b"], ["a", "c"], ["a", "c"]], "turns of the others alone"
    queue.on_hold({})
    assert list(look(queue, 64, 30, a=40, b=40, c=40)) == ["a", "c"]
    assert list(look(queue, 91, 30, a=40, b=40, c=40)) == ["c", "b"], "its own turn"


def test_its_memory_is_free_for_those_who_look_for_a_node() -> None:
    queue = Queue("n1")
    queue.hear({"n2": NodeFacts(60 * MB, 0.0, (JobFacts("far", 50 * MB, runs=True),))})
    look(queue, 0, a=40)
    assert queue.place(1, 0, "free") == ["n1"]
    queue.on_hold({"far": WHY})
    look(queue, 1, a=40)
    assert queue.place(1, 0, "free") == ["n2"]
    assert states(queue)["far"] == "on_hold"
