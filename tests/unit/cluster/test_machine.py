# SPDX-License-Identifier: GPL-2.0-or-later
"""The event state machine, one rule at a time; test_cluster_any_order.py tries them all in any order."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ctl.cluster.events import LEASE, MAX_LEASE, Event, Kind
from ctl.cluster.machine import Machine, Verdict
from ctl.contract import Decision, State


def said(node: str, seq: int, jid: str = "7", incarnation: int = 1, **others: object) -> Event:
    """An event of another node; local and stop are false unless given."""
    local, stop = bool(others.get("local", False)), bool(others.get("stop", False))
    kind = Kind.STOP if stop else Kind.LOCAL_U if local else Kind.NO_LOCAL
    lease = others.get("lease", LEASE)
    assert isinstance(lease, float)
    return Event(node, incarnation, seq, jid, kind, local, stop, lease, str(others.get("why", "")))


def holding(*jids: str) -> Machine:
    """A node n1 that holds these jobs, and has said so."""
    machine = Machine("n1", incarnation=1)
    for jid in jids:
        machine.hold(jid, 0.0)
    machine.events()
    machine.decisions()
    return machine


def state(machine: Machine, jid: str = "7") -> State:
    decision = machine.decision(jid)
    assert decision is not None
    return decision.state


def pass_on(machines: Iterable[Machine], now: float) -> list[Event]:
    """Deliver all messages to all nodes until no node has an event to send; returns the sent messages."""
    sent: list[Event] = []
    machines = list(machines)
    while waiting := [event for machine in machines for event in machine.events()]:
        assert len(sent) < 1000, "they never stop talking"
        sent += waiting
        for event in waiting:
            for machine in machines:
                if machine.node != event.node:
                    machine.receive(event, now)
    return sent


def test_a_local_user_elsewhere_slows_the_job_down_and_none_lets_it_run() -> None:
    machine = holding("7")
    assert machine.receive(said("n2", 1, local=True, why="keyboard"), 0.0) is Verdict.TAKEN
    assert machine.decisions() == [Decision("7", State.SLOWED, ("n2",), "local user on n2 (keyboard)")]
    machine.receive(said("n3", 1, local=True), 0.0)
    machine.receive(said("n2", 2), 0.0)
    assert machine.decision("7") == Decision("7", State.SLOWED, ("n3",), "local user on n3")
    machine.receive(said("n3", 2), 0.0)
    assert machine.decision("7") == Decision("7", State.FREE)


def test_a_resume_of_one_node_leaves_what_the_others_said() -> None:
    """B-CCS-13: stopped while anybody has stopped it, else slowed while anybody has a local user, else free."""
    machine = holding("7")
    machine.receive(said("n2", 1, stop=True, why="memory"), 0.0)
    machine.receive(said("n3", 1, stop=True), 0.0)
    machine.receive(said("n4", 1, local=True), 0.0)
    assert machine.decision("7") == Decision("7", State.STOPPED, ("n2", "n3"), "stopped by n2 (memory), n3")
    machine.receive(said("n2", 2), 0.0)
    assert state(machine) is State.STOPPED
    machine.receive(said("n3", 2), 0.0)
    assert state(machine) is State.SLOWED
    machine.receive(said("n4", 2), 0.0)
    assert state(machine) is State.FREE


@pytest.mark.parametrize("again", [(1, 1), (1, 5), (0, 9)])
def test_what_is_not_newer_changes_nothing(again: tuple[int, int]) -> None:
    """Repeated, overtaken, and of an agent that ended: (incarnation, seq) must grow."""
    machine = holding("7")
    machine.receive(said("n2", 5, local=True), 0.0)
    incarnation, seq = again
    assert machine.receive(said("n2", seq, incarnation=incarnation, stop=True), 0.0) is Verdict.REPLAYED
    assert state(machine) is State.SLOWED


def test_one_word_of_a_new_incarnation_takes_back_all_of_the_old() -> None:
    machine = holding("7", "8")
    machine.receive(said("n2", 50, "7", stop=True), 0.0)
    machine.receive(said("n2", 51, "8", local=True), 0.0)
    machine.receive(said("n2", 1, "8", incarnation=2), 0.0)
    assert (state(machine, "7"), state(machine, "8")) == (State.FREE, State.FREE)
    assert machine.receive(said("n2", 52, "7", stop=True), 0.0) is Verdict.REPLAYED


def test_a_stop_ends_with_its_lease() -> None:
    machine = holding("7")
    machine.receive(said("n2", 1, stop=True), 100.0)
    assert machine.due() <= 100.0 + LEASE
    machine.tick(100.0 + LEASE - 0.01)
    assert state(machine) is State.STOPPED
    machine.tick(100.0 + LEASE)
    assert state(machine) is State.FREE


def test_nobody_stops_a_job_for_longer_than_the_longest_lease() -> None:
    machine = holding("7")
    machine.receive(said("n2", 1, stop=True, lease=1e9), 0.0)
    machine.tick(MAX_LEASE)
    assert state(machine) is State.FREE


def test_a_stop_is_said_again_in_time_and_a_lease_renewed() -> None:
    one, two = Machine("n1", 1), Machine("n2", 1)
    for machine in (one, two):
        machine.hold("7", 0.0)
    one.stops([("7", "memory")], 0.0)
    pass_on((one, two), 0.0)
    for tenth in range(10 * 5 * int(LEASE)):
        one.tick(tenth / 10)
        two.tick(tenth / 10)
        if tenth % 29 != 0:  # now and then one is lost
            pass_on((one, two), tenth / 10)
        else:
            one.events()
        assert state(two) is State.STOPPED


def test_silence_once_nothing_is_the_matter() -> None:
    machine = Machine("n1", 1)
    machine.hold("7", 0.0)
    for second in range(60):
        machine.tick(float(second))
    assert len(machine.events()) == 3
    assert machine.due() == float("inf")


def test_what_happens_here_is_told_as_the_papers_events() -> None:
    machine = holding("7")
    machine.local_user("keyboard", 1.0)
    machine.stops([("7", "memory")], 2.0)
    machine.stops([], 3.0)
    machine.local_user("", 4.0)
    assert [event.kind for event in machine.events()] == [Kind.LOCAL_U, Kind.STOP, Kind.RESUME, Kind.NO_LOCAL]


def test_a_job_that_comes_to_a_local_user_is_announced_as_such() -> None:
    """CCS §4.3: LOCAL_U also when a task is mapped on a node with a local user, NO_LOCAL when it ends there."""
    machine = holding()
    machine.local_user("keyboard", 0.0)
    assert machine.events() == []
    machine.hold("7", 1.0)
    assert [(event.kind, event.local) for event in machine.events()] == [(Kind.LOCAL_U, True)]
    machine.release("7", 2.0)
    assert [(event.kind, event.local) for event in machine.events()] == [(Kind.NO_LOCAL, False)]


def test_a_stopped_job_that_ends_here_resumes_elsewhere() -> None:
    one, two = Machine("n1", 1), Machine("n2", 1)
    for machine in (one, two):
        machine.hold("7", 0.0)
    one.stops([("7", "memory")], 0.0)
    pass_on((one, two), 0.0)
    assert state(two) is State.STOPPED
    one.release("7", 1.0)
    pass_on((one, two), 1.0)
    assert state(two) is State.FREE


def test_a_node_that_lets_go_of_a_job_has_no_say_in_it() -> None:
    machine = holding("7")
    machine.receive(said("n2", 1, stop=True), 0.0)
    machine.gone("n2", "7", 0.0)
    assert state(machine) is State.FREE
    assert machine.receive(said("n2", 1, stop=True), 0.0) is Verdict.REPLAYED


def test_own_name_and_jobs_not_held_are_refused() -> None:
    machine = holding("7")
    assert machine.receive(said("n1", 99, stop=True), 0.0) is Verdict.OWN_NAME
    assert machine.receive(said("n2", 1, "8", stop=True), 0.0) is Verdict.NOT_HELD
    machine.stops([("8", "no such job here")], 0.0)
    assert machine.events() == []
    assert state(machine) is State.FREE


def test_many_questions_get_one_answer() -> None:
    machine = holding("7")
    for _ in range(100):
        machine.asked("7", 5.0)
    machine.tick(5.0)
    for _ in range(100):
        machine.asked("7", 5.1)
    machine.tick(5.15)
    assert len(machine.events()) == 1
    machine.tick(5.2)
    assert len(machine.events()) == 1


def test_ccs_43_crossing_stops_stop_the_lowest_jid_on_both() -> None:
    """CCS-43: N_j and N_k stop different jobs at once; the lowest JID is stopped on both, the other runs."""
    one, two = Machine("n1", 1), Machine("n2", 1)
    for machine in (one, two):
        machine.hold("10", 0.0)
        machine.hold("9", 0.0)
    pass_on((one, two), 0.0)
    one.stops([("10", "memory")], 1.0)
    two.stops([("9", "memory")], 1.0)  # before either heard of the other
    pass_on((one, two), 1.0)
    for machine in (one, two):
        assert (state(machine, "9"), state(machine, "10")) == (State.STOPPED, State.FREE)
    free = one.decision("10")
    assert free is not None
    assert "lowest JID" in free.why

    two.stops([], 2.0)  # there is room again on n2, on n1 still not
    pass_on((one, two), 2.0)
    for machine in (one, two):
        assert (state(machine, "9"), state(machine, "10")) == (State.FREE, State.STOPPED)


def test_three_nodes_in_a_circle_settle() -> None:
    """B-CCS-11: each node stops one of two jobs, and no two nodes hold the same pair; pairwise rules chase for ever."""
    nodes = [Machine(name, 1) for name in ("n1", "n2", "n3")]
    jobs = [("1", "2"), ("2", "3"), ("3", "1")]
    for machine, held in zip(nodes, jobs, strict=True):
        for jid in held:
            machine.hold(jid, 0.0)
    for machine, (first, _) in zip(nodes, jobs, strict=True):
        machine.stops([(first, "memory")], 0.0)
    pass_on(nodes, 0.0)
    found = [[state(machine, jid).value for jid in held] for machine, held in zip(nodes, jobs, strict=True)]
    assert found == [["stopped", "stopped"], ["stopped", "free"], ["free", "stopped"]]


def test_who_needs_two_jobs_stopped_counts_those_the_others_stopped() -> None:
    machine = holding("3", "5", "7")
    machine.stops([("5", "memory"), ("7", "memory")], 0.0)
    machine.receive(said("n2", 1, "3", stop=True), 0.0)
    assert [state(machine, jid) for jid in ("3", "5", "7")] == [State.STOPPED, State.STOPPED, State.FREE]


def test_a_stop_given_up_comes_back_when_the_other_is_lost() -> None:
    """Cut off from the others, a node looks after itself."""
    machine = holding("3", "7")
    machine.stops([("7", "memory")], 0.0)
    machine.receive(said("n2", 1, "3", stop=True), 0.0)
    assert state(machine, "7") is State.FREE
    machine.tick(LEASE)
    assert (state(machine, "3"), state(machine, "7")) == (State.FREE, State.STOPPED)
