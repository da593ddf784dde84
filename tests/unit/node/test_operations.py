# SPDX-License-Identifier: GPL-2.0-or-later
"""What a request may say of a job."""

from __future__ import annotations

import pytest

from ctl.errors import CoschedError
from ctl.node.operations import _ranks


@pytest.mark.parametrize("ranks", [-1, True, "2", 2.0, None, 1 << 40])
def test_ranks_are_a_number_that_a_node_can_have(ranks: object) -> None:
    with pytest.raises(CoschedError, match="ranks: give a number from 1 to"):
        _ranks({"ranks": ranks})


def test_ranks_may_be_unknown() -> None:
    assert _ranks({}) == _ranks({"ranks": 0}) == 0
