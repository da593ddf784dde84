# SPDX-License-Identifier: GPL-2.0-or-later
"""Policy `fit`: people are told of a job whose node has too little memory while another node has room."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ctl.contract import JobFacts, NodeFacts, Wish
from ctl.jobs.elsewhere import elsewhere
from ctl.jobs.order import Known
from ctl.jobs.queue import Queue
from tests.unit.jobs.test_queue import MB, ask, stopped

ROOMS = st.dictionaries(st.sampled_from(("n2", "n3", "n4")), st.integers(0, 120), max_size=3)
SIZES = st.lists(st.integers(0, 100), min_size=1, max_size=4)
TAKEN = st.lists(st.tuples(st.sampled_from(("n2", "n3", "n4")), st.integers(1, 60)), max_size=4)


def beside(**rooms: int) -> Queue:
    """The queue of n1, beside nodes with so much room, MiB, and no jobs."""
    queue = Queue("n1")
    queue.hear({node: NodeFacts(room * MB, 0, ()) for node, room in rooms.items()})
    return queue


def test_a_job_that_has_begun_and_is_stopped() -> None:
    queue = Queue("n1")
    queue.hear({"n2": NodeFacts(90 * MB, 0, (JobFacts("x", 30 * MB, runs=True),)), "n3": NodeFacts(50 * MB, 0, ())})
    assert stopped(queue, 0, 60, a=40, b=40) == ["b"]
    assert queue.why("b") == (
        "needs 40 MiB on n1, 20 are free; after a, x; n2 has 60 MiB free: after `ctl cancel b`, "
        "`ctl run --memory 40M --nodes 1 --by free` starts it there anew"
    )
    assert stopped(queue, 1, 60, a=40, b=70) == ["b"]
    assert queue.why("b") == "needs 70 MiB on n1, 20 are free; after a, x"


def test_a_job_that_waits_outside() -> None:
    queue = beside(n2=90)
    stopped(queue, 0, 60, a=40)
    assert ask(queue, "b", "eve", 1, need=30 * MB + 1) == (
        "needs 31 MiB on n1, 20 are free; after a; n2 has 90 MiB free: after `ctl cancel b`, "
        "`ctl run --memory 31M --nodes 1 --by free` starts it there, if it is for one node"
    )
    assert queue.place(1, 31 * MB, "free") == ["n2"], "the way leads there"


def test_a_job_that_runs_and_outgrew_its_whole_node() -> None:
    """It runs, and pages, because no other job could use the memory: nothing stops it, so the queue tells."""
    queue = beside(n2=90)
    assert stopped(queue, 0, 60, a=50) == []
    assert (queue.outgrown(), queue.rows(0)["jobs"][0]["why"]) == ([], "")
    assert stopped(queue, 1, 60, a=70) == []
    why = (
        "needs 70 MiB on n1, which has 60 for jobs; n2 has 90 MiB free: after `ctl cancel a`, "
        "`ctl run --memory 70M --nodes 1 --by free` starts it there anew"
    )
    (row,) = queue.rows(1)["jobs"]
    assert (row["state"], row["why"], queue.outgrown()) == ("runs", why, [("a", why)])
    assert queue.why("a") == "", "it does not wait"
    assert stopped(queue, 2, 60, a=91) == []
    assert (queue.outgrown(), queue.rows(2)["jobs"][0]["why"]) == ([], ""), "n2 is too small, too"


def test_only_the_node_that_has_the_job_tells() -> None:
    queue = beside(n3=90)
    queue.hear({"n2": NodeFacts(60 * MB, 0, (JobFacts("a", 70 * MB, runs=True),)), "n3": NodeFacts(90 * MB, 0, ())})
    stopped(queue, 0, 60)
    assert queue.rows(0)["jobs"][0]["why"].startswith("needs 70 MiB on n2, which has 60 for jobs; n3 has 90 MiB free")
    assert queue.outgrown() == []


@given(st.integers(1, 120), ROOMS, SIZES, TAKEN, st.booleans())
def test_a_node_is_named_if_and_only_if_the_job_would_fit_there_beside_all_others(
    room: int, rooms: dict[str, int], sizes: list[int], taken: list[tuple[str, int]], asks: bool
) -> None:
    queue, others = Queue("n1"), [(node, need) for node, need in taken if node in rooms]
    there = {
        node: tuple(JobFacts(f"x{place}", need * MB) for place, (where, need) in enumerate(others) if where == node)
        for node in rooms
    }
    queue.hear({node: NodeFacts(most * MB, 0, there[node]) for node, most in rooms.items()})
    queue.look(0, {f"j{place}": size * MB for place, size in enumerate(sizes)}, room * MB)
    if asks:
        queue.ask(Wish("late", "eve", need=50 * MB), 0)
    free = {node: most - sum(need for where, need in others if where == node) for node, most in rooms.items()}
    for row in queue.rows(0)["jobs"]:
        if "n1" not in row["needs"]:
            continue
        need = row["needs"]["n1"] // MB
        short = row["state"] != "runs" or need > room
        found = [node for node in free if f"; {node} has {free[node]} MiB free: after" in row["why"]]
        assert bool(found) == (short and need > 0 and any(need <= most for most in free.values())), (row, free)
        assert all(free[node] == max(free.values()) for node in found)


def test_its_own_node_is_no_other() -> None:
    """It may have room, and the job waits all the same: behind one that nobody may pass any more."""
    assert elsewhere(Known("b", {"n1": 10 * MB}), {"n1": 50 * MB}) == ""
