# SPDX-License-Identifier: GPL-2.0-or-later
"""The queue of policy `fit`: order, turns, needs, and jobs that wait outside."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ctl.contract import JobFacts, NodeFacts, Wish
from ctl.errors import CoschedError
from ctl.jobs.fit import PASSES
from ctl.jobs.history import History
from ctl.jobs.queue import LEASE, WAITING, Queue

MB = 1 << 20


def stopped(queue: Queue, at: float, room: int, turn_s: float = 0, **sizes: int) -> list[str]:
    """The stopped jobs, by name; sizes and room in MiB."""
    return [jid for jid, _ in queue.look(at, {jid: size * MB for jid, size in sizes.items()}, room * MB, turn_s)]


def ask(queue: Queue, jid: str, user: str, at: float, **wishes: Any) -> str:
    return queue.ask(Wish(jid, user, **wishes), at)


def states(queue: Queue, at: float = 0) -> dict[str, str]:
    return {row["jid"]: row["state"] for row in queue.rows(at)["jobs"]}


def test_the_one_that_came_later_is_stopped_and_goes_on_when_the_first_has_ended() -> None:
    queue = Queue()
    assert stopped(queue, 0, 60, small=28) == []
    assert stopped(queue, 1, 60, small=28, large=20) == []
    assert stopped(queue, 2, 60, small=28, large=40) == ["large"]
    assert queue.why("large") == "needs 40 MiB, 32 are free; after small"
    assert stopped(queue, 3, 60, small=28, large=1) == ["large"], "its need is its largest, and not what is left of it"
    assert stopped(queue, 4, 60, large=1) == []


def test_a_need_that_grows_stops_those_who_came_later_only() -> None:
    queue = Queue()
    assert stopped(queue, 0, 60, a=10, b=10, c=10) == []
    assert stopped(queue, 1, 60, a=45, b=10, c=10) == ["c"]
    assert stopped(queue, 2, 60, a=55, b=10, c=10) == ["b", "c"]


def test_a_job_that_outgrows_the_room_waits_for_those_that_fit_but_not_for_ever() -> None:
    queue = Queue()
    assert stopped(queue, 0, 60, 30, a=50, b=20) == ["b"]
    assert stopped(queue, 1, 60, 30, a=70, b=20) == ["b"]
    assert [stopped(queue, at, 60, 30, a=70, b=20) for at in (30, 60, 90, 119)] == [["a"]] * 4
    assert [stopped(queue, at, 60, 30, a=70, b=20) for at in (120, 121, 149)] == [["b"]] * 3, "its own turn"
    assert stopped(queue, 150, 60, 30, a=70, b=20) == ["a"]
    assert stopped(queue, 151, 60, 30, a=70) == [], "nobody else could use the memory"


def test_turns() -> None:
    """They end when their length divides the time."""
    queue = Queue()
    assert stopped(queue, 0, 60, 30, a=40, b=40) == ["b"]
    assert stopped(queue, 1, 60, 30, a=40, b=40) == ["b"]
    assert queue.rows(11)["turn_left_s"] == 19
    assert queue.due(11) == 30
    assert stopped(queue, 29.9, 60, 30, a=40, b=40) == ["b"]
    assert [jid for jid, _ in queue.decide(30)] == ["a"]
    assert stopped(queue, 35, 60, 30, a=40, b=40) == ["a"]
    assert stopped(queue, 61, 60, 30, a=40, b=40) == ["b"]
    assert queue.rows(61)["turns"] == 2
    assert stopped(queue, 62, 60, 30, b=40) == []
    assert (queue.rows(62)["turn_left_s"], queue.due(62)) == (None, None)


def test_a_job_that_began_late_in_a_turn_keeps_its_memory_for_the_next() -> None:
    queue = Queue()
    assert stopped(queue, 20, 60, 30, a=40, b=40) == ["b"]
    assert stopped(queue, 30, 60, 30, a=40, b=40) == ["b"], "a has run for 10 s"
    assert stopped(queue, 60, 60, 30, a=40, b=40) == ["a"]


def test_a_turn_counts_from_when_somebody_waits() -> None:
    """What a job had before, it took from nobody."""
    queue = Queue()
    for at in (0, 30, 60, 90):
        assert stopped(queue, at, 60, 30, a=20, b=20) == []
    assert stopped(queue, 110, 60, 30, a=40, b=40) == ["b"]
    assert stopped(queue, 120, 60, 30, a=40, b=40) == ["b"], "a has kept b out for 10 s"
    assert stopped(queue, 150, 60, 30, a=40, b=40) == ["a"]


def test_who_waits_again_and_again_gets_the_turn_all_the_same() -> None:
    queue = Queue()
    assert stopped(queue, 0, 60, 30, a=40, b=40) == ["b"]
    for at in range(1, 30):
        assert stopped(queue, at, 60 if at % 10 else 80, 30, a=40, b=40) == (["b"] if at % 10 else [])
    assert stopped(queue, 30, 60, 30, a=40, b=40) == ["a"]


def test_a_job_that_comes_is_behind_those_that_wait_and_before_none_that_came_earlier() -> None:
    queue = Queue()
    assert stopped(queue, 0, 60, 30, a=40, b=40) == ["b"]
    assert stopped(queue, 30, 60, 30, a=40, b=40) == ["a"]
    assert stopped(queue, 31, 60, 30, a=40, b=40, c=40) == ["a", "c"]
    assert stopped(queue, 60, 60, 30, a=40, b=40, c=40) == ["c", "b"]


def test_without_turns_a_job_runs_to_its_end() -> None:
    queue = Queue()
    assert [stopped(queue, at, 60, 0, a=40, b=40) for at in range(0, 1000, 100)] == [["b"]] * 10


def test_a_job_waits_before_it_begins() -> None:
    queue = Queue()
    stopped(queue, 0, 60, a=40)
    assert ask(queue, "b", "eve", 1, need=30 * MB) == "needs 30 MiB, 20 are free; after a"
    assert states(queue) == {"a": "runs", "b": "waits"}
    assert stopped(queue, 2, 60, a=40) == [], "it has no process to be stopped"
    assert ask(queue, "b", "eve", 3, need=30 * MB, again=True)
    stopped(queue, 4, 60)
    assert ask(queue, "b", "eve", 5, need=30 * MB, again=True) == ""
    assert stopped(queue, 6, 60, b=1) == []
    assert queue.rows(6)["jobs"][0]["need"] == 30 * MB, "as declared, before its ranks have touched it"
    assert ask(queue, "b", "eve", 7, need=99 * MB) == "", "a process more of a job that is here"


def test_a_command_that_gave_up_leaves_nothing() -> None:
    queue = Queue()
    stopped(queue, 0, 60, a=40)
    assert ask(queue, "b", "eve", 1, need=30 * MB)
    stopped(queue, 1 + LEASE + 0.1, 60, a=40)
    assert states(queue) == {"a": "runs"}


def test_now_waits_for_nobody() -> None:
    queue = Queue()
    stopped(queue, 0, 60, a=40)
    assert ask(queue, "b", "eve", 1, need=30 * MB, now=True) == ""


def test_whose_a_waiting_job_is() -> None:
    queue = Queue()
    stopped(queue, 0, 60, a=40)
    ask(queue, "b", "eve", 1, need=30 * MB)
    assert (queue.user("b"), queue.user("a"), queue.user("c")) == ("eve", None, None)
    with pytest.raises(CoschedError, match="waits for user eve, not for bob"):
        ask(queue, "b", "bob", 1, need=30 * MB)


def test_a_user_may_have_so_many_waiting_and_no_more() -> None:
    queue = Queue()
    stopped(queue, 0, 60, a=40)
    for i in range(WAITING):
        assert ask(queue, f"b{i}", "eve", 1, need=30 * MB)
    with pytest.raises(CoschedError, match=f"user eve has {WAITING} jobs that wait here, .* start job c when"):
        ask(queue, "c", "eve", 2, need=30 * MB)
    assert queue.user("c") is None and "c" not in states(queue)
    assert ask(queue, "b0", "eve", 2, need=30 * MB, again=True), "those that wait already go on waiting"
    assert ask(queue, "small", "eve", 2, need=MB) == "", "one that need not wait begins"
    assert ask(queue, "d", "bob", 2, need=30 * MB), "another user's"
    queue.cancel("b1")
    assert ask(queue, "c", "eve", 3, need=30 * MB)


def test_cancelled() -> None:
    queue = Queue()
    stopped(queue, 0, 60, a=40)
    ask(queue, "b", "eve", 1, need=30 * MB)
    assert (queue.cancel("b"), queue.cancel("a"), queue.cancel("c")) == (True, False, False)
    with pytest.raises(CoschedError, match="job b was cancelled while it waited"):
        ask(queue, "b", "eve", 1.5, need=30 * MB, again=True)
    assert ask(queue, "b", "eve", 2, need=30 * MB), "a new command of this name"
    queue.cancel("b")
    stopped(queue, 5000, 60, a=40)
    assert not queue._cancelled, "not known for ever"


def test_nobody_is_passed_more_than_fifteen_times() -> None:
    """PP-20."""
    queue = Queue()
    stopped(queue, 0, 60, a=40)
    ask(queue, "big", "eve", 0, need=50 * MB)
    here: dict[str, int] = {"a": 40}
    for number in range(PASSES + 5):
        at = number / 100
        ask(queue, "big", "eve", at, need=50 * MB, again=True)
        if ask(queue, f"s{number}", "eve", at, need=10 * MB) == "":
            stopped(queue, at, 60, **here, **{f"s{number}": 10})
            stopped(queue, at, 60, **here)  # a short job
    passed = {row["jid"]: row for row in queue.rows(1)["jobs"]}
    assert passed["big"]["passed"] == PASSES
    assert passed["s16"]["why"].startswith("job big was passed 15 times and is next")


def test_everybody_gets_a_turn_whatever_comes_and_goes() -> None:
    """Of jobs that stay, none waits longer than one turn for each job before it; and what runs fits, or is alone."""
    draw = random.Random(5)
    for _ in range(300):
        queue, room = Queue(), 60
        sizes = {f"j{i}": draw.randrange(1, 80) for i in range(draw.randrange(1, 7))}
        ran: dict[str, int] = dict.fromkeys(sizes, 0)
        for at in range(0, 20 * 30 * (len(sizes) + 1), 30):
            out = stopped(queue, at, room, 30, **sizes)
            running = [jid for jid in sizes if jid not in out]
            assert len(running) == 1 or sum(sizes[jid] for jid in running) <= room
            for jid in running:
                ran[jid] += 1
        assert min(ran.values()) >= 15, (sizes, ran)


def test_a_program_is_known_the_second_time(tmp_path: Path) -> None:
    queue = Queue(history=History(tmp_path / "history"))
    stopped(queue, 0, 60)
    assert ask(queue, "one", "eve", 0, program="/bin/sim") == ""
    assert stopped(queue, 1, 60, one=40) == []
    assert stopped(queue, 2, 60, one=5) == []
    assert stopped(queue, 3, 60, other=30) == []
    assert ask(queue, "two", "eve", 4, program="/bin/sim") == "needs 40 MiB, 30 are free; after other"
    assert ask(queue, "three", "eve", 4, program="/bin/sim", need=20 * MB) == "", "its owner knows better"
    assert ask(queue, "four", "eve", 4, program="/bin/else") == "", "of which nothing is known"
    assert ask(queue, "five", "eve", 4, program="/bin/sim", static=MB).startswith("needs 40 MiB, 10 are free")


def test_two_ranks_on_this_node_and_later_four(tmp_path: Path) -> None:
    """What it gets by with goes into the history, and changes no need: a squeezed job must not seem to fit."""
    history = History(tmp_path / "history")
    queue = Queue(history=history)
    assert ask(queue, "one", "eve", 0, program="/bin/sim") == ""
    queue.notice("one", 30 * MB, 2)
    assert stopped(queue, 1, 60, one=40, other=30) == ["other"]
    queue.notice("one", 10 * MB, 1)
    queue.notice("none", MB, 1)
    assert stopped(queue, 2, 60, one=40, other=30) == ["other"]
    assert stopped(queue, 3, 60, other=30) == []
    (row,) = queue.history()
    assert (row["ranks"], row["most"], row["working"]) == (2, 40 * MB, 30 * MB)
    assert ask(queue, "two", "eve", 4, program="/bin/sim", ranks=4) == "needs 80 MiB, 30 are free; after other"
    assert ask(queue, "three", "eve", 4, program="/bin/sim", ranks=1) == "", "20 MiB"
    why = ask(queue, "four", "eve", 4, program="/bin/else", static=4 * MB, ranks=3)
    assert why == "needs 12 MiB, 10 are free; after other, three"


def test_no_job_gets_by_with_more_than_it_ever_had(tmp_path: Path) -> None:
    """Working set and peak come from different looks."""
    queue = Queue(history=History(tmp_path / "history"))
    assert ask(queue, "one", "eve", 0, program="/bin/sim") == ""
    queue.notice("one", 45 * MB, 1)
    stopped(queue, 1, 60, one=40)
    stopped(queue, 2, 60)
    (row,) = queue.history()
    assert row["working"] == row["most"] == 40 * MB


def test_nonsense_of_users_stays_a_size() -> None:
    queue = Queue()
    stopped(queue, 0, 60, a=1)
    ask(queue, "b", "eve", 1, static=1 << 62, ranks=1 << 16)
    assert queue.facts().jobs[1].need == 1 << 50


def test_before_there_is_a_history_the_program_itself_tells_its_least() -> None:
    """ParPar §2.2."""
    queue = Queue()
    stopped(queue, 0, 60, a=40)
    assert ask(queue, "b", "eve", 1, program="/bin/sim", static=30 * MB) == "needs 30 MiB, 20 are free; after a"
    assert ask(queue, "c", "eve", 1, program="/bin/sim", static=30 * MB, need=20 * MB) == "", "its owner knows better"
    assert ask(queue, "d", "eve", 1, static=1) == "no memory is free; after a, c"
    assert stopped(queue, 2, 90, a=40, b=35) == []
    assert {row["jid"]: row["need"] >> 20 for row in queue.rows(2)["jobs"]}["b"] == 35, "what it has had is more"


def test_a_job_of_slurm_is_stopped_at_its_start_by_what_it_asked_for(tmp_path: Path) -> None:
    """It has processes already, so it cannot wait outside; what it asked for counts until there is a history."""
    queue = Queue(history=History(tmp_path / "history"))
    assert stopped(queue, 0, 60, a=40) == []
    queue.meet(Wish("7", "eve", "slurm:sim", static=MB, requested=30 * MB), 1)
    assert stopped(queue, 1, 60, a=40, **{"7": 0}) == ["7"]
    assert queue.why("7") == "needs 30 MiB, 20 are free; after a"
    assert stopped(queue, 2, 60, **{"7": 10}) == []
    assert stopped(queue, 3, 60, a=40) == []
    queue.meet(Wish("8", "eve", "slurm:sim", requested=30 * MB), 4)
    assert stopped(queue, 4, 60, a=40, **{"8": 0}) == [], "the last time it took 10"
    assert ask(queue, "9", "bob", 5, need=30 * MB)
    queue.meet(Wish("9", "eve", requested=1), 5)
    assert queue.user("9") == "bob", "a command of this name waits"


def turns(queue: Queue, begin: float, count: int) -> list[list[str]]:
    """Who is stopped in so many turns of 30 s; two jobs of which one fits."""
    return [stopped(queue, begin + 30 * turn, 60, 30, a=40, b=40) for turn in range(count)]


def test_turns_go_on_when_a_clock_was_ahead_for_a_while() -> None:
    """The turn that ended then, and jobs that began to run or went behind then, are in the future for a day."""
    queue = Queue()
    assert turns(queue, 0, 3) == [["b"], ["a"], ["b"]]
    assert turns(queue, 86400, 2) == [["a"], ["b"]]
    assert turns(queue, 90, 4) in ([["a"], ["b"]] * 2, [["b"], ["a"]] * 2)


def test_a_turn_that_the_others_do_not_know_of_is_forgotten_when_the_clock_is_set_back() -> None:
    queue = Queue("n1")
    facts = JobFacts("a", 40 * MB, 1, runs=True), JobFacts("b", 40 * MB, 2)
    queue.hear({"n2": NodeFacts(60 * MB, 30.0, facts)})
    assert [stopped(queue, at, 60, 30, b=40) for at in (5, 31)] == [["b"], []], "its clock is 30 s ahead"
    assert stopped(queue, 1, 60, 30, b=40) == ["b"], "as on n2"


def test_a_wait_that_two_nodes_see_on_two_sides_of_a_turn_s_end_leaves_one_order() -> None:
    one, two = Queue("n1"), Queue("n2")
    for name, queue, other in (("n1", one, two), ("n2", two, one), ("n1", one, two)):
        other.hear({name: queue.facts()})
        assert stopped(queue, 65, 60, 30, a=40) == []
        queue.arrived({"a": 1})
    assert ask(one, "b", "eve", 119, need=40 * MB), "nobody waited before: the order of arrival"
    one.arrived({"b": 2})
    two.hear({"n1": one.facts()})
    two.decide(121)
    one.hear({"n2": two.facts()})
    one.decide(121)
    assert one.order() == two.order() == ["a", "b"], "a came first, and has its memory"


def test_who_asked_before_the_clock_was_set_back_is_forgotten_as_soon_as_ever() -> None:
    queue = Queue()
    ask(queue, "a", "eve", 86400)
    assert states(queue) == {"a": "runs"}
    queue.decide(10)
    queue.decide(10 + LEASE + 1)
    assert states(queue) == {}


def test_a_job_whose_command_has_ended_needs_what_it_has() -> None:
    queue = Queue()
    queue.meet(Wish("a", "", need=50 * MB), 0)
    assert stopped(queue, 0, 60, a=20) == []
    assert ask(queue, "b", "u", 1, need=30 * MB) == "needs 30 MiB, 10 are free; after a"
    queue.linger("a", True)
    assert stopped(queue, 2, 60, a=5) == []
    assert ask(queue, "b", "u", 2, need=30 * MB, again=True) == ""
    queue.linger("nobody", True)
    queue.linger("a", False)
    assert stopped(queue, 3, 60, a=5) == []
    assert next(row["need"] for row in queue.rows(3)["jobs"]) == 50 * MB, "another command has joined it"


def test_what_stays_of_a_job_is_in_its_need_and_in_the_room_for_people() -> None:
    """The room that the rule has is beside what stays: a job of 50 of which 10 stay costs 40 of it more."""
    queue = Queue()
    sizes = {"a": 50 * MB, "b": 30 * MB}
    assert [jid for jid, _ in queue.look(0, sizes, 45 * MB, stays={"a": 10 * MB, "b": 5 * MB})] == ["b"]
    assert queue.why("b") == "needs 25 MiB, 5 are free; after a"
    found = queue.rows(0)
    assert (found["room"], found["rooms"]) == (60 * MB, {"here": 60 * MB})
    assert [(row["need"], row["stays"]) for row in found["jobs"]] == [(50 * MB, 10 * MB), (30 * MB, 5 * MB)]
    assert queue.look(1, sizes, 40 * MB, stays={"a": 10 * MB, "b": 30 * MB}) == [], "its stop frees nothing"


def test_a_peak_is_no_reason_for_a_stop_that_frees_nothing_but_much_that_is_to_come_is() -> None:
    queue, all_of_it = Queue(), {"a": 116 * MB, "b": 116 * MB}
    stopped(queue, 0, 400, a=120, b=118)
    assert queue.look(1, all_of_it, 0, stays=all_of_it) == [], "2 MiB more, which b had once, are not there"
    queue.meet(Wish("b", "eve", need=120 * MB), 2)
    assert queue.look(2, all_of_it, 0, stays=all_of_it) == [], "nor 4 that it was declared to have"
    queue.meet(Wish("b", "eve", need=300 * MB), 3)
    assert [jid for jid, _ in queue.look(3, all_of_it, 100 * MB, stays=all_of_it)] == ["b"], "it is stopped small"
