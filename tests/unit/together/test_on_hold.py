# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs on hold on two nodes: said on one, carried out on both, until it is released on any; with `fit` and without."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ctl.contract import Wish
from ctl.node.contract_report import _cluster
from ctl.policy import Settings, defaults, find_policy
from tests.unit.together.carrier import Broker
from tests.unit.together.node import MIB, Node, stand_ins
from tests.unit.together.virtual_time import Loop

_LOST = 12.0  # seconds: longer than a lease


@dataclass
class Pair:
    """Two nodes that hold a job "sim" of user eve."""

    loop: Loop
    one: Node
    two: Node

    def later(self, seconds: float = 0.5) -> None:
        self.loop.run_until(self.loop.now + seconds)

    def runs(self, jid: str = "sim") -> tuple[bool, bool]:
        return self.one.runs(jid), self.two.runs(jid)

    def say(self, node: Node, on: bool) -> tuple[bool, bool]:
        node.put_on_hold("sim", on)
        self.later()
        return self.runs()


@pytest.fixture(params=["fit", "csm"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    loop = Loop()  # type: ignore[abstract]
    broker = Broker(loop, random.Random(7), loss=0.0)
    nodes = [Node(loop, broker, name, 0.0, {}) for name in ("n1", "n2")]
    for node in nodes:
        node.settings = Settings(find_policy(request.param), {**defaults(), "sensors": "off", "events": "on"})
        node.load()
    found = Pair(loop, *nodes)
    with stand_ins(loop):
        found.later(3)
        for node in nodes:
            node.enter("sim", 10 * MIB, 0)
        found.later(3)
        yield found
        loop.end()


def test_it_is_said_on_one_node_and_carried_out_on_both(pair: Pair) -> None:
    assert pair.runs() == (True, True)
    assert pair.say(pair.one, True) == (False, False)
    assert pair.one.contract is not None and pair.two.contract is not None
    state, why = pair.two.contract.state("sim")
    assert (state, why.startswith("on hold by eve since 2")) == ("on_hold", True) and "`ctl release sim`" in why
    shown = _cluster(pair.two.contract)
    assert shown is not None and [(job["state"], job["why"]) for job in shown["jobs"]] == [("on_hold", why)]
    pair.later(60)
    assert pair.runs() == (False, False), "no lease ends it"
    assert pair.say(pair.two, False) == (True, True), "released on the other node"
    assert pair.say(pair.two, True) == (False, False)
    assert pair.say(pair.one, False) == (True, True)
    pair.later(60)
    assert pair.runs() == (True, True)


def test_an_unload_lets_it_go_on_there_and_a_new_agent_hears_of_it(pair: Pair) -> None:
    pair.say(pair.one, True)
    pair.one.unload()
    pair.later(_LOST)
    assert (pair.runs(), pair.one.left) == ((True, False), [])
    pair.one.load()
    pair.later(5)
    assert pair.runs() == (False, False)
    pair.one.kill()
    pair.later(_LOST)
    assert pair.runs() == (True, False), "the copy of the other node outlives the one where it was said"
    assert pair.say(pair.two, False) == (True, True)


def test_who_was_away_hears_of_the_release(pair: Pair) -> None:
    pair.say(pair.one, True)
    pair.two.broker.cut_off("n2")
    pair.later(_LOST)
    assert pair.runs() == (False, False), "a node that hears nobody does not release"
    assert pair.say(pair.one, False) == (True, False)
    pair.two.broker.cut.discard("n2")
    pair.later(5)
    assert pair.runs() == (True, True)
    pair.later(_LOST)
    assert pair.runs() == (True, True), "the older hold does not come back"


def test_a_rank_that_comes_later_is_on_hold_too(pair: Pair) -> None:
    pair.two.leave("sim")
    pair.later()
    pair.say(pair.one, True)
    pair.two.enter("sim", 10 * MIB, 0)
    pair.later(0.05)
    assert pair.runs() == (False, False)
    pair.two.leave("sim")
    pair.one.leave("sim")
    pair.later(2)
    for node in (pair.one, pair.two):
        node.enter("sim", 10 * MIB, 0)
    pair.later(2)
    assert pair.runs() == (True, True), "the next job of this name"


def test_another_users_job_of_this_name_is_not_concerned(pair: Pair) -> None:
    pair.two.jobs["sim"].user = "bob"
    assert pair.say(pair.one, True) == (False, True)


def test_a_job_that_waits_does_not_begin_on_any_node(pair: Pair) -> None:
    if not pair.one.settings.on("fit"):
        pytest.skip("no queue, no job that waits")
    big, wish = 900 * MIB, Wish("next", "eve", need=600 * MIB)
    for node in (pair.one, pair.two):
        node.kernel.held["sim"].size = big
    pair.later(2)
    assert all(node.ask(wish) for node in (pair.one, pair.two))
    pair.one.put_on_hold("next", True)
    pair.later(0.5)
    for node in (pair.one, pair.two):
        node.leave("sim")
    pair.later(2)
    why = [node.ask(wish) for node in (pair.one, pair.two)]
    assert all(one and one.startswith("on hold by eve") for one in why), why
    pair.two.put_on_hold("next", False)
    pair.later(0.5)
    assert [node.ask(wish) for node in (pair.one, pair.two)] == ["", ""]
