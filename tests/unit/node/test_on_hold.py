# SPDX-License-Identifier: GPL-2.0-or-later
"""What was said last of a job counts, on whichever node, and whoever's clock is wrong; and who may say it."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import pytest

from ctl.contract import NodeFacts, OnHold
from ctl.errors import CoschedError
from ctl.node.authority import Peer
from ctl.node.jobs import SLURM, Job
from ctl.node.on_hold import JobsOnHold
from ctl.node.operations import Operations


class Clock:
    """The time of day."""

    now = 1e9


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "time", lambda: clock.now)
    return clock


def eves(_jid: str) -> str:
    return "eve"


def told(*words: OnHold) -> dict[str, NodeFacts]:
    return {"n2": NodeFacts(0, 0.0, (), on_hold=words, fits=False)}


def test_a_word_is_of_one_job_and_counts_until_the_next(clock: Clock) -> None:
    events = Mock()
    holds = JobsOnHold(events)
    assert not holds and holds.facts(None) is None
    holds.say("a", "eve", True)
    assert (holds.why("a").startswith("on hold by eve since 2001-09-0"), holds.why("b")) == (True, "")
    assert dict(events.call_args.kwargs) | {"at": 0} == {"jid": "a", "action": "hold", "user": "eve", "at": 0}
    holds.say("a", "root", False)
    assert holds.get("a") is None and events.call_args.args == ("hold", "job a was released by root")
    facts = holds.facts(NodeFacts(60, 0.0, ()))
    assert facts is not None and (facts.room, facts.fits, [word.on for word in facts.on_hold]) == (60, True, [False])
    assert facts.on_hold[0].at > clock.now, "later than the hold, by a clock that stands"


def test_who_releases_is_later_than_a_clock_that_is_ahead(clock: Clock) -> None:
    holds = JobsOnHold(Mock())
    holds.hear(told(OnHold("a", clock.now + 50, "eve", True)))
    holds.keep(eves)
    assert holds.get("a") is not None
    holds.say("a", "eve", False)
    holds.hear(told(OnHold("a", clock.now + 50, "eve", True)))
    holds.keep(eves)
    assert holds.get("a") is None, "said again, it is as old as before"
    holds.hear(told(OnHold("b", clock.now + 5000, "eve", True)))
    assert holds.get("b") is None, "no release could be later for an hour"


def test_a_clock_that_is_set_back_leaves_nothing_for_the_future(clock: Clock) -> None:
    holds = JobsOnHold(Mock())
    clock.now += 5000
    holds.say("a", "eve", True)
    clock.now -= 5000
    holds.keep(eves)
    word = holds.get("a")
    assert word is not None and word.at == clock.now


def test_a_release_is_told_on_after_the_end_and_a_hold_is_not(clock: Clock) -> None:
    holds = JobsOnHold(Mock())
    holds.say("a", "eve", True)
    holds.say("b", "eve", True)
    holds.say("b", "eve", False)
    holds.keep(lambda _jid: None)
    facts = holds.facts(None)
    assert facts is not None and [word.jid for word in facts.on_hold] == ["b"]
    clock.now += 60
    holds.keep(lambda _jid: None)
    assert holds.facts(None) is None


@pytest.mark.parametrize(("by", "counts"), [("eve", True), ("root", True), ("bob", False)])
def test_only_a_jobs_owner_and_root_are_heard(clock: Clock, by: str, counts: bool) -> None:
    holds = JobsOnHold(Mock())
    holds.hear(told(OnHold("a", clock.now, by, True)))
    holds.keep(eves)
    assert (holds.get("a") is not None) == counts


def test_in_any_order_all_nodes_come_to_the_same(clock: Clock) -> None:
    for seed in range(200):
        draw = random.Random(seed)
        nodes = {name: JobsOnHold(Mock()) for name in ("n1", "n2", "n3")}
        for _ in range(10):
            clock.now += draw.choice((0.0, 0.5))
            name = draw.choice(list(nodes))
            nodes[name].say("a", "eve", draw.random() < 0.5)
            hear(nodes, draw.sample(list(itertools.permutations(nodes, 2)), 2))
        for _ in range(2):
            hear(nodes, itertools.permutations(nodes, 2))
        assert len({holds.get("a") for holds in nodes.values()}) == 1, seed


def hear(nodes: dict[str, JobsOnHold], ways: Any) -> None:
    """Nodes hear of each other, on these ways."""
    for here, there in ways:
        facts = nodes[there].facts(None)
        nodes[here].hear({there: facts} if facts is not None else {})
        nodes[here].keep(eves)


class Asking(NamedTuple):
    """An agent that has a job "a" of eve, and whoever asks it."""

    agent: Mock
    peer: Mock

    def ask(self, op: str, **arguments: object) -> Any:
        return asyncio.run(getattr(Operations(self.agent), "_" + op)(self.peer, arguments))


@pytest.fixture
def asking() -> Asking:
    agent, holds = Mock(), JobsOnHold(Mock())
    job = Job("a", Path("/nowhere"), 1, "eve")
    agent.jobs.get = lambda jid: job if jid == "a" else None
    agent.contract.fitting.waits_for = lambda jid: "eve" if jid == "w" else None
    agent.contract.on_hold, agent.contract.put_on_hold, agent.contract.endings = holds, holds.say, {}
    agent.contract.state = lambda _jid: ("free", "")
    return Asking(agent, Mock(spec=Peer, is_root=False, user="eve"))


def test_it_is_put_on_hold_once_and_released_once(asking: Asking) -> None:
    for jid, was in (("a", "here"), ("w", "waiting")):
        first, second = asking.ask("hold", jid=jid), asking.ask("hold", jid=jid)
        assert (first["was"], first["by"], first["already"], second) == (was, "eve", False, first | {"already": True})
        assert asking.ask("release", jid=jid)["was"] == was
        with pytest.raises(CoschedError, match=f"job {jid} is not on hold") as refused:
            asking.ask("release", jid=jid)
        assert refused.value.status == 2


@pytest.mark.parametrize("op", ["hold", "release", "cancel"])
@pytest.mark.parametrize(
    ("user", "arguments", "words"),
    [("eve", {"jid": "b"}, "no job 'b'"), ("bob", {"jid": "a"}, "belongs to user eve, not to bob"),
     ("bob", {"jid": "w"}, "belongs to user eve"), ("eve", {}, "names no job"), ("eve", {"jid": 7}, "names no job")],
)  # fmt: skip
def test_only_the_owner_may(asking: Asking, op: str, user: str, arguments: dict[str, object], words: str) -> None:
    asking.peer.user = user
    with pytest.raises(CoschedError, match=words) as refused:
        asking.ask(op, **arguments)
    assert refused.value.status == 2


def test_slurm_and_jobs_that_end_are_left_alone(asking: Asking) -> None:
    asking.agent.contract.endings = Mock(why=lambda _jid: "was told to end", __contains__=lambda _self, _jid: True)
    with pytest.raises(CoschedError, match="job a was told to end: it is not put on hold"):
        asking.ask("hold", jid="a")
    asking.agent.jobs.get("a").origin = SLURM
    with pytest.raises(CoschedError, match="use scontrol suspend a"):
        asking.ask("hold", jid="a")


def test_a_job_that_is_cancelled_is_released_on_its_other_nodes(asking: Asking) -> None:
    for grace in (0, 30):
        asking.agent.contract.end.return_value = grace
        asking.ask("hold", jid="a")
        asking.ask("cancel", jid="a", grace=grace)
        assert asking.agent.contract.on_hold.get("a") is None
