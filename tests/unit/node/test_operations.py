# SPDX-License-Identifier: GPL-2.0-or-later
"""What a request may say of a job."""

from __future__ import annotations

import asyncio
import socket
from unittest.mock import Mock

import pytest

from ctl.errors import CoschedError
from ctl.node.authority import Peer
from ctl.node.operations import Operations, _ending, _program, _ranks


@pytest.mark.parametrize("ranks", [-1, True, "2", 2.0, None, 1 << 40])
def test_ranks_are_a_number_that_a_node_can_have(ranks: object) -> None:
    with pytest.raises(CoschedError, match="ranks: give a number from 1 to"):
        _ranks({"ranks": ranks})


def test_ranks_may_be_unknown() -> None:
    assert _ranks({}) == _ranks({"ranks": 0}) == 0


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"signal": 0}, "signal 0"), ({"signal": 40}, "signal 40"), ({"signal": True}, "signal True"),
     ({"signal": "TERM"}, "TERM"), ({"grace": -1}, "grace of -1"), ({"grace": 601}, "from 0 to 600"),
     ({"grace": 1.5}, "1.5"), ({"grace": None}, "None")],
)  # fmt: skip
def test_an_end_has_a_signal_and_a_bounded_grace(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(CoschedError) as refused:
        _ending(wrong)
    assert words in str(refused.value) and refused.value.status == 2


def test_a_job_is_killed_at_once_unless_it_is_given_time() -> None:
    assert _ending({}) == (15, 0)
    assert _ending({"signal": 10, "grace": 600}) == (10, 600)


@pytest.mark.parametrize("key", [7, None, "a" * 4097, "a\x1b[2J", "a\n"])
def test_a_key_can_be_kept_and_printed(key: object) -> None:
    with pytest.raises(CoschedError, match="is no key: give at most 4096 printable characters") as refused:
        _program({"program": key})
    assert refused.value.status == 2
    assert _program({}) == "" and _program({"program": "/usr/bin/make /home/eve small"}).endswith("small")


def test_a_user_forgets_runs_of_their_own_and_root_those_of_all() -> None:
    agent = Mock()
    forget = agent.contract.fitting.forget
    ours, theirs = socket.socketpair()
    with ours, theirs:
        peer = Peer(ours)
        try:
            for uid, user in ((0, None), (4711, "4711")):
                peer.uid, forget.return_value = uid, 2
                done = Operations(agent)._forget(peer, {"program": "/bin/cat"})
                assert asyncio.run(done) == {"program": "/bin/cat", "runs": 2}
                forget.assert_called_with("/bin/cat", user)
            forget.return_value = 0
            with pytest.raises(CoschedError, match="no run of '/bin/cat' of user 4711 is known"):
                asyncio.run(Operations(agent)._forget(peer, {"program": "/bin/cat"}))
        finally:
            peer.close()
