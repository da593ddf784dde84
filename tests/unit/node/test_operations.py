# SPDX-License-Identifier: GPL-2.0-or-later
"""What a request may say of a job."""

from __future__ import annotations

import pytest

from ctl.errors import CoschedError
from ctl.node.operations import _ending, _program, _ranks


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
